"""The dialect of Anthropic's messages, streamed and whole.

Their words become ours: `max_tokens` is "length", `end_turn` and `stop_sequence` are "stop",
`tool_use` is "tool_calls". Their `input_tokens` leaves out what a cache gave; ours do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from farm.adapters.collect import Collector
from farm.adapters.foreign import (
    bare_error_in,
    count_in,
    error_in,
    list_in,
    object_in,
    read_object,
    text_in,
    written,
)
from farm.adapters.sse import SseEvent
from farm.core.generation import Usage

_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}


def read_event(event: SseEvent, out: Collector) -> None:
    """Take one event of a stream."""
    data = event.data.strip()
    if not data:
        return
    value = read_object(data)
    if value is None:
        out.not_an_object(event)
        return
    kind = text_in(value, "type") or event.type
    if kind == "ping":
        return
    out.event()
    if kind == "error" or error_in(value) is not None:
        message, code = bare_error_in(value)
        out.fail("error", message, code=code)
    elif kind == "message_start":
        message_ = object_in(value, "message")
        out.model_version = text_in(message_, "model") or None
        _add_usage(object_in(message_, "usage"), out)
    elif kind == "content_block_start":
        _read_block(value.get("index"), object_in(value, "content_block"), out)
    elif kind == "content_block_delta":
        _read_delta(value.get("index"), object_in(value, "delta"), out)
    elif kind == "message_delta":
        _read_reason(object_in(value, "delta"), out)
        _add_usage(object_in(value, "usage"), out)
    elif kind == "message_stop":
        out.done = True


def read_whole(body: Mapping[str, Any], out: Collector) -> None:
    """Take an answer that came in one piece."""
    out.event()
    error = error_in(body)
    if error is not None:
        out.fail("error", error[0], code=error[1])
        return
    if not isinstance(body.get("content"), list):
        out.fail("malformed", "the answer has no content")
        return
    out.model_version = text_in(body, "model") or None
    for index, block in enumerate(list_in(body, "content")):
        if isinstance(block, dict):
            _read_block(index, block, out)
    _read_reason(body, out)
    _add_usage(object_in(body, "usage"), out)
    out.done = True


def _read_block(index: object, block: Mapping[str, Any], out: Collector) -> None:
    tool = False
    if text_in(block, "type") == "tool_use":
        whole = block.get("input")
        tool = out.tool(
            key=index,
            id=text_in(block, "id"),
            name=text_in(block, "name"),
            arguments=written(whole) if isinstance(whole, dict) and whole else "",
        )
    out.payload(text=text_in(block, "text"), reasoning=text_in(block, "thinking"), tool=tool)


def _read_delta(index: object, delta: Mapping[str, Any], out: Collector) -> None:
    arguments = text_in(delta, "partial_json")
    tool = bool(arguments) and out.tool(key=index, id="", name="", arguments=arguments)
    out.payload(text=text_in(delta, "text"), reasoning=text_in(delta, "thinking"), tool=tool)


def _read_reason(value: Mapping[str, Any], out: Collector) -> None:
    if reason := text_in(value, "stop_reason"):
        out.finish(_REASONS.get(reason, reason))


def _add_usage(usage: Mapping[str, Any], out: Collector) -> None:
    """Take counts as they come: the prompt's at the start, the answer's at the end."""
    if not usage:
        return
    before = out.usage or Usage()
    fresh = count_in(usage, "input_tokens")
    cached = count_in(usage, "cache_read_input_tokens")
    written = count_in(usage, "cache_creation_input_tokens")
    completion = count_in(usage, "output_tokens")
    out.usage = Usage(
        prompt_tokens=before.prompt_tokens
        if fresh is None
        else fresh + (cached or 0) + (written or 0),
        completion_tokens=before.completion_tokens if completion is None else completion,
        cached_tokens=before.cached_tokens if cached is None else cached,
    )
