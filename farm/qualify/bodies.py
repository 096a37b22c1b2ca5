"""The bytes of every request, for each protocol; a conversation is kept in chat form.

What is sent depends on the configuration and the conversation alone, so its digest names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from farm.core.generation import ToolCall
from farm.core.served import Served
from farm.errors import SpecError
from farm.qualify.config import USAGE_OPTION, Config

Message = Mapping[str, Any]

_ENCODER: Final = msgspec.json.Encoder()
_FIRST_ONLY: Final = "tool_choice"  # forcing a call again would forbid the answer


def request_body(
    config: Config,
    messages: Sequence[Message],
    tools: Sequence[Message],
    *,
    first: bool,
    cold: bool = False,
) -> bytes:
    """Return a request's body; raises `SpecError` for text that is not Unicode.

    The sampler, if it is an object, and `request_options` go in as they are; `tool_choice` only
    in the first request of a task. `cold` is for the first request of a cold cell.
    """
    options = {
        **(config.sampler if isinstance(config.sampler, dict) else {}),
        **config.request_options,
    }
    if not first:
        options.pop(_FIRST_ONLY, None)
    if first and cold and config.reset_cache == "llama-reset":
        # erasing slots does not reach the prompts that llama.cpp keeps in host memory; this does
        options.setdefault("cache_prompt", False)
    build = _responses if config.protocol == "responses" else _chat
    body = {**build(config, messages, tools), **options}
    if body.get(USAGE_OPTION, "") is None:  # some servers refuse a request that has it
        del body[USAGE_OPTION]
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError as error:
        raise SpecError("a request holds a lone surrogate: see sampler, request_options") from error


def assistant_turn(served: Served, call: ToolCall) -> Message:
    """Return what the assistant really said, its call and reasoning included, as a message."""
    call_id = served.tool_ids[0] if served.tool_ids else "call_0"
    turn: dict[str, Any] = {
        "role": "assistant",
        "content": served.reading.text,  # "" and not null, which some templates print as a word
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
        ],
    }
    if served.reading.reasoning:
        turn[served.reasoning_field] = served.reading.reasoning
    return turn


def tool_turn(assistant: Message, content: str) -> Message:
    """Return the response to the first call of an assistant's turn."""
    return {
        "role": "tool",
        "tool_call_id": assistant["tool_calls"][0]["id"],
        "content": content,
    }


def _chat(config: Config, messages: Sequence[Message], tools: Sequence[Message]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": config.model,
        "messages": list(messages),
        "max_tokens": config.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        body["tools"] = list(tools)
    return body


def _responses(
    config: Config, messages: Sequence[Message], tools: Sequence[Message]
) -> dict[str, Any]:
    items: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message["tool_call_id"],
                    "output": message["content"],
                }
            )
            continue
        if message["content"]:
            items.append({"role": message["role"], "content": message["content"]})
        items += [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in message.get("tool_calls", ())
        ]
    body: dict[str, Any] = {
        "model": config.model,
        "input": items,
        "max_output_tokens": config.max_tokens,
        "stream": True,
        "store": False,
    }
    if tools:
        body["tools"] = [{"type": "function", **tool["function"]} for tool in tools]
    return body
