"""What servers send beside the letter of the interface, over a real socket."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest

from farm.adapters.foreign import storable
from farm.adapters.measured import MeasuredEndpoint
from farm.core.generation import ToolCall
from farm.core.served import Served
from farm.qualify.metrics import measure
from tests.adapters.loopback import Loopback, Received, Wire, answer, run

USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def said(finish: str | None = None, **delta: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def called(id: str | None, name: str | None, arguments: object, index: int | None = 0) -> bytes:
    call: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": id}
    if index is not None:
        call["index"] = index
    return said(tool_calls=[call])


END = said("stop") + event({"choices": [], "usage": USAGE}) + DONE


async def served(
    *parts: bytes,
    content_type: str = "text/event-stream",
    headers: str = "",
    status: int = 200,
    protocol: str = "chat_completions",
) -> tuple[Served, Received]:
    """Serve the parts one by one to one measured call."""

    async def handle(received: Received, wire: Wire) -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {content_type}\r\n{headers}"
        await wire.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for part in (*parts, b""):
            await wire.chunk(part)

    async with (
        Loopback(handle) as server,
        MeasuredEndpoint(server.url, connections=1, timeout_s=20) as endpoint,
    ):
        found = await endpoint.stream(b"{}", protocol=protocol, request_id="r")
        return found, server.received[0]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # the name comes again with every piece
        (
            [called("a", "f", ""), called("a", "f", '{"x":'), called("a", "f", "1}")],
            [("f", '{"x":1}')],
        ),
        # a name in two pieces is one name
        ([called("a", "read_", ""), called(None, "record", "{}")], [("read_record", "{}")]),
        # an identifier of its own for every piece, as vLLM once made them
        (
            [called("a", "f", ""), called("b", None, '{"x":'), called("c", None, "1}")],
            [("f", '{"x":1}')],
        ),
        # two whole calls of a server that numbers and names none
        (
            [called(None, "f", '{"x":1}', None), called(None, "g", "{}", None)],
            [("f", '{"x":1}'), ("g", "{}")],
        ),
        # two calls numbered 0 under two identifiers
        ([called("a", "f", "{}"), called("b", "f", "{}")], [("f", "{}"), ("f", "{}")]),
        # one identifier under two numbers
        ([called("a", "f", "{}"), called("a", "g", "{}", 1)], [("f", "{}"), ("g", "{}")]),
        # the arguments as an object, not as its text
        ([called("a", "f", {"x": 1})], [("f", '{"x": 1}')]),
    ],
)
def test_tool_calls_are_told_apart_however_they_are_cut(
    pieces: list[bytes], calls: list[tuple[str, str]]
) -> None:
    """A call is what one identifier, else one number, else one whole object of arguments holds."""
    found, _ = run(served(*pieces, said("tool_calls") + END))
    assert found.reading.status == "ok"
    assert list(found.reading.tool_calls) == [
        ToolCall(name=name, arguments=arguments) for name, arguments in calls
    ]


def test_an_error_in_the_older_form_of_vllm_is_an_error() -> None:
    """{"object": "error"} in mid-stream, and a [DONE] that would pass it for a whole answer."""
    broken = {"object": "error", "message": "out of memory", "code": 500}
    found, _ = run(served(said(content="a"), event(broken), DONE))
    reading = found.reading
    assert (reading.status, reading.error, reading.error_code) == ("error", "out of memory", "500")


@pytest.mark.parametrize("word", ["ping", "heartbeat", "keepalive", "keep-alive"])
def test_events_that_keep_a_connection_open_are_no_part_of_the_answer(word: str) -> None:
    """Neither their time nor their data, which need not be JSON."""
    ping = f"event: {word}\ndata: 2026-01-01T00:00:00\n\n".encode()
    found, _ = run(served(ping, said(content="a"), ping, END))
    assert (found.reading.status, found.reading.text) == ("ok", "a")
    assert found.reading.timing.first_event_s == found.reading.timing.first_payload_s


@pytest.mark.parametrize("number", [2**53 + 1, 2**64 - 1, 10**30])
def test_a_number_that_counts_nothing_is_not_told(number: int) -> None:
    """Sums of such counts do not fit a file; the server's own object is kept all the same."""
    usage = {"prompt_tokens": 9, "completion_tokens": number}
    end = event({"choices": [], "usage": usage, "timings": {"draft_n": number, "cache_n": 3}})
    found, _ = run(served(said("stop", content="a"), end, DONE))
    figures = measure(found)
    assert (figures.prompt_tokens, figures.completion_tokens) == (9, None)
    assert figures.draft_acceptance is None
    assert figures.usage is not None
    assert figures.usage["completion_tokens"] == pytest.approx(number)
    assert msgspec.json.encode(found)


