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
    """Deadlines of `seconds` each; for the tasks of one event loop at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # whose timer it is
        self.open: dict[Deadline, None] = {}  # in the order they fall due

    def enter(self, deadline: Deadline) -> None:
        """Let a deadline run from now on."""
        loop = asyncio.get_running_loop()
        deadline.due = loop.time() + self._seconds
        self.open[deadline] = None
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_at(deadline.due, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what is due, and wait for the oldest of the rest."""
        now = loop.time()
        self._timer = None
        for deadline in list(self.open):
            if deadline.due > now:
                self._timer = loop.call_at(deadline.due, self._expire, loop)
                return
            del self.open[deadline]
            deadline.expire()


class Deadline:
    """A context that ends its task's waiting when time is up, and then raises `TimeoutError`.

    As with `asyncio.timeout`, a cancellation by anybody else passes as what it is, and
    `expired` says whether it was this deadline that fell due. Entered once.
    """

    __slots__ = ("_cancelling", "_deadlines", "_task", "due", "expired")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self.due = 0.0
        self.expired = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._task, self._cancelling = task, task.cancelling()
        self._deadlines.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.expired:
            del self._deadlines.open[self]
        # the cancellation was ours; one that somebody else asked for besides must go on
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the waiting task; for `Deadlines` alone."""
        self.expired = True
        self._task.cancel()
