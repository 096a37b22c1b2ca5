"""From stamps and counts to figures: every definition of a qualification, once.

Absent is None, never 0. Tokens are the server's count, never chunks and never the limit that was
asked for. Wall throughput never stands in for decode throughput. Percentiles are nearest-rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from farm.core.reading import Reading, decode_rate, decode_rate_bounds
from farm.core.served import Served

PRIMED_SHARE: Final = 0.95  # of a prompt that must have been cached for "primed" to be verified
LAG_SHARE: Final = 0.5  # of the median chunk gap that the client itself may be late
_MAX_COUNT: Final = 2**53  # beyond it nothing is a count of tokens


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one request. Times in seconds from its start, rates in tokens a second."""

    status: str
    error: str
    finish_reason: str | None
    first_event_s: float | None
    ttft_any_s: float | None  # first reasoning, content or tool payload
    ttft_visible_s: float | None  # first content or tool payload
    chunks: int
    coalesced_events: int  # events that came with a read that had brought one already
    chunk_gap_p50_s: float | None  # between chunks as observed: not token latency
    chunk_gap_p95_s: float | None
    chunk_gap_source: str | None  # "events", or "reads" when events were coalesced
    last_payload_s: float | None
    elapsed_s: float  # to the answer's own end, prefill and transfer included
    connect_s: float | None  # before the start: opening the connection
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    end_to_end_tokens_s: float | None  # completion tokens / elapsed_s
    server_decode_tokens_s: float | None  # as the server's own clock says
    server_decode_intervals_tokens_s: float | None  # the same clock over n - 1 intervals
    client_decode_tokens_s: float | None  # None unless chunk sizes are known
    client_decode_bounds_tokens_s: tuple[float, float] | None
    draft_acceptance: float | None
    usage: Mapping[str, Any] | None
    timings: Mapping[str, Any] | None
    server_metrics: Mapping[str, Any] | None
    warnings: tuple[str, ...]


def measure(served: Served) -> Measured:
    """Return the figures of one call; whatever was measured before a failure is kept."""
    reading, timing = served.reading, served.reading.timing
    gaps, source = chunk_gaps(reading)
    counted = reading.usage
    completion = None if counted is None else counted.completion_tokens
    bounds = decode_rate_bounds(reading)
    return Measured(
        status=reading.status,
        error=reading.error,
        finish_reason=reading.finish_reason,
        first_event_s=timing.first_event_s,
        ttft_any_s=timing.first_payload_s,
        ttft_visible_s=timing.first_visible_s,
        chunks=len(timing.payload_s),
        coalesced_events=timing.coalesced,
        chunk_gap_p50_s=nearest_rank(gaps, 50),
        chunk_gap_p95_s=nearest_rank(gaps, 95),
        chunk_gap_source=source if gaps else None,
        last_payload_s=timing.payload_s[-1] if timing.payload_s else None,
        elapsed_s=timing.elapsed_s,
        connect_s=served.connect_s,
        prompt_tokens=prompt_tokens(served),
        completion_tokens=completion,
        cached_tokens=cached_tokens(served),
        end_to_end_tokens_s=_rate(completion, timing.elapsed_s),
        server_decode_tokens_s=server_decode_rate(served.timings),
        server_decode_intervals_tokens_s=server_interval_rate(served.timings),
        client_decode_tokens_s=decode_rate(reading),
        client_decode_bounds_tokens_s=bounds,
        draft_acceptance=pooled_acceptance([served.timings])[0],
        usage=served.usage,
        timings=served.timings,
        server_metrics=served.server_metrics,
        warnings=reading.warnings,
    )


def nearest_rank(values: Iterable[float], percent: int) -> float | None:
    """Return the smallest value with at least `percent` % of all at or below it; None for none."""
    ordered = sorted(values)
    if not ordered:
        return None
    # exact: 0.95 * 20 in floating point is 19.000000000000004, which is another rank
    rank = math.ceil(Fraction(percent * len(ordered), 100))
    return ordered[max(rank, 1) - 1]


