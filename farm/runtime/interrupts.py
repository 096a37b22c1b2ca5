"""SIGINT and SIGTERM as records instead of exceptions, while an event loop runs.

Raised inside a loop an exception comes out wherever the loop happens to be, and the handlers
that a loop installs are gone before it has closed. These are there from before it starts until
after it has ended.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

import anyio

HEEDED = (signal.SIGINT, signal.SIGTERM)
_LEAVE_AT = 3
# `timeout` signals a process and then its group: that is one wish, not two. Nobody who waits for
# an answer to the first is quicker than this
_INSTANT_S = 0.002


class Interrupts:
    """Collects signals; the third calls `leave` on the spot, whatever the loop is doing.

    For the main thread. A signal that nobody took is raised again at the end of the block,
    under the handlers that were there before.
    """

    def __init__(
        self,
        *,
        leave: Callable[[signal.Signals], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leave = leave
        self._clock = clock
        self._came: list[signal.Signals] = []
        self._last = 0.0
        self._taken = 0

    def __enter__(self) -> Interrupts:
        # written to by the interpreter's own handler: it wakes the loop wherever the signal lands
        self._awake, self._waker = socket.socketpair()
        for end in (self._awake, self._waker):
            end.setblocking(False)
        self._waker_before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._take) for number in HEEDED}
        return self

    async def next(self) -> signal.Signals:
        """Wait for the next signal."""
        while self._taken == len(self._came):
            await anyio.wait_readable(self._awake)
            self._awake.recv(4096)
        self._taken += 1
        return self._came[self._taken - 1]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._waker_before)
        self._awake.close()
        self._waker.close()
        if error is None and self._came and not self._taken:
            signal.raise_signal(self._came[0])

    def _take(self, number: int, frame: FrameType | None) -> None:
        now = self._clock()
        if self._came and self._came[-1] == number and now - self._last < _INSTANT_S:
            return
        self._last = now
        self._came.append(signal.Signals(number))
        if len(self._came) >= _LEAVE_AT:
            self._leave(self._came[-1])


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back the handlers that an event loop takes away with its own when it ends."""
    before = {number: signal.getsignal(number) for number in HEEDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
