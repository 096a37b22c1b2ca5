"""The event streams of sse_streams.json, in virtual time and over a real socket.

The expectations are hand-written, from what servers were seen to send and clients got wrong.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from farm.adapters import chat, responses
from farm.adapters.measured import MeasuredEndpoint, _Kept
from farm.adapters.secret import Secret
from farm.adapters.stream import BrokenStream, Stamped, read_stream
from farm.core.served import ControlReply, Served
from farm.qualify.metrics import Measured, measure
from tests.adapters.loopback import Loopback, Received, Wire
from tests.vectors.load import known

CASES = {case["id"]: case for case in known("sse_streams")["cases"]}
STREAMS = [name for name, case in CASES.items() if case["http_status"] == 200]


async def virtual(case: dict[str, Any]) -> Served:
    """Read a case with exactly the stamps it names."""

    async def reads() -> AsyncIterator[Stamped]:
        at = 0.0
        for at, data in case["reads"]:
            yield at, base64.b64decode(data)
        if case["end"] == "reset":
            raise BrokenStream("connection reset", at=at)

    dialect = responses.read_event if case["api"] == "responses" else chat.read_event
    kept = _Kept(dialect)
    reading = await read_stream(reads(), kept.take)
    return Served(reading=reading, usage=kept.usage, timings=kept.timings)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def call_served_by(
    handler: Handler, *, protocol: str = "chat_completions", key: Secret | None = None
) -> Served:
    """Serve one connection on the loopback and make one call to it; both are over on return."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except ConnectionError:
            pass  # the client has read what it wanted
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with MeasuredEndpoint(
            f"http://127.0.0.1:{port}/v1", connections=1, timeout_s=10, key=key
        ) as endpoint:
            served = await endpoint.stream(b"{}", protocol=protocol, request_id="r")
        await over.wait()
    return served


async def over_socket(case: dict[str, Any], *, pace: bool = True) -> Served:
    """Serve a case from a socket, each read written at its time, and call it."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)  # the body, {}
        writer.write(
            f"HTTP/1.1 {case['http_status']} X\r\nContent-Type: {case['content_type']}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        began = asyncio.get_running_loop().time()
        for at, data in case["reads"]:
            raw = base64.b64decode(data)
            if pace:
                left = began + at - asyncio.get_running_loop().time()
                await asyncio.sleep(max(0.0, left))
            writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
            await writer.drain()
        if case["end"] == "reset":
            await asyncio.sleep(0.05)  # a reset may overtake what was sent before it
            writer.transport.abort()
            return
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    protocol = "responses" if case["api"] == "responses" else "chat_completions"
    return await call_served_by(handler, protocol=protocol)


def check(expected: dict[str, Any], served: Served, found: Measured, *, times: bool) -> None:
    """Hold everything a case says against what was read."""
    reading = served.reading
    seen = {
        "status": reading.status,
        "text": reading.text,
        "reasoning": reading.reasoning,
        "error": reading.error,
        "finish_reason": reading.finish_reason,
        "completion_tokens": found.completion_tokens,
        "prompt_tokens": found.prompt_tokens,
        "cached_tokens": found.cached_tokens,
        "server_decode_tps": found.server_decode_tokens_s,
        "tool_calls": [[call.name, call.arguments] for call in reading.tool_calls],
        "first_event_s": found.first_event_s,
        "ttft_any_s": found.ttft_any_s,
        "ttft_visible_s": found.ttft_visible_s,
        "decode_tps": found.client_decode_tokens_s,
        "elapsed_s": found.elapsed_s,
        "gaps_s": list(reading.timing.gaps_s),
        "read_gaps_s": list(reading.timing.read_gaps_s),
        "coalesced": found.coalesced_events,
    }
    timed = {
        "first_event_s", "ttft_any_s", "ttft_visible_s", "decode_tps", "elapsed_s", "gaps_s",
        "read_gaps_s", "coalesced",
    }  # fmt: skip
    for name, answer in expected.items():
        if name == "warnings":
            assert set(answer) <= set(reading.warnings)
        elif name in timed and not times:
            continue
        elif isinstance(answer, float) or (isinstance(answer, list) and name in timed):
            assert seen[name] == pytest.approx(answer, abs=1e-9), name
        else:
            assert seen[name] == answer, name


@pytest.mark.parametrize("id", STREAMS)
def test_a_stream_is_read_as_it_is_meant_with_its_times(id: str) -> None:
    """Every figure of the case, at the very stamps the case names."""
    served = asyncio.run(virtual(CASES[id]))
    check(CASES[id]["expected"], served, measure(served), times=True)


@pytest.mark.parametrize("id", sorted(CASES))
def test_a_stream_from_a_real_socket_says_the_same(id: str) -> None:
    """Bytes through the kernel and the client library: status, texts, counts and calls."""
    # one byte a millisecond is slow, and what comes long after the end is not waited for
    pace = id not in ("35_one_byte_reads", "33_after_done")
    served = asyncio.run(over_socket(CASES[id], pace=pace))
    check(CASES[id]["expected"], served, measure(served), times=False)


@pytest.mark.parametrize("id", ["01_role_first", "02_reasoning_content", "16_tool_index"])
def test_no_stamp_is_earlier_than_its_bytes(id: str) -> None:
    """A payload written 0.1 s after the request cannot have been seen sooner."""
    found = measure(asyncio.run(over_socket(CASES[id])))
    for name in ("ttft_any_s", "ttft_visible_s"):
        seen = getattr(found, name)
        assert seen is not None
        assert seen >= CASES[id]["expected"][name] - 0.005


def test_the_objects_of_the_server_are_kept_whole() -> None:
    """Usage and timings stand beside what farm understands of them."""
    case = CASES["20_one_token"]
    served = asyncio.run(virtual(case))
    assert served.usage is not None
    assert served.usage["completion_tokens"] == 1
    assert served.timings is not None
    assert "predicted_per_second" in served.timings
    assert measure(served).timings == served.timings


def test_opening_a_connection_is_told_apart_from_waiting() -> None:
    """The clock of the figures starts when the connection stands."""
    served = asyncio.run(over_socket(CASES["01_role_first"]))
    assert served.connect_s is not None
    assert 0 < served.connect_s < 5


def test_json_where_a_stream_was_asked_for_is_no_measurement() -> None:
    """Its one arrival is neither a first payload nor a gap."""
    body = base64.b64encode(b'{"choices":[{"message":{"content":"x"}}]}').decode()
    case = {
        "api": "chat", "http_status": 200, "content_type": "application/json", "end": "eof",
        "reads": [[0.0, body]],
    }  # fmt: skip
    assert asyncio.run(over_socket(case)).reading.status == "not_sse"


def test_a_server_that_is_not_there_is_an_error_of_the_call() -> None:
    """Nothing is raised; the wave goes on and records it."""

    async def call() -> Served:
        # port 9 of the loopback: discard, where nothing listens
        async with MeasuredEndpoint("http://127.0.0.1:9", connections=1, timeout_s=5) as endpoint:
            return await endpoint.stream(b"{}", protocol="chat_completions", request_id="r")

    served = asyncio.run(call())
    assert served.reading.status == "error"
    assert served.reading.error_code == "connection"


def test_a_key_that_the_server_quotes_back_is_not_kept() -> None:
    """Errors go into files."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 401 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
            b'{"error":{"message":"bad key sk-123"}}'
        )
        await writer.drain()

    key = Secret("sk-123", name="KEY")
    reading = asyncio.run(call_served_by(handler, key=key)).reading
    assert "sk-123" not in reading.error
    assert "bad key" in reading.error


