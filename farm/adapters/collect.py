"""Where the parts of an answer are gathered, whatever dialect they come in.

A dialect reads an event and calls these methods; at the end there is one `Reading`. The rules
of what counts as payload, as an end and as a success stand here alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import orjson

from farm.adapters.foreign import is_number
from farm.adapters.secret import Secret, quoted, shown
from farm.adapters.sse import SseEvent
from farm.core.generation import ToolCall, Usage
from farm.core.reading import Reading, Timing

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_DETAIL: Final = 500
_MAX_CODE: Final = 100
_SHOWN_BYTES: Final = 80
_UNTOLD: Final = -9999.0  # what OpenAI and vLLM give for "very unlikely", in place of a number
# a finish reason that says the server gave up, and not that the model ended; "abort" is SGLang's
# and vLLM's, "insufficient_system_resource" DeepSeek's
_BROKEN: Final = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "failed", "internal_error"}
    | {"server_error", "insufficient_system_resource"}
)


class Collector:
    """Gathers one answer.

    `at` and `read` are the stamp and the number of the socket read that is being looked at; the
    reader moves them. Every other field is for dialects, through the methods. What is kept of
    errors is without the key.
    """

    def __init__(self, *, key: Secret | None = None) -> None:
        self._key = key
        self.at = 0.0
        self.read = 0
        self.done = False  # the interface's own end was seen: [DONE], message_stop, ...
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.model_version: str | None = None
        self.server_decode_tps: float | None = None
        self.failed: tuple[str, str, str] | None = None  # status, message, code
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tools: list[_Tool] = []
        self._logprobs: list[float] | None = None
        self._logprobs_broken = False
        self._logprobs_untold = False
        self._warnings: list[str] = []
        self._first_event: float | None = None
        self._first_visible: float | None = None
        self._first_tokens: int | None = None
        self._stamps: list[float] = []
        self._reads: list[int] = []

    @property
    def ended(self) -> bool:
        """Whether the answer is over: by the interface's own end, or by an error."""
        return self.done or self.failed is not None

    def event(self) -> None:
        """Note that an event with data came, whatever is in it."""
        if self._first_event is None:
            self._first_event = self.at

    def payload(
        self, *, text: str = "", reasoning: str = "", tool: bool = False, tokens: int | None = None
    ) -> None:
        """Add what one event carried; nothing at all is no payload."""
        if not (text or reasoning or tool or tokens):
            return
        if not self._stamps:
            self._first_tokens = tokens
        self._stamps.append(self.at)
        self._reads.append(self.read)
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if self._first_visible is None and (tool or text.strip()):
            self._first_visible = self.at

    def tool(self, *, key: object, id: str, name: str, arguments: str) -> bool:
        """Add a piece of a tool call; return whether it carried anything.

        A new id with a name starts a new call, also under a key that was used before: some
        servers number every call 0, some none. So does a name with arguments where those before
        it are whole and nothing has an id. A new id alone starts none: some servers make one for
        every piece. A name that comes again whole is one name.
        """
        key = key if isinstance(key, int | str) else None  # a name to tell calls apart by
        known = next((tool for tool in reversed(self._tools) if tool.key == key), None)
        if known is None or known.is_over(id=id, name=name, arguments=arguments):
            if known is not None and key is not None:
                self.warn("tool_index_reused")
            known = _Tool(key=key, id=id)
            self._tools.append(known)
        known.id = known.id or id
        if name != known.name:
            known.name += name
        known.arguments.append(arguments)
        return bool(name or arguments)

    def tool_whole(self, *, key: object, name: str, arguments: str) -> bool:
        """Fill in what no piece has told of a call; return whether that was anything."""
        key = key if isinstance(key, int | str) else None
        known = next((tool for tool in self._tools if tool.key == key), None)
        return self.tool(
            key=key,
            id="",
            name="" if known and known.name else name,
            arguments="" if known and any(known.arguments) else arguments,
        )

    def logprobs(self, values: Sequence[object]) -> None:
        """Add the log-probabilities of more tokens; one that is not told spoils them all."""
        if self._logprobs is None:
            self._logprobs = []
        for value in values:
            if value == _UNTOLD:
                self._logprobs_untold = True
            elif is_number(value):
                self._logprobs.append(float(value))
            else:
                self._logprobs_broken = True

    def warn(self, word: str) -> None:
        """Note something odd, once."""
        if word not in self._warnings:
            self._warnings.append(word)

    def fail(self, status: str, message: str, *, code: str = "") -> None:
        """End the answer with an error; the first one stands."""
        if self.failed is None:
            self.failed = (
                status,
                self._shown(message),
                shown(mend(code), self._key, most=_MAX_CODE),
            )

    def finish(self, reason: str) -> None:
        """Note why the answer ended; one that the server broke off is an error."""
        self.finish_reason = reason
        if is_broken(reason):
            self.fail("error", f"the endpoint ended the answer with finish reason {reason!r}")

    def not_an_object(self, event: SseEvent) -> None:
        """End the answer with an event that holds no object: an error in words, or what it is."""
        data = event.data.strip()
        if event.type == "error":
            self.fail("error", data.decode("utf-8", "replace"))
        else:
            self.unreadable("an event is not a JSON object", data)

    def unreadable(self, fact: str, data: bytes) -> None:
        """End the answer with what cannot be read, and show how it begins."""
        try:
            data.decode()
        except UnicodeDecodeError as error:
            fact += f", it is not UTF-8 at byte {error.start + 1}"
        self.fail("malformed", f"{fact}: {quoted(data, self._key, most=_SHOWN_BYTES)}")

    def reading(self, *, streamed: bool, broken: str = "") -> Reading:
        """Give the whole; `broken` says how the connection failed, "" for a clean end."""
        text, reasoning = mend("".join(self._text)), mend("".join(self._reasoning))
        tools = tuple(tool.call() for tool in self._tools)
        status, message, code = self._status(text, reasoning, tools, broken)
        if status == "ok" and streamed and not self.done:
            self.warn("no_done")
        if status in ("ok", "empty", "no_visible_output") and self.usage is None:
            self.warn("no_usage")
        if any(not _is_json(tool.arguments) for tool in tools):
            self.warn("tool_arguments_not_json")
        if self._logprobs_broken:
            self.warn("logprobs_not_numbers")
        if self._logprobs_untold:
            self.warn("logprobs_not_told")
        return Reading(
            status=status,
            text=text,
            reasoning=reasoning,
            tool_calls=tools,
            error=message,
            error_code=code,
            finish_reason=self.finish_reason and mend(self.finish_reason),
            usage=self.usage,
            model_version=self.model_version and mend(self.model_version),
            logprobs=None
            if self._logprobs is None or self._logprobs_broken or self._logprobs_untold
            else tuple(self._logprobs),
            timing=self._timing(),
            warnings=tuple(self._warnings),
        )

    def _status(
        self, text: str, reasoning: str, tools: Sequence[ToolCall], broken: str
    ) -> tuple[str, str, str]:
        if self.failed is not None:
            return self.failed
        if broken and not self.done:
            return "truncated", self._shown(broken), ""
        if not self.done and self.finish_reason is None:
            return "truncated", "the stream ended before the answer did", ""
        if text or tools:
            return "ok", "", ""
        return ("no_visible_output" if reasoning else "empty"), "", ""

    def _shown(self, message: str) -> str:
        return shown(mend(message), self._key, most=_MAX_DETAIL)

    def _timing(self) -> Timing:
        return Timing(
            first_event_s=self._first_event,
            first_visible_s=self._first_visible,
            payload_s=tuple(self._stamps),
            payload_reads=tuple(self._reads),
            first_payload_tokens=self._first_tokens,
            server_decode_tps=self.server_decode_tps,
            elapsed_s=self.at,
        )


class _Tool:
    """A tool call that is still coming."""

    def __init__(self, *, key: object, id: str) -> None:
        self.key = key
        self.id = id
        self.name = ""
        self.arguments: list[str] = []

    def is_over(self, *, id: str, name: str, arguments: str) -> bool:
        """Tell whether a piece under the same key belongs to another call."""
        if not name:
            return False
        if id and self.id:
            return id != self.id
        said = "".join(self.arguments)
        return bool(arguments and said) and _is_json(said)

    def call(self) -> ToolCall:
        return ToolCall(name=mend(self.name), arguments=mend("".join(self.arguments)))


def is_broken(reason: str) -> bool:
    """Tell whether a finish reason says that the server gave up on the answer."""
    return reason.lower() in _BROKEN


def mend(text: str) -> str:
    """Join surrogate pairs that came in two pieces, and replace those left without a partner."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return False
    return True
