"""Standard streams: what is at their other end may be slow, stalled, full or gone.

They are written by descriptor and past Python's buffers: a thread that waits for a stalled
reader would hold the buffer's lock, on which the interpreter fails when it exits.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

STDERR = 2


def write_stream(fd: int, data: bytes, *, before_last: Callable[[], None] | None = None) -> None:
    """Write all of `data`, also to a pipe that does not block and takes a piece at a time.

    `before_last` is called when nothing is left to wait for: the stream is ready to take the rest.
    """
    rest = memoryview(data)
    if before_last is not None:
        # a pipe that is ready takes so much at once; a terminal may have room for a byte alone
        piece = 1 if os.isatty(fd) else select.PIPE_BUF
        write_stream(fd, data[:-piece])
        select.select([], [fd], [])
        before_last()
        rest = rest[-piece:]
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


def write_in_time(fd: int, data: bytes, *, timeout_s: float) -> bool:
    """Write `data` as far as its reader takes it in time; tell whether that was all."""
    end = time.monotonic() + timeout_s
    rest = memoryview(data)
    while rest:
        _, ready, _ = select.select([], [fd], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        # a pipe that is ready takes so much without blocking, whatever else it holds
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]
    return True


def reader_left(fd: int, *, within_s: float) -> bool:
    """Wait, no longer than told, for a stream's reader to go away; tell whether he did.

    Only of pipes and terminals it can be told without writing; a file has no reader.
    """
    watched = select.poll()
    watched.register(fd, 0)  # errors and hang-ups are reported without being asked for
    return bool(watched.poll(within_s * 1000))


def silence(fd: int) -> None:
    """Send a stream nowhere, so that the interpreter does not fail on it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