KEY = "sk-a/b-0123456789abcdefghij"
_DELTAS: list[dict[str, Any]] = [
    {"delta": {"reasoning_content": f"the header says {KEY}"}},
    {"delta": {"content": f"it is {KEY}"}},
    {"delta": {"tool_calls": [{"index": 0, "id": "c-1", "function": {
        "name": f"f-{KEY}", "arguments": json.dumps({"key": KEY})}}]}},
    {"delta": {}, "finish_reason": f"stop-{KEY}"},
]  # fmt: skip
_OBJECTS: dict[str, Any] = {
    "usage": {"completion_tokens": 3, "prompt_tokens": 5, KEY: [KEY], "by": {"who": KEY}},
    "timings": {"predicted_per_second": 7.0, KEY: KEY},
    "metrics": {"queue": {KEY: [[KEY]]}},
    "model": f"m-{KEY}",
}


def test_a_key_quoted_back_stands_in_nothing_that_is_kept_of_an_answer() -> None:
    """Answers, and the server's own objects beside them, go into the files of a run."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, **delta}]} for delta in _DELTAS]
    chunks.append(_OBJECTS | {"choices": []})

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        writer.write(
            b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            + data
            + b"data: [DONE]\n\n"
        )
        await writer.drain()

    served = asyncio.run(call_served_by(handler, key=Secret(KEY, name="KEY")))
    assert served.reading.status == "ok"
    assert served.reading.text == "it is [key]"
    assert served.usage == {
        "completion_tokens": 3, "prompt_tokens": 5, "[key]": ["[key]"], "by": {"who": "[key]"},
    }  # fmt: skip
    assert served.timings is not None
    assert served.timings["predicted_per_second"] == 7.0
    written = msgspec.json.encode([served, measure(served)]).decode()
    assert [KEY[at : at + 8] for at in range(len(KEY) - 7) if KEY[at : at + 8] in written] == []


@pytest.mark.parametrize("status", [200, 401])
def test_a_key_quoted_back_stands_in_no_answer_to_a_control_request(status: int) -> None:
    """Such answers are shown in messages, and stored as what the server is."""
    said = {"error": {"message": f"no such key: {KEY}", KEY: [KEY, 3]}, "version": KEY}

    async def asked() -> ControlReply:
        async def handle(received: Received, wire: Wire) -> None:
            await wire.reply(json.dumps(said).encode(), status=status)

        async with (
            Loopback(handle) as server,
            MeasuredEndpoint(
                server.url, connections=1, timeout_s=10, key=Secret(KEY, name="KEY")
            ) as endpoint,
        ):
            return await endpoint.control("GET", "/props")

    reply = asyncio.run(asked())
    assert reply.status == status
    assert reply.body == {
        "error": {"message": "no such key: [key]", "[key]": ["[key]", 3]}, "version": "[key]",
    }  # fmt: skip
