"""The messages interface: its words become ours, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from farm.adapters.anthropic import AnthropicEndpoint
from farm.adapters.secret import Secret
from farm.adapters.settings import AnthropicSettings
from farm.core.generation import Generation, ToolCall, Usage
from tests.adapters.asking import task
from tests.adapters.loopback import Handler, Loopback, Received, Wire, run


async def asked(handler: Handler, **more: Any) -> tuple[Generation, Received]:
    async with Loopback(handler) as server:
        fields = {"adapter": "anthropic", "base_url": server.url, "model": "m", **more}
        settings = msgspec.convert(fields, AnthropicSettings)
        endpoint = AnthropicEndpoint(settings, name="model", key=Secret("k-1", name="K"))
        async with endpoint:
            generation = await endpoint.send(endpoint.request("p", task(), sample=0))
        return generation, server.received[0]


def whole(**more: Any) -> Handler:
    body = {
        "type": "message",
        "model": "m-2026",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "four"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 4},
        **more,
    }

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(json.dumps(body).encode())

    return handle


def test_a_message_is_asked_for_and_read_as_the_interface_says() -> None:
    """The key goes into x-api-key; prompt tokens include what a cache gave and took."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}
    handler = whole(usage={**usage, "output_tokens": 4})
    generation, received = run(asked(handler, system="be brief", request={"temperature": 0}))
    assert generation == Generation(
        "four",
        usage=Usage(prompt_tokens=105, completion_tokens=4, cached_tokens=90),
        finish_reason="stop",
        model_version="m-2026",
        reasoning="hm",
    )
    assert received.path == "/v1/messages"
    assert received.headers["x-api-key"] == "k-1"
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert received.json == {
        "model": "m",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": "p"}],
        "system": "be brief",
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_their_stop_reasons_become_our_finish_reasons(theirs: str, ours: str) -> None:
    """Ones we have no word for are kept as told."""
    generation, _ = run(asked(whole(stop_reason=theirs)))
    assert generation.finish_reason == ours


def streaming(*events: dict[str, Any]) -> Handler:
    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        for event in events:
            data = json.dumps(event).encode()
            await wire.chunk(b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n")
        await wire.chunk(b"")

    return handle


START = {
    "type": "message_start",
    "message": {"model": "m-2026", "usage": {"input_tokens": 10, "output_tokens": 1}},
}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
FOUR = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": "four"},
}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 4},
}
STOP = {"type": "message_stop"}


def test_a_streamed_message_is_put_together() -> None:
    """The prompt's tokens come at the start, the answer's at the end; pings are nothing."""
    ping = {"type": "ping"}
    tool = [
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        },
        *(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
            for part in ('{"x":', "1}")
        ),
    ]
    handler = streaming(ping, START, TEXT, ping, FOUR, *tool, END, STOP)
    generation, _ = run(asked(handler, stream=True))
    assert generation == Generation(
        "four",
        usage=Usage(prompt_tokens=10, completion_tokens=4),
        finish_reason="stop",
        model_version="m-2026",
        tool_calls=(ToolCall(name="f", arguments='{"x":1}'),),
    )


def test_an_error_in_mid_stream_is_a_failure_of_its_kind() -> None:
    """overloaded_error is asked again; what had come is kept."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    generation, _ = run(asked(streaming(START, TEXT, FOUR, error), stream=True))
    assert generation.failure is not None
    assert (generation.failure.kind, generation.failure.detail) == ("busy", "Overloaded")
    assert generation.text == "four"


def test_a_stream_without_a_stop_is_cut() -> None:
    """No stop reason and no message_stop: half an answer."""
    generation, _ = run(asked(streaming(START, TEXT, FOUR), stream=True))
    assert generation.failure is not None
    assert generation.failure.kind == "cut"


def test_a_200_without_content_is_malformed() -> None:
    """An answer of another interface, perhaps."""
    generation, _ = run(asked(whole(content=None)))
    assert generation.failure is not None
    assert generation.failure.kind == "malformed"
