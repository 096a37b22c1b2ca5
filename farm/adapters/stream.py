"""Read a stream of stamped socket reads to one `Reading`, whatever the dialect.

The loop is the same for every interface: cut events out of bytes, hand each to the dialect,
stop at the answer's own end. A connection that breaks before that end makes the answer
truncated, also after a finish reason: usage, and perhaps more, never came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from farm.adapters.collect import Collector
from farm.adapters.secret import Secret, quoted
from farm.adapters.sse import EventSplitter, EventTooLong, SseEvent
from farm.core.reading import Reading

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
# a missing type is reported as octet-stream; some servers stream under these
STREAM_TYPES: Final = frozenset({"text/event-stream", "text/plain", "application/octet-stream"})
_DRAIN_S: Final = 0.25
_SHOWN_BYTES: Final = 80

Dialect = Callable[[SseEvent, Collector], None]
Stamped = tuple[float, bytes]  # seconds since the request was sent, what one read gave


class BrokenStream(Exception):
    """The connection failed in mid-stream; raised by a source of reads, with the reason."""

    def __init__(
        self, reason: str, *, at: float, status: str = "truncated", timed_out: bool = False
    ) -> None:
        self.at = at
        self.status = status  # "truncated", "oversized": a word of STATUSES
        self.timed_out = timed_out
        super().__init__(reason)


def not_a_stream(content_type: str, data: bytes, *, key: Secret | None) -> str:
    """Say what came where a stream was asked for."""
    seen = quoted(data, key, most=_SHOWN_BYTES)
    return f"a stream was asked for, {content_type!r} came: {seen}"


async def read_stream(
    reads: AsyncIterator[Stamped],
    dialect: Dialect,
    *,
    key: Secret | None = None,
    max_event_bytes: int = MAX_EVENT_BYTES,
) -> Reading:
    """Read until the answer ends, the stream does, or the source raises `BrokenStream`.

    What comes after the answer's end is passed over, with a warning, and does not move
    `elapsed_s`. Bytes that the end of the stream left without a blank line still count, with a
    warning. What is said of errors is without the `key`.
    """
    out = Collector(key=key)
    splitter = EventSplitter(max_event_bytes=max_event_bytes)
    broken = ""
    try:
        async for at, data in reads:
            out.at, out.read = at, out.read + 1
            if _take(splitter.feed(data), dialect, out):
                if out.done:  # after an error there is nothing to wait for
                    await _drain(reads, out)
                return out.reading(streamed=True)
    except BrokenStream as error:
        out.at = error.at
        broken = str(error)
        if error.timed_out:
            out.warn("timed_out")
        if error.status != "truncated":
            out.fail(error.status, broken)
    except EventTooLong:
        out.fail("oversized", f"an event is longer than {max_event_bytes} bytes")
    if not out.ended:
        last = splitter.close()
        if last is not None and broken:
            # an end that lacks its blank line is an end; all else may have been cut
            tail = Collector(key=key)
            dialect(last, tail)
            if tail.done and tail.failed is None:
                dialect(last, out)
        elif last is not None:
            # a call that was cut in mid-event shows here as JSON that ends too early
            tail = Collector(key=key)
            dialect(last, tail)
            if tail.failed is None or tail.failed[0] == "error":
                out.warn("unterminated_final_event")
                dialect(last, out)
    return out.reading(streamed=True, broken=broken)


async def _drain(reads: AsyncIterator[Stamped], out: Collector) -> None:
    """Read on to the end of the body, which lets the connection be used again, if it is near."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _, data in reads:
                if data.strip():
                    out.warn("data_after_done")
    except (TimeoutError, BrokenStream):
        return  # the answer is whole; the connection is not used again


def _take(events: list[SseEvent], dialect: Dialect, out: Collector) -> bool:
    """Hand events to the dialect until the answer ends; return whether it did."""
    for place, event in enumerate(events, start=1):
        dialect(event, out)
        if out.ended:
            if out.done and any(later.data.strip() for later in events[place:]):
                out.warn("data_after_done")
            return True
    return False
