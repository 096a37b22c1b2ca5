"""Blocking work in batches: what many coroutines ask for at once is done in one thread hop.

While one batch is worked on, the next gathers. That is group commit: the slower the disk, the
larger the groups.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class Lane(Generic[Job, Answer]):
    """Gives jobs to `work` in the order they came, at most one batch at a time.

    A batch starts `gather_s` seconds after its first job, or when the batch before it is done,
    whichever is later. What `work` raises is raised to every caller of that batch. A caller
    that is cancelled takes nothing back: its job is done all the same.
    """

    def __init__(
        self, work: Callable[[list[Job]], list[Answer]], *, name: str, gather_s: float
    ) -> None:
        self._work = work
        self._gather_s = gather_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: list[tuple[Job, asyncio.Future[Answer]]] = []
        self._due = False  # a batch is gathering or being worked on

    async def do(self, job: Job) -> Answer:
        """Have one job done."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((job, answer))
        if not self._due:
            self._due = True
            loop.call_later(self._gather_s, self._start, loop)
        return await answer

    def close(self) -> None:
        """Do what waits, wait for what is being worked on, and end the thread.

        Also of callers that are gone: an answer that was paid for is kept, whatever ended them.
        """
        if self._waiting:
            self._start(self._waiting[0][1].get_loop())
        self._thread.shutdown(wait=True)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:  # done by `close` before its time
            self._due = False
            return
        done = self._thread.submit(self._work, [job for job, _ in batch])
        done.add_done_callback(lambda future: self._hand_back(loop, future, batch))

    def _hand_back(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Future[list[Answer]],
        batch: list[tuple[Job, asyncio.Future[Answer]]],
    ) -> None:
        # a loop that has ended has nobody left who waits
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._finish, loop, done, batch)

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Future[list[Answer]],
        batch: list[tuple[Job, asyncio.Future[Answer]]],
    ) -> None:
        if self._waiting:
            self._start(loop)
        else:
            self._due = False
        error = done.exception()
        answers = [] if error is not None else done.result()
        for place, (_, waiter) in enumerate(batch):
            if waiter.cancelled():
                continue
            if error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(answers[place])
