"""Every event a run can tell of: its shape on the wire, its limit, its schema."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.event import (
    EVENTS,
    MAX_LINE_BYTES,
    Event,
    Note,
    Value,
    decode_event,
    encode_event,
    note,
    schema,
    stamp,
    to_dict,
)
from farm.errors import SpecError

VALIDATOR = jsonschema.Draft202012Validator(schema())
_EXAMPLES: dict[type, Value] = {str: "text", int: 3, float: 0.5, bool: True}


def example(name: str, **other: Value) -> Note:
    """A note of the name with a value in every declared field."""
    declared = EVENTS[name][1]
    fields: dict[str, Value] = {field: _EXAMPLES[kind] for field, kind in declared.items()}
    return note(name, **(fields | other))


def stamped(noted: Note, *, seq: int = 1, now_ms: float = 0) -> Event:
    return stamp(noted, now_ms=now_ms, run_id="0123456789abcdef", invocation_id="i", seq=seq)


def test_the_wire_form_of_an_event_is_one_flat_object_a_line() -> None:
    """1735689600123.456 ms after the epoch is a little after the new year of 2025 in UTC."""
    claimed = note(
        "shard.claimed", shard="shard-0", worker="w1", version=2, until=1735689630123, cases=5
    )
    assert encode_event(stamped(claimed, seq=4, now_ms=1735689600123.456)) == (
        b'{"ts":"2025-01-01T00:00:00.123456Z","level":"info","event":"shard.claimed",'
        b'"run_id":"0123456789abcdef","invocation_id":"i","seq":4,'
        b'"shard":"shard-0","worker":"w1","version":2,"until":1735689630123,"cases":5}\n'
    )


def test_a_time_of_whole_seconds_has_its_microseconds_too() -> None:
    """A log pipeline sorts these as text."""
    assert stamped(example("run.draining")).ts == "1970-01-01T00:00:00.000000Z"


def test_names_are_dotted_and_in_the_past_tense_and_levels_are_a_closed_set() -> None:
    for name, (level, fields) in EVENTS.items():
        assert re.fullmatch(
            r"(run|store|worker|model|shard|log|sandbox|call|endpoint|cell)\.([a-z_]+ed|pending|partial|draining)",
            name,
        )
        assert level in {"debug", "info", "warning", "error"}
        assert not {"ts", "level", "event", "run_id", "invocation_id", "seq"} & fields.keys()


def test_what_a_person_must_look_at_is_louder_than_what_goes_well() -> None:
    """Levels decide what a pipeline wakes somebody for."""
    assert {name for name, (level, _) in EVENTS.items() if level == "error"} == {
        "endpoint.halted",
        "run.partial",
        "run.failed",
        "shard.quarantined",
    }


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_keeps_the_schema_and_is_read_back(name: str) -> None:
    event = stamped(example(name))
    line = encode_event(event)
    VALIDATOR.validate(json.loads(line))
    assert decode_event(line) == event


@pytest.mark.parametrize("name", EVENTS)
def test_the_schema_refuses_an_event_with_a_field_too_few_or_too_many(name: str) -> None:
    """The schema must be able to fail, or it says nothing."""
    flat = to_dict(stamped(example(name)))
    assert not VALIDATOR.is_valid(flat | {"more": 1})
    assert not VALIDATOR.is_valid(flat | {"level": "loud"})
    for field in flat:
        assert not VALIDATOR.is_valid({key: flat[key] for key in flat if key != field})


def test_a_recovered_event_says_so_and_keeps_the_schema() -> None:
    noted = example("shard.claimed", recovered=True)
    VALIDATOR.validate(json.loads(encode_event(stamped(noted))))


@pytest.mark.parametrize("wrong", [{"more": 1}, {"reason": "x", "more": None}, {}])
def test_a_note_takes_exactly_the_declared_fields(wrong: dict[str, Value]) -> None:
    with pytest.raises(SpecError, match=r"event run\.draining: fields .* are not as declared"):
        note("run.draining", **wrong)


def test_a_note_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        note("run.exploded")


HOSTILE = [
    "x" * 200_000,
    "\x00" * 100_000,  # six bytes each on the wire
    '"' * 50_000,
    "\\" * 50_000,
    "é" * 50_000,
    "😀" * 50_000,
    "\n\r\x1b[31m" * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text[:2]) for text in HOSTILE])
@pytest.mark.parametrize("name", EVENTS)
def test_no_line_is_longer_than_sixteen_kibibytes_whatever_the_texts(name: str, text: str) -> None:
    """16 KiB is where common log shippers cut; the line stays one object of its schema."""
    fields: dict[str, Value] = {key: text for key, kind in EVENTS[name][1].items() if kind is str}
    line = encode_event(stamped(example(name, **fields)))
    assert len(line) <= 16_384
    assert line.count(b"\n") == 1
    flat = json.loads(line)
    VALIDATOR.validate(flat)
    assert flat.get("truncated", False) == bool(fields)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=4000).map(lambda s: s * 5))
def test_a_text_that_fits_is_never_cut_and_one_that_does_not_is_cut_at_its_end(text: str) -> None:
    flat = json.loads(encode_event(stamped(note("run.draining", reason=text))))
    whole = len(msgspec.json.encode(text)) + 150 < MAX_LINE_BYTES
    if whole:
        assert flat["reason"] == text
    assert text.startswith(flat["reason"])
    assert ("truncated" in flat) == (flat["reason"] != text)


def test_a_line_of_exactly_the_limit_is_left_whole() -> None:
    """The newline is counted: 16,383 bytes and the newline are 16 KiB."""
    bare = len(encode_event(stamped(note("run.draining", reason=""))))
    fits = encode_event(stamped(note("run.draining", reason="x" * (16_384 - bare))))
    assert (len(fits), b"truncated" in fits) == (16_384, False)
    over = encode_event(stamped(note("run.draining", reason="x" * (16_385 - bare))))
    assert b'"truncated":true' in over


def test_text_that_utf_8_cannot_hold_is_written_with_backslashes() -> None:
    """A file name of foreign bytes comes in as lone surrogates; an event must survive it."""
    noted = note("run.failed", reason="b\udcffd", elapsed_s=0.0, **STANDING)
    assert json.loads(encode_event(stamped(noted)))["reason"] == "b\\udcffd"


STANDING: dict[str, Value] = {
    "completed_shards": 0, "active_shards": 1, "evaluated": 0, "correct": 0,
}  # fmt: skip
GOOD: dict[str, Any] = json.loads(encode_event(stamped(example("shard.claimed"))))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null\n",
        b"[1]\n",
        b'{"ts":1}\n',
        b"\xff\n",
        b'{"a":' + b"[" * 15_000,
        *(json.dumps({k: v for k, v in GOOD.items() if k != name}).encode() for name in GOOD),
        *(json.dumps(GOOD | {name: None}).encode() for name in GOOD),
        *(json.dumps(GOOD | {name: [1]}).encode() for name in GOOD),
        json.dumps(GOOD | {"seq": True}).encode(),
        json.dumps(GOOD | {"seq": 1.0}).encode(),
        json.dumps(GOOD | {"version": "2"}).encode(),
        json.dumps(GOOD | {"more": {"nested": 1}}).encode(),
    ],
)
def test_a_line_that_is_no_event_is_refused_in_one_way(line: bytes) -> None:
    """Readers turn this one error into a damaged file with its line."""
    with pytest.raises(msgspec.DecodeError):
        decode_event(line)


def test_an_event_of_a_newer_farm_is_passed_on_with_its_fields() -> None:
    line = json.dumps(GOOD | {"event": "shard.polished", "shine": 0.5}).encode()
    assert decode_event(line).fields["shine"] == 0.5


def test_an_event_names_its_shard_or_none() -> None:
    assert stamped(example("shard.claimed")).shard == "text"
    assert stamped(example("run.draining")).shard == ""
