"""What a supervisor and its workers say to each other: one JSON object a line, at most 1 MiB.

To a worker, over its stdin: assignments. From a worker, over a private copy of its stdout:
that it is ready, which shard it executes, which receipt it wrote, why it stops. End of input
means that no more will come.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec

from farm.core.event import Note
from farm.core.receipt import ReceiptReference
from farm.errors import FarmError

MAX_LINE_BYTES = 1024 * 1024
_SHOWN = 200  # of a broken line, in messages


class Assignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lease handed to a worker; `until` in milliseconds since the epoch, or logical."""

    shard: str
    version: int
    until: int


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Assignments to execute in order; their receipts may be made durable together."""

    assignments: tuple[Assignment, ...]


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="worker.ready"):
    """The worker has opened the store and waits for work."""

    worker_pid: int


class Started(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="shard.started"):
    """The worker begins to execute a shard; if it dies now, this shard is charged."""

    shard: str
    version: int


class Progressed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="shard.progressed"
):
    """The shard that is executing has so many verdicts; said now and then where each takes time.

    Asks for nothing: it tells a slow worker from one that hangs.
    """

    shard: str
    version: int
    cases: int


class Scored(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="shard.scored"):
    """The shard's receipt is durable under its name; it counts once the ledger says so."""

    shard: str
    version: int
    receipt: ReceiptReference


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="worker.stopped"):
    """The worker cannot go on.

    `exit_code` is what the command should end with when the fault lies in the store or the plan;
    0 when it lies in the shard that was executing, which is then charged.
    """

    reason: str
    exit_code: int


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="shard.returned"):
    """The shard cannot be finished now, and not for a fault of the worker: asking failed.

    It is given back unfinished and uncharged, and not handed out again in this run.
    """

    shard: str
    version: int
    reason: str


class Displaced(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="shard.displaced"
):
    """The shard has its receipt, but another one is left under the name of this version.

    As a ledger that was restored from a copy finds them. Nobody holds the shard and nobody is to
    blame: it is given back uncharged, and the name of the next version is free.
    """

    shard: str
    version: int
    reason: str


class Noted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="worker.noted"):
    """Events for the run's stream."""

    notes: tuple[Note, ...]


class ModelPulse(msgspec.Struct, frozen=True, kw_only=True):
    """How far this process has come with a model; sums since it started."""

    done: int  # trials with a verdict
    scored: int  # those that count in a mean
    score: float  # their sum
    in_flight: int  # calls that are out now
    concurrency: int  # calls that may be out now
    busy: int  # answers that asked to come back later


class Pulse(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="worker.pulse"):
    """How far the process has come, said now and then; `cost` is what the run has spent so far."""

    models: dict[str, ModelPulse]
    cost: str  # for people, "" when nothing had a price


class Halting(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="run.halting"):
    """The run cannot go on now: no more may be asked. Nothing is wrong with the worker."""

    reason: str


Message = (
    Ready | Started | Progressed | Scored | Returned | Displaced | Noted | Pulse | Halting | Stopped
)

_encoder = msgspec.json.Encoder()
_batches = msgspec.json.Decoder(Batch)


@cache
def _messages() -> msgspec.json.Decoder[Message]:
    # made when the first comes: a worker, which must start quickly, reads none
    return msgspec.json.Decoder(Message)


class ProtocolError(FarmError):
    """A worker said something that is not a message, or is one out of turn."""


def encode_line(message: Batch | Message) -> bytes:
    """Give a message as a line with its newline."""
    return _encoder.encode(message) + b"\n"


def decode_batch(line: bytes) -> Batch:
    """Read a line of a worker's stdin; raises `ProtocolError` on anything else."""
    try:
        return _batches.decode(line)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"{line[:_SHOWN]!r} is not a batch: {error}") from error


def decode_message(line: bytes) -> Message:
    """Read a line of a worker's stdout; raises `ProtocolError` on anything else."""
    try:
        return _messages().decode(line)
    # the decoder skips foreign fields by recursion, however deep they are
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"{line[:_SHOWN]!r} is not a message: {error}") from error


class LineSplitter:
    """Cuts a stream of byte chunks into lines; what is left over waits for the next chunk."""

    def __init__(self, *, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Give the lines that end in `chunk`, without newlines; raises on an overlong one."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in (*lines, self._rest):
            if len(line) > self._max_bytes:
                raise ProtocolError(
                    f"a line of over {self._max_bytes} bytes, it begins {line[:_SHOWN]!r}"
                )
        return lines
