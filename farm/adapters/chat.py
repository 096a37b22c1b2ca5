"""The dialect of chat completions and of completions, streamed and whole.

Two names for one thing are both read, never chosen by version: `reasoning_content` and
`reasoning`, `content` and `text`, usage in a chunk of its own or beside the finish reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from farm.adapters.collect import Collector, is_broken, mend
from farm.adapters.foreign import (
    bare_error_in,
    count_in,
    error_in,
    list_in,
    number_in,
    object_in,
    read_object,
    text_in,
    usage_in,
    written,
)
from farm.adapters.sse import SseEvent
from farm.core.generation import Generation

_DONE: Final = b"[DONE]"
# events that keep a connection open; other servers do that with comments
_PINGS: Final = frozenset({"ping", "heartbeat", "keepalive", "keep-alive"})

_TEXT_PARTS: Final = frozenset({"text", "output_text", ""})


def read_event(event: SseEvent, out: Collector) -> None:
    """Take one event of a stream."""
    data = event.data.strip()
    if not data or event.type in _PINGS:
        return
    if data == _DONE:
        out.done = True
        return
    value = read_object(data)
    if value is None:
        out.not_an_object(event)
        return
    out.event()
    if event.type == "error":
        message, code = bare_error_in(value)
        out.fail("error", message, code=code)
        return
    _read_common(value, out)
    for choice in list_in(value, "choices"):
        if isinstance(choice, dict) and count_in(choice, "index") in (0, None):
            # some proxies put an answer that they got in one piece into one event
            said = object_in(choice, "delta" if "delta" in choice else "message")
            _read_choice(choice, said, out)


def read_whole(body: Mapping[str, Any], out: Collector) -> None:
    """Take an answer that came in one piece."""
    out.event()
    _read_common(body, out)
    choices = list_in(body, "choices")
    if out.failed is None and not (choices and isinstance(choices[0], dict)):
        out.fail("malformed", "the answer has no choices")
        return
    if choices and isinstance(choices[0], dict):
        _read_choice(choices[0], object_in(choices[0], "message"), out)
        out.done = True


def read_ordinary(body: Mapping[str, Any]) -> Generation | None:
    """Read an answer in one piece that holds a text and nothing beside it.

    Gives just what `read_whole` leads to, in a fraction of the time; None where there is more
    to the answer, or less.
    """
    choices = list_in(body, "choices")
    choice = choices[0] if choices else None
    said = object_in(choice, "message")
    text, usage = said.get("content"), usage_in(body)
    if not isinstance(choice, dict) or not isinstance(text, str) or not text or usage is None:
        return None
    finish = text_in(choice, "finish_reason")
    if (
        body.get("error")
        or choice.get("error")
        or (finish != "stop" and is_broken(finish))
        or body.get("object") == "error"
        or choice.get("logprobs")
        or said.get("refusal")
        or said.get("tool_calls")
        or said.get("reasoning_content")
        or said.get("reasoning")
    ):
        return None
    return Generation(
        mend(text),
        usage=usage,
        finish_reason=mend(finish) or None,
        model_version=_version_in(body),
    )


def _read_common(value: Mapping[str, Any], out: Collector) -> None:
    error = error_in(value)
    if error is not None:
        out.fail("error", error[0], code=error[1])
    usage = usage_in(value)
    if usage is not None:
        out.usage = usage
    if out.model_version is None:
        out.model_version = _version_in(value)
    timings = object_in(value, "timings")
    if timings and (count_in(timings, "predicted_n") or 0) >= 2:
        out.server_decode_tps = number_in(timings, "predicted_per_second")


def _version_in(value: Mapping[str, Any]) -> str | None:
    model, fingerprint = text_in(value, "model"), text_in(value, "system_fingerprint")
    return mend(f"{model} {fingerprint}" if model and fingerprint else model) or None


def _read_choice(choice: Mapping[str, Any], said: Mapping[str, Any], out: Collector) -> None:
    error = error_in(choice)
    if error is not None:  # a gateway tells here what befell the server behind it
        out.fail("error", error[0], code=error[1])
    text = text_in(said, "content") or _parts_in(said) or text_in(choice, "text")
    refusal = text_in(said, "refusal")
    tool = [_read_tool(call, out) for call in list_in(said, "tool_calls")]
    out.payload(
        text=text + refusal,
        reasoning=text_in(said, "reasoning_content", "reasoning"),
        tool=any(tool),
        tokens=len(list_in(choice, "token_ids")) or None,
    )
    if logprobs := object_in(choice, "logprobs"):
        _read_logprobs(logprobs, out)
    if finish := text_in(choice, "finish_reason"):
        out.finish(finish)
    if refusal:
        out.finish_reason = "refusal"


def _parts_in(said: Mapping[str, Any]) -> str:
    """Give the text of a content that is a list of parts."""
    parts = (part for part in list_in(said, "content") if isinstance(part, dict))
    return "".join(text_in(part, "text") for part in parts if text_in(part, "type") in _TEXT_PARTS)


def _read_tool(call: object, out: Collector) -> bool:
    if not isinstance(call, dict):
        return False
    function = object_in(call, "function")
    arguments = text_in(function, "arguments")
    if isinstance(function.get("arguments"), dict):
        # some servers give the object itself where the interface says its JSON as a text
        out.warn("tool_arguments_an_object")
        arguments = written(function["arguments"])
    return out.tool(
        key=call.get("index"),
        id=text_in(call, "id"),
        name=text_in(function, "name"),
        arguments=arguments,
    )


def _read_logprobs(logprobs: Mapping[str, Any], out: Collector) -> None:
    """Chat gives a list of objects, completions a list of numbers."""
    content = list_in(logprobs, "content")
    if content:
        out.logprobs([one.get("logprob") if isinstance(one, dict) else None for one in content])
    elif numbers := list_in(logprobs, "token_logprobs"):
        out.logprobs(numbers)
