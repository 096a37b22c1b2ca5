"""A way out for events that takes as long as it takes, without anybody waiting for it.

A log whose reader has stalled must not stop the leases from being renewed: events are queued
for a thread that writes them. The queue is bounded; what finds no room is dropped and counted,
since the store keeps every event anyway.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from farm.core.event import Event

ROOM = 4096  # events that wait, about a MiB of them
_PATIENCE_S = 2.0  # at the end, with a reader that takes nothing


class Outlet:
    """Hands events to `write`, one by one and in order, in a thread of its own.

    In the place of events that were dropped `write` is given one that counts them.
    """

    def __init__(
        self,
        write: Callable[[Event], None],
        *,
        count: Callable[[Event, int], Event],
        room: int = ROOM,
    ) -> None:
        """Start the thread; `count` makes the event that tells how many were dropped."""
        self._write = write
        self._count = count
        self._room = room
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._last_dropped: Event | None = None
        self._written = 0
        self._closing = False
        self._ended = False
        self._error: BaseException | None = None
        self._news = threading.Condition()
        # a daemon: one that waits for a stalled reader must not keep the process from its end
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def put(self, events: Sequence[Event]) -> None:
        """Queue events, or count them as dropped; never waits."""
        with self._news:
            for event in events:
                # what comes behind a gap waits until the gap is told of
                if self._dropped or len(self._waiting) >= self._room:
                    self._dropped += 1
                    self._last_dropped = event
                else:
                    self._waiting.append(event)
            self._news.notify()

    def close(self) -> bool:
        """Wait until all is written, as long as the reader takes any; tell whether it was.

        Raises what `write` raised.
        """
        with self._news:
            self._closing = True
            self._news.notify()
            while not self._ended:
                written = self._written
                self._news.wait(_PATIENCE_S)
                if not self._ended and self._written == written:
                    return False
            if self._error is not None:
                raise self._error
            return True

    def _run(self) -> None:
        try:
            while (event := self._next()) is not None:
                self._write(event)
                with self._news:
                    self._written += 1
                    self._news.notify()
        except BaseException as error:  # noqa: BLE001  raised again by close, in its thread
            self._error = error
        with self._news:
            self._ended = True
            self._news.notify()

    def _next(self) -> Event | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._dropped or self._closing)
            if self._waiting:
                return self._waiting.popleft()
            if self._last_dropped is None:
                return None
            told = self._count(self._last_dropped, self._dropped)
            self._dropped, self._last_dropped = 0, None
            return told


def dropped(last: Event, lines: int) -> Event:
    """Say that `lines` events up to `last` are missing from this log; the store has them."""
    return replace(last, level="warning", event="log.dropped", fields={"lines": lines})
