"""What one call told, and when: the value between an endpoint's wire and a generation.

Times are seconds since the request was sent, stamped when the bytes were read from the socket.
The rules that turn stamps into rates stand here, once, and know nothing of any wire format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from farm.core.generation import ToolCall, Usage

# How a reading ended, one sentence each.
STATUSES: Final = {
    "ok": "the answer is whole and has something visible in it",
    "empty": "the answer is whole and there is nothing in it",
    "no_visible_output": "the answer is whole and holds reasoning alone",
    "truncated": "the connection or the stream ended before the answer did",
    "error": "the endpoint said so, by status or in mid-stream",
    "malformed": "what came cannot be read",
    "oversized": "more came than the limit allows",
    "not_sse": "a stream was asked for and something else came",
}


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When things arrived.

    Payload is text, reasoning or a tool call; roles, usage, finish reasons, progress and
    comments are not. `payload_s` has one stamp for each event that carried payload, in order;
    `payload_reads` the number of the socket read each came with.
    """

    first_event_s: float | None = None
    first_visible_s: float | None = None  # reasoning and white space are not visible
    payload_s: tuple[float, ...] = ()
    payload_reads: tuple[int, ...] = ()
    first_payload_tokens: int | None = None  # told by the endpoint, not guessed
    server_decode_tps: float | None = None  # the endpoint's own clock
    elapsed_s: float = 0.0  # to the end of the answer

    @property
    def first_payload_s(self) -> float | None:
        """When the first payload arrived, reasoning included."""
        return self.payload_s[0] if self.payload_s else None

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """The waits between payload events; a chunk is not a token."""
        return tuple(later - earlier for earlier, later in pairwise(self.payload_s))

    @property
    def read_gaps_s(self) -> tuple[float, ...]:
        """The waits between socket reads that brought payload."""
        stamps = dict(zip(reversed(self.payload_reads), reversed(self.payload_s), strict=True))
        return tuple(later - earlier for earlier, later in pairwise(sorted(stamps.values())))

    @property
    def coalesced(self) -> int:
        """How many payload events came with a read that had brought one already."""
        return len(self.payload_reads) - len(set(self.payload_reads))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one call told; `status` is a word of `STATUSES`."""

    status: str
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    error: str = ""
    error_code: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    model_version: str | None = None
    logprobs: tuple[float, ...] | None = None  # of the answer's tokens, in nats; None: not told
    timing: Timing = Timing()
    warnings: tuple[str, ...] = ()


def decode_rate(reading: Reading) -> float | None:
    """Return tokens per second from the first payload to the last, None when it is not known.

    The tokens of the first chunk are not counted, since their wait is the prompt's. When the
    endpoint does not tell how many they were, a number is only given if every chunk was one
    token. Source of tokens: usage, never the number of chunks.
    """
    stamps = reading.timing.payload_s
    tokens = reading.usage.completion_tokens if reading.usage else None
    if tokens is None or tokens < 2 or len(stamps) < 2:
        return None
    first = reading.timing.first_payload_tokens
    if first is None:
        if len(stamps) != tokens:
            return None
        first = 1
    window = stamps[-1] - stamps[0]
    return (tokens - first) / window if window > 0 else None


def decode_rate_bounds(reading: Reading) -> tuple[float, float] | None:
    """Return the rates between which the decode rate lies when chunk sizes are not told."""
    stamps = reading.timing.payload_s
    tokens = reading.usage.completion_tokens if reading.usage else None
    if tokens is None or tokens < 2 or len(stamps) < 2 or stamps[-1] <= stamps[0]:
        return None
    window = stamps[-1] - stamps[0]
    return (len(stamps) - 1) / window, (tokens - 1) / window


def total_nll(logprobs: Sequence[float]) -> float | None:
    """Return the sum of negative log-likelihoods, None when a value is no log-probability.

    A value above zero by no more than rounding counts as zero. A sum that is not finite is none:
    nothing that is written down could tell it.
    """
    if any(not -math.inf < value <= 1e-4 for value in logprobs):
        return None
    try:
        return math.fsum(max(0.0, -value) for value in logprobs)
    except OverflowError:
        return None
