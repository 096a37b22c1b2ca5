"""An answer that the server itself calls failed is an error, in every dialect, any way it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from farm.adapters import chat, messages, responses
from farm.adapters.anthropic import AnthropicEndpoint
from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.settings import AnthropicSettings
from farm.adapters.stream import BrokenStream, Dialect, Stamped, read_stream
from farm.core.generation import Generation
from farm.core.reading import Reading
from tests.adapters.asking import openai_settings, task
from tests.adapters.loopback import Loopback, Received, Wire, run

DONE = b"data: [DONE]\n\n"


def events(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def read(data: bytes, dialect: Dialect, *, broken: bool = False) -> Reading:
    """Read a stream that came in one piece, and closed or broke."""

    async def reads() -> AsyncIterator[Stamped]:
        yield 0.1, data
        if broken:
            raise BrokenStream("connection reset", at=0.2)

    return asyncio.run(read_stream(reads(), dialect))


async def asked(body: bytes, *, streamed: bool, anthropic: bool = False) -> Generation:
    """Ask a server that sends this body."""
    kind = "text/event-stream" if streamed else "application/json"

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(body, status=200, content_type=kind)

    async with Loopback(handle) as server:
        endpoint: OpenAIEndpoint | AnthropicEndpoint
        if anthropic:
            given = AnthropicSettings(
                adapter="anthropic", base_url=server.url, model="m", stream=streamed
            )
            endpoint = AnthropicEndpoint(given, name="model")
        else:
            endpoint = OpenAIEndpoint(openai_settings(server.url, stream=streamed), name="model")
        async with endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))


def kind_of(generation: Generation) -> str:
    return generation.failure.kind if generation.failure else ""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"finish_reason": "error"}, "server"),
        ({"finish_reason": "ERROR"}, "server"),
        ({"finish_reason": "abort"}, "server"),
        ({"finish_reason": "cancelled"}, "server"),
        ({"finish_reason": "insufficient_system_resource"}, "server"),
        ({"finish_reason": "error", "error": {"code": 502, "message": "x"}}, "server"),
        ({"finish_reason": "error", "error": {"code": 429, "message": "x"}}, "busy"),
        ({"finish_reason": "stop", "error": {"code": 401, "message": "x"}}, "denied"),
        ({"finish_reason": None, "error": "x"}, "server"),
        ({"finish_reason": "stop", "error": None}, ""),
        ({"finish_reason": "stop", "error": {}}, ""),
        ({"finish_reason": "length"}, ""),
    ],
)
def test_a_choice_that_failed_is_no_answer(
    choice: dict[str, Any], kind: str, streamed: bool
) -> None:
    """Gateways answer 200 and tell in the choice what befell the server behind them."""
    said = {"role": "assistant", "content": "The answer is 4."}
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    if streamed:
        body = events(
            {"choices": [{"index": 0, "delta": said}]},
            {"choices": [{"index": 0, "delta": {}, **choice}], "usage": usage},
        )
        body += DONE
    else:
        body = json.dumps({"choices": [{"message": said, **choice}], "usage": usage}).encode()
    assert kind_of(run(asked(body, streamed=streamed))) == kind


@pytest.mark.parametrize("streamed", [False, True])
def test_a_message_that_failed_is_no_answer(streamed: bool) -> None:
    """The same under the words of messages."""
    text = {"type": "text", "text": "4"}
    if streamed:
        body = events(
            {"type": "message_start", "message": {"model": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": text},
            {"type": "message_delta", "delta": {"stop_reason": "error"}},
            {"type": "message_stop"},
        )
    else:
        body = json.dumps({"content": [text], "stop_reason": "error"}).encode()
    assert kind_of(run(asked(body, streamed=streamed, anthropic=True))) == "server"


@pytest.mark.parametrize(
    "last",
    [
        {"type": "response.cancelled", "response": {"status": "cancelled"}},
        {"type": "response.completed", "response": {"status": "failed"}},
        {"type": "response.completed", "response": {"error": {"code": "x", "message": "y"}}},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "error"}}},
        {"error": {"code": 502, "message": "x"}},
    ],
)
def test_a_response_that_failed_is_no_answer(last: dict[str, Any]) -> None:
    """The event's name may say more than the response in it."""
    reading = read(
        events({"type": "response.output_text.delta", "delta": "4"}, last), responses.read_event
    )
    assert reading.status == "error"


@pytest.mark.parametrize("error", [{}, "", None, {"message": None, "code": None}])
def test_an_error_that_says_nothing_is_none(error: object) -> None:
    """Some servers send the empty field with every chunk."""
    stop = {"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}
    reading = read(events({"choices": [stop], "error": error}) + DONE, chat.read_event)
    assert (reading.status, reading.text) == ("ok", "4")


@pytest.mark.parametrize("dialect", [chat.read_event, messages.read_event, responses.read_event])
def test_an_error_event_in_plain_words_is_an_error(dialect: Dialect) -> None:
    """Its type says so; what is no JSON there is its message."""
    reading = read(b"event: error\ndata: out of memory\n\n", dialect)
    assert (reading.status, reading.error) == ("error", "out of memory")


@pytest.mark.parametrize(
    ("tail", "status"),
    [
        (b"data: [DONE]\n", "ok"),
        (b"data: [DONE]", "ok"),
        (b"data: [DON", "truncated"),
        (b"", "truncated"),
    ],
)
def test_an_end_that_came_before_the_connection_broke_is_an_end(tail: bytes, status: str) -> None:
    """All of the answer is there, only the blank line behind the end is not."""
    stop = {"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}
    assert read(events({"choices": [stop]}) + tail, chat.read_event, broken=True).status == status
