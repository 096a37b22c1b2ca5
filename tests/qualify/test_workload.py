"""Fixtures are the same everywhere, different from each other, and as long as they say."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.generation import ToolCall
from farm.core.reading import Reading
from farm.core.served import Served
from farm.errors import SpecError
from farm.qualify.bodies import assistant_turn, request_body
from farm.qualify.config import complete_config, read_config
from farm.qualify.workload import (
    Count,
    Fixture,
    archive,
    archive_record,
    fixed_records,
    messages_of,
    prepare,
    private_record,
    request_id_of,
)
from tests.qualify.servers import COMPLETE

ID = request_id_of(seed=0, context=8192, concurrency=1, repeat=0, stream=0)


def counter(letters: float, *, overhead: int = 0, asked: list[int] | None = None) -> Count:
    """Return a counter of one token for so many letters."""

    async def count(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> int:
        if asked is not None:
            asked.append(1)
        return overhead + int(sum(len(m["content"]) for m in messages) / letters)

    return count


def made(target: int, count: Count, mode: Any = "equal_tokens", id: str = ID) -> Fixture:
    return asyncio.run(prepare(id, target=target, mode=mode, count=count))


def test_the_identifier_of_a_request_is_stable() -> None:
    """SHA-256 of its place in the matrix, 16 digits; worked out once with sha256sum."""
    assert ID == "3f3fceaf2ed08460"
    places = [
        request_id_of(seed=s, context=c, concurrency=k, repeat=r, stream=i)
        for s in (0, 1) for c in (512, 1024) for k in (1, 2) for r in (0, 1) for i in (0, 1)
    ]  # fmt: skip
    assert len(set(places)) == len(places)


def test_a_record_is_the_same_on_every_machine() -> None:
    """Only hashes choose: this text is part of the format."""
    assert (
        archive_record(ID, 0)
        == "def parse_prices_0(prices):\n    return max(prices, default=1) - 53\n"
    )


def test_the_archive_is_python_and_varied() -> None:
    """Every record compiles; hardly two bodies are alike."""
    text = archive(ID, records=300)
    compile(text, "archive", "exec")
    bodies = [archive_record(ID, index).partition("\n")[2] for index in range(300)]
    assert len(set(bodies)) > 250


def test_two_requests_share_no_beginning() -> None:
    """The id is the first thing a template renders, so a cache knows nothing of the other."""
    other = request_id_of(seed=0, context=8192, concurrency=1, repeat=1, stream=0)
    first = messages_of(ID, "x")[0]["content"]
    second = messages_of(other, "x")[0]["content"]
    assert first.startswith(ID)
    assert second.startswith(other)
    assert ID[:4] != other[:4]


@settings(max_examples=60, deadline=None)
@given(
    target=st.integers(600, 140_000),
    letters=st.floats(1.5, 8.0),
    overhead=st.integers(0, 100),
)
def test_the_count_lies_in_the_window(target: int, letters: float, overhead: int) -> None:
    """Target to target + 64, whatever the tokenizer, in few questions."""
    asked: list[int] = []
    count = counter(letters, overhead=overhead, asked=asked)
    smallest = int(sum(len(m["content"]) for m in messages_of(ID, "")) / letters) + overhead
    if smallest > target:
        return
    fixture = made(target, count)
    assert fixture.tokens is not None
    assert target <= fixture.tokens <= target + 64
    text = archive(ID, records=fixture.records, filler=fixture.filler)
    assert fixture.messages == messages_of(ID, text)
    assert len(asked) <= 40


def test_a_counter_of_single_letters_is_met_with_words() -> None:
    """A record is longer than the window then; short words fill the rest."""
    fixture = made(4000, counter(1.0))
    assert fixture.tokens is not None
    assert 4000 <= fixture.tokens <= 4064


def test_a_counter_that_does_not_rise_is_refused() -> None:
    """It ends, with a message, and does not search for ever."""

    async def broken(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> int:
        return 100

    with pytest.raises(SpecError, match="check it"):
        made(4096, broken)


def test_a_context_below_the_task_itself_is_refused() -> None:
    """The words of the task alone are more."""
    with pytest.raises(SpecError, match="too small"):
        made(256, counter(0.5))


def test_fixed_bytes_depend_on_the_target_alone() -> None:
    """The counter is asked once and decides nothing."""
    one = made(8192, counter(2.0), "fixed_bytes")
    other = made(8192, counter(5.0), "fixed_bytes")
    assert one.messages == other.messages
    assert one.records == fixed_records(8192)
    assert one.tokens != other.tokens


def test_the_private_record_is_in_no_prompt() -> None:
    """The price appears nowhere before the tool's response."""
    for stream in range(50):
        one = request_id_of(seed=3, context=512, concurrency=50, repeat=0, stream=stream)
        record = private_record(one)
        text = messages_of(one, archive(one, records=5))[1]["content"]
        assert str(record.unit_price_cents) not in re.findall(r"\d{3,}", text)
        assert record.quantity != record.changed_quantity
        assert record.total == record.unit_price_cents * record.quantity


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_under_the_servers_own_name(field: str) -> None:
    """Some servers read one name only, the one they send."""
    call = ToolCall(name="read_record", arguments="{}")
    reading = Reading(status="ok", reasoning="hm", tool_calls=(call,))
    turn = assistant_turn(Served(reading=reading, reasoning_field=field, tool_ids=("a",)), call)
    assert turn[field] == "hm"
    assert len({"reasoning", "reasoning_content"} & turn.keys()) == 1
    assert turn["tool_calls"][0]["id"] == "a"


def test_usage_is_asked_for_unless_the_server_refuses_to_hear_it() -> None:
    """Null in request_options leaves stream_options out of a request."""
    raw = {**COMPLETE, "url": "http://x"}
    for options, asks in (({}, True), ({"stream_options": None}, False)):
        given = json.dumps({**raw, "request_options": options}).encode()
        config = complete_config(read_config(given, file="c"), file="c")
        body = json.loads(request_body(config, [{"role": "user", "content": "x"}], (), first=True))
        assert ("stream_options" in body) is asks
        assert body["stream"] is True
    for value in ({"include_usage": False}, {}):
        given = json.dumps({**raw, "request_options": {"stream_options": value}}).encode()
        with pytest.raises(SpecError, match="is set by the qualification itself"):
            read_config(given, file="c")
