"""What a model is asked and what it answers, as values; an error is an answer of its own kind.

A request has a digest under which its answer is kept, so that no paid answer is bought twice.
How a request travels is farm.adapters; what an answer is worth is farm.scoring.
"""

from __future__ import annotations

from hashlib import sha256
from math import inf
from typing import Any, Final

import msgspec

from farm.core.canonical import canonical
from farm.core.result import ERROR, REFUSED, TRUNCATED
from farm.errors import SpecError

# What became of a call that brought no answer, one sentence each.
FAILURES: Final = {
    "connection": "no connection, or it was lost before anything was answered",
    "timeout": "the time for one request ran out",
    "busy": "the endpoint asks to come back later: 408, 409, 425, 429, 529, 503 with Retry-After",
    "server": "the endpoint failed: any other 5xx, or an error object after a 200",
    "cut": "the answer broke off before its end",
    "malformed": "the answer is not what the interface promises",
    "denied": "the key, the account or its quota does not allow this: 401, 402, 403",
    "missing": "there is no such model or address: 404, 405, 410, or a redirect",
    "invalid": "this request will never be answered: 400, 413, 422 and the like",
    "oversized": "the answer is longer than the limit",
    "program": "the program of a command adapter failed",
    "unrecorded": "the file of recorded answers has none for this request",
}
# Asking again in a moment may help.
_TRANSIENT: Final = frozenset(
    {"connection", "timeout", "busy", "server", "cut", "malformed", "program"}
)
# Every other request to this endpoint will meet the same.
_FATAL: Final = frozenset({"denied", "missing"})

# The warning of a call that met a connection which the server had closed unseen, and got no byte
# of a reply: says nothing of the endpoint, and is made again at once.
STALE: Final = "stale_connection"

# Finish reasons in one vocabulary, whatever the interface calls them; others are kept as told.
TRUNCATED_REASONS: Final = frozenset({"length"})
REFUSED_REASONS: Final = frozenset({"content_filter", "refusal"})


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens as the endpoint counted them; None is "not told", which is not 0.

    `prompt_tokens` includes the cached ones, `completion_tokens` the reasoning ones.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total(self) -> int | None:
        """Prompt and completion together, None when neither was told."""
        known = [n for n in (self.prompt_tokens, self.completion_tokens) if n is not None]
        return sum(known) if known else None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool the model wants called; `arguments` is the text it wrote, JSON or not."""

    name: str
    arguments: str


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a call brought no answer; `kind` is a word of `FAILURES`.

    `retry_after_s` is what the endpoint asked for, None when it asked for nothing.
    """

    kind: str
    detail: str  # foreign text by repr, cut, keys removed
    status: int | None = None  # of HTTP
    retry_after_s: float | None = None
    retry: bool | None = None  # the endpoint's own word on asking again, None when it said none

    @property
    def transient(self) -> bool:
        """Whether asking again in a moment may help; the endpoint's own word goes first."""
        if self.fatal or self.retry is None:
            return self.kind in _TRANSIENT
        return self.retry

    @property
    def fatal(self) -> bool:
        """Whether every request to this endpoint will meet the same until a person mends it."""
        return self.kind in _FATAL

    @property
    def final(self) -> bool:
        """Whether asking again, now or in a later run, cannot bring an answer."""
        return not (self.fatal or self.transient or self.kind in _TRANSIENT)


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    confidence: float | None = None
    token_nll: float | None = None
    token_count: int | None = None


class Generation(_Answer, frozen=True, kw_only=True, omit_defaults=True):
    """What a model answered; with a `failure`, that it did not.

    The four fields that every adapter author meets (text, confidence, token_nll, token_count)
    may be given by place, the rest by name. `confidence` is in [0, 1]; `token_nll` is a sum in
    nats over `token_count` tokens of the answer. `text` of a failure is what had arrived.
    """

    confidence_source: str | None = None  # "mean_token_probability", "reported"
    usage: Usage | None = None
    finish_reason: str | None = None  # "stop", "length", "content_filter", "refusal", ...
    model_version: str | None = None  # as the endpoint tells it
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    warnings: tuple[str, ...] = ()  # stable words for what was odd about the answer
    failure: Failure | None = None
    latency_s: float | None = None  # of the call that brought it, an attempt fact


def flaw_of(generation: Generation) -> str:
    """Say which field of a generation is not as its contract says, "" when all are.

    Adapters are foreign code, and nothing looks at the types of what they construct.
    """
    texts = {
        name: getattr(generation, name)
        for name in ("text", "confidence_source", "finish_reason", "model_version", "reasoning")
    }
    for name, value in texts.items():
        if not _is_text(value) and not (value is None and name not in _NEVER_NONE):
            return f"{name} is {_shown(value)}, not a text of Unicode"
    for name, value, highest in (
        ("confidence", generation.confidence, 1.0),
        ("token_nll", generation.token_nll, None),
    ):
        if value is not None and not _is_number(value, highest=highest):
            bounds = "in [0, 1]" if highest else "at least 0"
            return f"{name} is {_shown(value)}, not a finite number {bounds}"
    if generation.token_count is not None and not _is_count(generation.token_count):
        return f"token_count is {_shown(generation.token_count)}, not a count"
    return _flaw_of_parts(generation)


