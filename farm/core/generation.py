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

MAX_COUNT: Final = 2**53  # of anything: sums of more would leave what JSON can carry

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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Generation)


def encode_generation(generation: Generation) -> bytes:
    """Give a generation's JSON, fields without news left out."""
    return _encoder.encode(generation)


def decode_generation(data: bytes) -> Generation:
    """Read what `encode_generation` wrote; raises `msgspec.DecodeError` on anything else."""
    return _decoder.decode(data)


def flaw_of(generation: Generation) -> str:
    """Say what is wrong with a generation of foreign making, "" when it can be used and kept.

    Looks at all types, at the ranges of figures and counts, and at whether the texts are Unicode.
    """
    confidence, nll, count = generation.confidence, generation.token_nll, generation.token_count
    try:
        if confidence is not None and not 0 <= confidence <= 1:
            return f"its confidence is {confidence!r}, not from 0 to 1"
        if nll is not None and not 0 <= nll < inf:
            return f"its token_nll is {nll!r}, not a finite number from 0"
        if count is not None and not 0 <= count <= MAX_COUNT:
            return f"its token_count is {count!r}, which counts nothing"
        again = decode_generation(encode_generation(generation))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        return f"it cannot be written down: {error}"
    if again != generation:
        return f"it is written down as another: {again!r}"
    if again.failure is not None and again.failure.kind not in FAILURES:
        return f"its failure is of no known kind: {again.failure.kind!r}"
    counts = () if again.usage is None else msgspec.structs.astuple(again.usage)
    if any(count is not None and not 0 <= count <= MAX_COUNT for count in counts):
        return "its usage holds a number that counts nothing"
    return ""
