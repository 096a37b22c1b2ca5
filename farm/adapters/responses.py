"""The dialect of the Responses interface, streamed: no [DONE], usage in the last event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from farm.adapters.collect import Collector
from farm.adapters.foreign import (
    bare_error_in,
    error_in,
    object_in,
    read_object,
    text_in,
    usage_in,
)
from farm.adapters.sse import SseEvent

_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_FAILED: Final = frozenset({"failed", "cancelled"})


def read_event(event: SseEvent, out: Collector) -> None:
    """Take one event of a stream."""
    data = event.data.strip()
    if not data:
        return
    value = read_object(data)
    if value is None:
        out.not_an_object(event)
        return
    out.event()
    kind = text_in(value, "type") or event.type
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        out.payload(text=text_in(value, "delta"))
        if kind == "response.refusal.delta":
            out.finish_reason = "refusal"
    elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
        out.payload(reasoning=text_in(value, "delta"))
    elif kind == "response.function_call_arguments.delta":
        # the name comes in an item of its own, which not every server sends
        arguments = text_in(value, "delta")
        out.payload(tool=out.tool(key=value.get("item_id"), id="", name="", arguments=arguments))
    elif kind == "response.output_item.added":
        item = object_in(value, "item")
        if text_in(item, "type") == "function_call":
            named = out.tool(key=item.get("id"), id="", name=text_in(item, "name"), arguments="")
            out.payload(tool=named)
    elif kind == "response.output_item.done":
        item = object_in(value, "item")
        if text_in(item, "type") == "function_call":
            # some servers tell of a call here for the first time, or of its arguments
            told = out.tool_whole(
                key=item.get("id"),
                name=text_in(item, "name"),
                arguments=text_in(item, "arguments"),
            )
            out.payload(tool=told)
    elif kind in _ENDS:
        _end(kind, object_in(value, "response"), out)
    elif kind == "error" or error_in(value) is not None:
        message, code = bare_error_in(value)
        out.fail("error", message, code=code)


def _end(kind: str, response: Mapping[str, Any], out: Collector) -> None:
    out.usage = usage_in(response)
    out.model_version = text_in(response, "model") or None
    status = text_in(response, "status")
    if kind in ("response.failed", "response.cancelled") or status in _FAILED:
        message, code = bare_error_in(response)
        out.fail("error", message, code=code)
        return
    if (error := error_in(response)) is not None:
        out.fail("error", error[0], code=error[1])
        return
    out.done = True
    if kind == "response.completed":
        out.finish_reason = out.finish_reason or "stop"
        return
    reason = text_in(object_in(response, "incomplete_details"), "reason")
    out.finish("length" if reason == "max_output_tokens" else reason or "length")