def _flaw_of_parts(generation: Generation) -> str:
    usage, failure = generation.usage, generation.failure
    if usage is not None and not (
        isinstance(usage, Usage)
        and all(n is None or _is_count(n) for n in msgspec.structs.astuple(usage))
    ):
        return f"usage is {_shown(usage)}, not a Usage of counts"
    calls, warnings = generation.tool_calls, generation.warnings
    if not isinstance(calls, tuple | list) or not all(
        isinstance(call, ToolCall) and _is_text(call.name) and _is_text(call.arguments)
        for call in calls
    ):
        return f"tool_calls is {_shown(calls)}, not a tuple of ToolCall"
    if not isinstance(warnings, tuple | list) or not all(_is_text(word) for word in warnings):
        return f"warnings is {_shown(warnings)}, not a tuple of texts"
    if failure is not None and not (
        isinstance(failure, Failure)
        and _is_text(failure.kind)
        and _is_text(failure.detail)
        and (failure.status is None or _is_count(failure.status))
        and (failure.retry_after_s is None or _is_number(failure.retry_after_s))
        and (failure.retry is None or isinstance(failure.retry, bool))
    ):
        return f"failure is {_shown(failure)}, not a Failure"
    return ""


_NEVER_NONE: Final = frozenset({"text", "reasoning"})


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    # a quick look: most are, and half a character cannot be written down
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object, *, highest: float | None = None) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < inf and (highest is None or value <= highest)  # false for NaN


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to one model, complete: the same request means the same answer is due.

    `body` is all that is sent, as JSON values; finite numbers only. `task` names what the
    question belongs to and is not part of the digest.
    """

    model_id: str
    model_version: str
    base_url: str
    body: dict[str, Any]
    sample: int
    task: str = ""


_SORTED: Final = msgspec.json.Encoder(order="sorted")


def request_digest(request: Request) -> str:
    """Return the SHA-256 of (model id, model version, base URL, body, sample), 64 hex digits.

    It is taken over canonical JSON with the body's keys sorted, so it does not depend on the
    order in which a body was built. Raises SpecError for text that is not Unicode.
    """
    identity = (
        request.model_id,
        request.model_version,
        request.base_url,
        request.body,
        request.sample,
    )
    try:
        data = _SORTED.encode(identity)
    except UnicodeEncodeError as error:
        raise SpecError(
            f"request to {request.model_id!r}: a text holds a lone surrogate"
        ) from error
    return sha256(canonical(msgspec.Raw(data))).hexdigest()


def failed(
    kind: str,
    detail: str,
    *,
    text: str = "",
    status: int | None = None,
    retry_after_s: float | None = None,
    retry: bool | None = None,
) -> Generation:
    """Make the generation of a call that brought no answer."""
    failure = Failure(
        kind=kind, detail=detail, status=status, retry_after_s=retry_after_s, retry=retry
    )
    return Generation(text, failure=failure)


def forced_outcome(generation: Generation) -> str | None:
    """Return the outcome that is decided before the text is looked at, None when none is.

    A failure is an error, also a request's timeout: the outcome "timeout" is a program's, which
    is an answer. "truncated" and "refused" come from the finish reason alone.
    """
    if generation.failure is not None:
        return ERROR
    if generation.finish_reason in TRUNCATED_REASONS:
        return TRUNCATED
    if generation.finish_reason in REFUSED_REASONS:
        return REFUSED
    return None


def cause_of(generation: Generation) -> str:
    """Return why an outcome was decided before the text was looked at, "" when none was.

    A failure's kind and detail, or the finish reason.
    """
    if generation.failure is not None:
        return f"{generation.failure.kind}: {generation.failure.detail}"
    if forced_outcome(generation) is None:
        return ""
    return f"finish reason {generation.finish_reason!r}"


def told_of(generation: Generation) -> dict[str, str]:
    """Return that cause as a row's metadata has it: `error`, or `finish_reason`, or nothing."""
    if generation.failure is not None:
        return {"error": cause_of(generation)}
    if forced_outcome(generation) is None:
        return {}
    return {"finish_reason": generation.finish_reason or ""}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Generation)


def encode_generation(generation: Generation) -> bytes:
    """Give a generation's JSON, fields without news left out."""
    return _encoder.encode(generation)


def decode_generation(data: bytes) -> Generation:
    """Read what `encode_generation` wrote; raises `msgspec.DecodeError` on anything else."""
    return _decoder.decode(data)
