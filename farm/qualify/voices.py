"""The two ways in which the scripted server speaks: chat completions, and the Responses interface.

A voice turns deltas of chat completions into the events of its interface.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Delta = Mapping[str, Any]


class Voice(Protocol):
    """How an answer is said, as events without their framing."""

    done: bytes  # what is said after the last event

    def begin(self) -> list[Delta]:
        """Say that an answer begins."""

    def piece(self, delta: Delta) -> list[Delta]:
        """Say one piece of the answer."""

    def finish(self, reason: str) -> list[Delta]:
        """Say why the answer ends; its usage may still come."""

    def usage(self, usage: Delta | None, timings: Delta | None) -> list[Delta]:
        """Say what the answer cost, and that it is whole."""


class ChatVoice:
    """Chat completions."""

    done = b"data: [DONE]\n\n"

    def begin(self) -> list[Delta]:
        """Say the role."""
        return [_choice({"role": "assistant", "content": None})]

    def piece(self, delta: Delta) -> list[Delta]:
        """Say a delta as it is."""
        return [_choice(delta)]

    def finish(self, reason: str) -> list[Delta]:
        """Say the finish reason."""
        return [_choice({}, finish=reason)]

    def usage(self, usage: Delta | None, timings: Delta | None) -> list[Delta]:
        """Say usage in a chunk without choices."""
        if usage is None:
            return []
        return [{"choices": [], "usage": usage, "timings": timings}]


class ResponsesVoice:
    """The Responses interface: no [DONE], usage in the last event."""

    done = b""

    def begin(self) -> list[Delta]:
        """Say that a response was made."""
        return [{"type": "response.created", "response": {"id": "scripted"}}]

    def piece(self, delta: Delta) -> list[Delta]:
        """Say text as text, a call as an item and its arguments."""
        events: list[Delta] = []
        if delta.get("content"):
            events.append({"type": "response.output_text.delta", "delta": delta["content"]})
        for call in delta.get("tool_calls", ()):
            function = call["function"]
            if "id" in call:
                item = {
                    "type": "function_call",
                    "id": "item-0",
                    "call_id": call["id"],
                    "name": function["name"],
                    "arguments": "",
                }
                events.append({"type": "response.output_item.added", "item": item})
            if "arguments" in function:
                events.append(
                    {
                        "type": "response.function_call_arguments.delta",
                        "item_id": "item-0",
                        "delta": function["arguments"],
                    }
                )
        return events

    def finish(self, reason: str) -> list[Delta]:
        """Say nothing: the last event says all."""
        return []

    def usage(self, usage: Delta | None, timings: Delta | None) -> list[Delta]:
        """Say that the response is complete, with its usage under this interface's names."""
        said: dict[str, Any] = {"id": "scripted", "status": "completed"}
        if usage is not None:
            said["usage"] = {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "total_tokens": usage["total_tokens"],
            }
            if "prompt_tokens_details" in usage:
                said["usage"]["input_tokens_details"] = usage["prompt_tokens_details"]
        event: dict[str, Any] = {"type": "response.completed", "response": said}
        return [event if timings is None else {**event, "timings": timings}]


def chat_messages(items: Sequence[Delta]) -> list[dict[str, Any]]:
    """Return the input of the Responses interface as a conversation of chat completions."""
    messages: list[dict[str, Any]] = []
    for item in items:
        if item.get("type") == "function_call":
            call = {
                "id": item["call_id"],
                "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"]},
            }
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif item.get("type") == "function_call_output":
            messages.append(
                {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            )
        else:
            messages.append({"role": item["role"], "content": item["content"]})
    return messages


def framed(event: Delta) -> bytes:
    """Return an event as it goes over the wire."""
    name = event.get("type")
    head = f"event: {name}\n".encode() if isinstance(name, str) else b""
    return head + b"data: " + json.dumps(event).encode() + b"\n\n"


def _choice(delta: Delta, *, finish: str | None = None) -> Delta:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "scripted", "object": "chat.completion.chunk", "choices": [choice]}