def chunk_gaps(reading: Reading) -> tuple[tuple[float, ...], str]:
    """Return the waits between chunks and where they were taken.

    When events shared a read, their waits of nothing are artefacts: the reads are taken then.
    """
    if reading.timing.coalesced:
        return reading.timing.read_gaps_s, "reads"
    return reading.timing.gaps_s, "events"


def prompt_tokens(served: Served) -> int | None:
    """Return the prompt's tokens as the server counted them, cached ones included."""
    counted = served.reading.usage
    if counted is not None and counted.prompt_tokens is not None:
        return counted.prompt_tokens
    fresh, cached = _count(served.timings, "prompt_n"), _count(served.timings, "cache_n")
    return None if fresh is None or cached is None else fresh + cached


def cached_tokens(served: Served) -> int | None:
    """Return how many prompt tokens came from a cache; None when the server does not say."""
    counted = served.reading.usage
    if counted is not None and counted.cached_tokens is not None:
        return counted.cached_tokens
    return _count(served.timings, "cache_n")


def server_decode_rate(timings: Mapping[str, Any] | None) -> float | None:
    """Return the decode rate the server states; None where it means nothing.

    That is below two tokens, and for a rate or a time of nothing: a clock too coarse to tell.
    """
    stated = _number(timings, "predicted_per_second")
    tokens = _count(timings, "predicted_n")
    if stated is None or stated <= 0 or tokens is None or tokens < 2:
        return None
    took_ms = _number(timings, "predicted_ms")
    return None if took_ms is not None and took_ms <= 0 else stated


def server_interval_rate(timings: Mapping[str, Any] | None) -> float | None:
    """Return (n - 1) tokens over the server's decode time.

    llama.cpp starts that clock after the first token, so its own figure is high by n / (n - 1).
    """
    tokens, took_ms = _count(timings, "predicted_n"), _number(timings, "predicted_ms")
    if tokens is None or tokens < 2 or took_ms is None or took_ms <= 0:
        return None
    return (tokens - 1) / (took_ms / 1000)


def pooled_acceptance(
    timings: Iterable[Mapping[str, Any] | None],
) -> tuple[float | None, int, int]:
    """Return accepted / drafted over all requests, and how many told of drafts and how many not.

    A request without the counters is counted apart, not as zero; so is one that took more than
    was drafted, whose counters mean something else.
    """
    accepted = drafted = told = silent = 0
    for one in timings:
        of_draft, taken = _count(one, "draft_n"), _count(one, "draft_n_accepted")
        if of_draft is None or taken is None or taken > of_draft:
            silent += 1
            continue
        told += 1
        drafted += of_draft
        accepted += taken
    return (accepted / drafted if drafted else None), told, silent


def cache_verified(mode: str, *, cached: int | None, prompt: int | None) -> bool | None:
    """Say whether the server's own count bears the cache mode out; None when it does not tell.

    Cold needs exactly 0 cached tokens. Primed needs at least 95 % of the prompt; a server that
    keeps whole blocks still reaches that on the contexts of a qualification.
    """
    if cached is None:
        return None
    if mode == "cold":
        return cached == 0
    if prompt is None:
        return None
    return prompt > 0 and cached >= PRIMED_SHARE * prompt


def aggregate_rate(tokens: Sequence[int | None], wall_s: float) -> float | None:
    """Return all completion tokens over the wave's wall time; None when a count is missing.

    No request at all is a rate of 0: nothing was served.
    """
    if any(count is None for count in tokens):
        return None
    return _rate(sum(count for count in tokens if count is not None), wall_s)


def client_is_late(lag_p99_s: float | None, gap_p50_s: float | None) -> bool:
    """Say whether the client's own lag is too large for the gaps it reports."""
    if lag_p99_s is None or gap_p50_s is None:
        return False
    return lag_p99_s > LAG_SHARE * gap_p50_s


def _rate(tokens: int | None, seconds: float) -> float | None:
    return None if tokens is None or seconds <= 0 else tokens / seconds


def _number(found: Mapping[str, Any] | None, name: str) -> float | None:
    value = None if found is None else found.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _count(found: Mapping[str, Any] | None, name: str) -> int | None:
    value = None if found is None else found.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_COUNT else None
