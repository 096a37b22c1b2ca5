"""One exchange over HTTP: send a body, read the answer, say what became of it.

Interfaces differ in address, headers and dialect; what a status, a broken stream or a page of
HTML means is the same for all of them, and stands here.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from farm.adapters.advice import kind_of_status, retry_after, retry_word
from farm.adapters.collect import Collector, mend
from farm.adapters.foreign import bare_error_in, read_object
from farm.adapters.secret import Secret, quoted, shown
from farm.adapters.stream import (
    STREAM_TYPES,
    BrokenStream,
    Dialect,
    Stamped,
    not_a_stream,
    read_stream,
)
from farm.adapters.transport import (
    MAX_REFUSAL_BYTES,
    CallFailed,
    Reply,
    Transport,
    Whole,
)
from farm.core.generation import STALE, Failure, Generation
from farm.core.reading import Reading, total_nll

# error objects inside a 200, by their code or type
_BUSY_CODES: Final = ("rate_limit_exceeded", "rate_limit_error", "overloaded_error", "overloaded")
_INVALID_CODES: Final = ("invalid_request_error", "context_length_exceeded", "content_too_large")
_SAID: Final = ("text", "reasoning", "finish_reason", "model_version", "error", "error_code")
_STATUS: Final = re.compile("[345][0-9][0-9]")
_MAX_DETAIL: Final = 300
_KIND_OF_STATUS: Final = {
    "malformed": "malformed",
    "not_sse": "malformed",
    "oversized": "oversized",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """How an interface is spoken: a dialect for streams, one for answers in one piece.

    `ordinary` reads at once what `whole` would read of an answer with nothing odd about it, and
    gives None for every other.
    """

    streamed: Dialect
    whole: Callable[[Mapping[str, Any], Collector], None]
    ordinary: Callable[[Mapping[str, Any]], Generation | None] = lambda value: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """What came of one call: the reading, and the failure if it is no answer."""

    reading: Reading
    failure: Failure | None


async def exchange(
    transport: Transport,
    url: str,
    body: bytes,
    *,
    interface: Interface,
    streamed: bool,
    key: Secret | None,
) -> Exchanged:
    """Make one call; never raises for what the network or the endpoint does.

    The key is taken out of everything the endpoint said.
    """
    try:
        if not streamed:
            return _exchanged(await transport.fetch(url, body), interface, key)
        async with transport.post(url, body) as reply:
            if not 200 <= reply.status < 300:
                data = await _beginning(reply.reads)
                return _masked(_refused(reply.status, reply.headers, data, key), key)
            reading = await _read(reply, interface, key)
    except CallFailed as error:
        return _not_sent(error, key)
    return _masked(Exchanged(reading=reading, failure=_failure_of(reading)), key)


async def generate(
    transport: Transport, url: str, body: bytes, *, interface: Interface, key: Secret | None
) -> Generation:
    """Make one call whose answer comes in one piece; as `exchange`, without its timing."""
    try:
        whole = await transport.fetch(url, body)
    except CallFailed as error:
        return generation_of(_not_sent(error, key))
    if whole.broken is None and whole.status == 200:
        value = read_object(whole.data)
        generation = None if value is None else interface.ordinary(value)
        if generation is not None and not (key and _quotes(generation, key)):
            return generation
    return generation_of(_exchanged(whole, interface, key))


def generation_of(exchanged: Exchanged) -> Generation:
    """Turn what was read into a generation; log-probabilities become the three numbers.

    `confidence` is exp(-token_nll / token_count), the geometric mean of the tokens'
    probabilities; without log-probabilities there is none.
    """
    from math import exp  # beside its only use

    reading, failure = exchanged.reading, exchanged.failure
    warnings, nll, count = reading.warnings, None, None
    if reading.logprobs and failure is None:
        nll = total_nll(reading.logprobs)
        if nll is None:
            warnings = (*warnings, "logprobs_out_of_range")
        else:
            count = len(reading.logprobs)
    mean = None if nll is None or not count else exp(-nll / count)
    return Generation(
        reading.text,
        mean,
        nll,
        count,
        confidence_source=None if mean is None else "mean_token_probability",
        usage=reading.usage,
        finish_reason=reading.finish_reason,
        model_version=reading.model_version,
        reasoning=reading.reasoning,
        tool_calls=reading.tool_calls,
        warnings=warnings,
        failure=failure,
    )


async def _read(reply: Reply, interface: Interface, key: Secret | None) -> Reading:
    """Read the answer to a request for a stream."""
    if reply.content_type in STREAM_TYPES:
        return await read_stream(reply.reads, interface.streamed, key=key)
    if reply.content_type != "application/json":
        seen = await _beginning(reply.reads)
        return Reading(status="not_sse", error=not_a_stream(reply.content_type, seen, key=key))
    reads, broken = list[Stamped](), None
    try:
        async for read in reply.reads:
            reads.append(read)
    except BrokenStream as error:
        broken = error
    at = reads[-1][0] if reads else 0.0
    data = b"".join(data for _, data in reads)
    whole = Whole(reply.status, reply.headers, data, at, len(reads), broken)
    return _read_whole(whole, interface, key, not_streamed=True)


def _exchanged(whole: Whole, interface: Interface, key: Secret | None) -> Exchanged:
    if not 200 <= whole.status < 300:
        return _masked(_refused(whole.status, whole.headers, whole.data, key), key)
    reading = _read_whole(whole, interface, key, not_streamed=False)
    return _masked(Exchanged(reading=reading, failure=_failure_of(reading)), key)


def _read_whole(
    whole: Whole, interface: Interface, key: Secret | None, *, not_streamed: bool
) -> Reading:
    out = Collector(key=key)
    out.at, out.read = whole.at, whole.reads
    if whole.broken is not None:
        reason = str(whole.broken)
        out.at = whole.broken.at
        if whole.broken.timed_out:
            out.warn("timed_out")
        if whole.broken.status != "truncated":
            out.fail(whole.broken.status, reason)
        return out.reading(streamed=False, broken=reason)
    value = read_object(whole.data)
    if value is None:
        out.unreadable("the answer is not a JSON object", whole.data)
    else:
        interface.whole(value, out)
    if not_streamed:
        out.warn("not_streamed")
    return out.reading(streamed=False)


def _not_sent(error: CallFailed, key: Secret | None) -> Exchanged:
    detail = shown(mend(str(error)), key, most=_MAX_DETAIL)
    warnings = (STALE,) if error.stale else ()
    reading = Reading(status="error", error=detail, warnings=warnings)
    return Exchanged(reading=reading, failure=Failure(kind=error.kind, detail=detail))


def _refused(status: int, headers: Mapping[str, str], body: bytes, key: Secret | None) -> Exchanged:
    """Say why; the body may be JSON, a page, or nothing."""
    value = read_object(body)
    message, code = bare_error_in(value) if value is not None else ("", "")
    message, code = (shown(mend(text), key, most=_MAX_DETAIL) for text in (message, code))
    if value is None and body:
        message = quoted(body, key, most=200)
    if 300 <= status < 400:
        target = shown(mend(headers.get("location", "")), key, most=200)
        message = f"redirects to {target!r}, which is not followed: base_url must be it"
    wait = retry_after(headers, now=time.time())
    failure = Failure(
        kind=kind_of_status(status, code=code, told_to_wait=wait is not None),
        detail=f"HTTP {status}: {message or 'no reason given'}",
        status=status,
        retry_after_s=wait,
        retry=retry_word(headers),
    )
    return Exchanged(
        reading=Reading(status="error", error=message, error_code=code), failure=failure
    )


async def _beginning(reads: AsyncIterator[Stamped]) -> bytes:
    data = b""
    try:
        async for _, part in reads:
            data += part
            if len(data) >= MAX_REFUSAL_BYTES:
                break
    except BrokenStream:
        return data  # what came is enough to say what it was
    return data


def _failure_of(reading: Reading) -> Failure | None:
    if reading.status in ("ok", "empty", "no_visible_output"):
        return None
    if reading.status == "truncated":
        kind = "timeout" if "timed_out" in reading.warnings else "cut"
        return Failure(kind=kind, detail=f"the answer broke off: {reading.error}")
    if reading.status == "error":
        return Failure(kind=_kind_of_code(reading.error_code), detail=reading.error)
    return Failure(kind=_KIND_OF_STATUS[reading.status], detail=reading.error)


def _kind_of_code(code: str) -> str:
    """Say what an error object inside a 200 is; its code may be a word or a status."""
    if _STATUS.fullmatch(code):
        return kind_of_status(int(code))
    if code in _BUSY_CODES:
        return "busy"
    if code in _INVALID_CODES:
        return "invalid"
    return kind_of_status(500, code=code)


def _masked(exchanged: Exchanged, key: Secret | None) -> Exchanged:
    """Take the key out of all that was said: some endpoints quote it back, even as an answer."""
    if key is None:
        return exchanged
    failure = exchanged.failure
    if failure is not None:
        failure = msgspec.structs.replace(failure, detail=key.masked(failure.detail))
    return Exchanged(reading=masked_reading(exchanged.reading, key), failure=failure)


def masked_reading(reading: Reading, key: Secret) -> Reading:
    """Take the key out of every text of a reading."""
    said = {name: getattr(reading, name) for name in _SAID}
    bare = {name: text and key.masked(text) for name, text in said.items()}
    calls = tuple(
        msgspec.structs.replace(
            call, name=key.masked(call.name), arguments=key.masked(call.arguments)
        )
        for call in reading.tool_calls
    )
    if bare == said and calls == reading.tool_calls:
        return reading
    return msgspec.structs.replace(reading, **bare, tool_calls=calls)


def _quotes(generation: Generation, key: Secret) -> bool:
    """Tell whether the key stands in what an ordinary answer said."""
    said = (generation.text, generation.finish_reason, generation.model_version)
    return any(text is not None and key.masked(text) != text for text in said)