def test_half_a_character_in_the_objects_of_a_server_ends_no_run() -> None:
    """A lone surrogate in usage, in timings, in a call's id: all of it is written to a file."""
    half = b'"\\ud800"'
    call = (
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":'
        + half
        + b',"function":{"name":"f","arguments":"{}"}}]}}]}\n\n'
    )
    end = b'data: {"choices":[],"usage":{"prompt_tokens":9,"x":{%b:[%b]}}}\n\n' % (half, half)
    found, _ = run(served(call, said("tool_calls"), end, DONE))
    assert found.tool_ids == ("�",)
    assert found.usage == {"prompt_tokens": 9, "x": {"�": ["�"]}}
    assert msgspec.json.encode(found)


def test_numbers_of_any_size_are_storable() -> None:
    """What fits stays as it is; what does not becomes a float, and null where even that ends."""
    kept = {"a": 2**64 - 1, "b": -(2**63), "c": [1.5, None, True]}
    assert storable(kept) == kept
    assert storable([10**30, -(10**30), 10**400]) == [1e30, -1e30, None]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_name_of_reasoning_is_the_servers_own(field: str) -> None:
    """It goes back under the name it came under; the text is read under both."""
    found, _ = run(served(said(**{field: "hm"}), said(content="a"), END))
    assert found.reading.reasoning == "hm"
    assert found.reasoning_field == field


def test_a_stream_is_asked_for_uncompressed_and_read_all_the_same() -> None:
    """Compression holds events back; a proxy may do it unasked."""
    packed = gzip.compress(said(content="a") + END)
    found, received = run(served(packed, headers="Content-Encoding: gzip\r\n"))
    assert received.headers["accept-encoding"] == "identity"
    assert (found.reading.status, found.reading.text) == ("ok", "a")


def test_an_answer_in_one_piece_is_kept_and_is_no_measurement() -> None:
    """What it says and its tokens are there; a first payload or a gap there is not."""
    found, _ = run(served(answer("four"), content_type="application/json"))
    figures = measure(found)
    assert (figures.status, found.reading.text, figures.completion_tokens) == ("not_sse", "four", 2)
    assert (figures.ttft_any_s, figures.chunks, figures.chunk_gap_p50_s) == (None, 0, None)
    assert "'application/json' came" in figures.error


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b'{"error": "busy"}', "application/json", "error"),
        (b'{"object": "error", "message": "busy"}', "application/json", "error"),
        (b"<html>busy</html>", "text/html", "not_sse"),
        (b"{}", "application/json", "not_sse"),
        (b"", "application/json", "not_sse"),
    ],
)
def test_what_is_no_stream_is_named(body: bytes, content_type: str, status: str) -> None:
    """Under a 200: an error object is an error, everything else is not what was asked for."""
    found, _ = run(served(*([body] if body else []), content_type=content_type))
    assert found.reading.status == status
    assert found.reading.error


def test_every_2xx_is_an_answer() -> None:
    """As everywhere in this package; a proxy may answer 201."""
    found, _ = run(served(said(content="a"), END, status=201))
    assert (found.reading.status, found.reading.text) == ("ok", "a")


def item(kind: str, **more: Any) -> bytes:
    fields = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", **more}
    return event({"type": f"response.output_item.{kind}", "item": fields})


def arguments(piece: str) -> bytes:
    return event(
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "delta": piece}
    )


COMPLETED = event(
    {
        "type": "response.completed",
        "response": {"usage": {"input_tokens": 9, "output_tokens": 2}},
    }
)


@pytest.mark.parametrize(
    "events",
    [
        [item("added"), arguments('{"x":'), arguments("1}"), item("done", arguments='{"x":1}')],
        [item("added"), item("done", arguments='{"x":1}')],
        [item("done", arguments='{"x":1}')],
        [arguments('{"x":1}'), item("done", arguments='{"x":1}')],
    ],
)
def test_a_call_of_the_responses_interface_is_read_from_whatever_tells_it(
    events: list[bytes],
) -> None:
    """Some servers send a subset of the events; what came before is not told twice."""
    found, _ = run(served(*events, COMPLETED, protocol="responses"))
    assert found.reading.status == "ok"
    assert found.reading.tool_calls == (ToolCall(name="f", arguments='{"x":1}'),)
    assert found.tool_ids == ("c1",)
