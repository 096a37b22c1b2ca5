"""Deadlines of one length, many at a time, with one timer of the event loop for all of them.

What calls wait for almost always comes long before its deadline. A timer of the loop for each
would be set and cancelled for nothing, and the cancelled ones would fill its heap. Deadlines of
one length fall due in the order they were set, so it is enough to watch the oldest.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Deadlines:
    """Sets deadlines `seconds` from when they are entered; for the tasks of one loop at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[Deadline, None] = {}  # in the order they fall due
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # whose timer it is

    def set(self) -> Deadline:
        """Give a deadline that runs while it is entered."""
        return Deadline(self)

    def _enter(self, deadline: Deadline) -> float:
        """Take note of a deadline; give the loop's time at which it falls due."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._seconds
        self._open[deadline] = None
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_at(due, self._expire, loop)
        return due

    def _exit(self, deadline: Deadline) -> None:
        self._open.pop(deadline, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what is due, and wait for the oldest of the rest."""
        now = loop.time()
        self._timer = None
        for deadline in list(self._open):
            if deadline.due > now:
                self._timer = loop.call_at(deadline.due, self._expire, loop)
                return
            del self._open[deadline]
            deadline.expire()


class Deadline:
    """A context that ends its task's waiting when time is up, and then raises `TimeoutError`.

    As with `asyncio.timeout`, a cancellation by anybody else passes as what it is, and
    `expired` says whether it was this deadline that fell due. Entered once.
    """

    __slots__ = ("_all", "_cancelling", "_task", "due", "expired")

    def __init__(self, all: Deadlines) -> None:
        self._all = all
        self.due = 0.0
        self.expired = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._task, self._cancelling = task, task.cancelling()
        self.due = self._all._enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.expired:
            self._all._exit(self)
            return
        # the cancellation was ours; one that somebody else asked for besides must go on
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the waiting task; for `Deadlines` alone."""
        self.expired = True
        self._task.cancel()
