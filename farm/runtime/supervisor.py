"""The supervisor: an anyio task group of shifts under a cap, a deadline, and one committer.

It is the only writer of a run while it lives. It decides nothing about leases, which
`farm.core.lease` does, and knows nothing of files, which the store does; it only acts in time.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Sequence

import anyio
from anyio import CancelScope, Semaphore
from anyio.abc import TaskGroup

from farm.core.change import Change, Claim, Outcome, Release, Renew
from farm.core.event import Event, Note, note
from farm.core.lease import Lease
from farm.core.message import Pulse
from farm.errors import FarmError, Fenced
from farm.runtime.committer import Committer
from farm.runtime.interrupts import Interrupts
from farm.runtime.process import WorkerProcess, WorkerStartFailed
from farm.runtime.prospects import Ending, opening, to_reclaim
from farm.runtime.settings import RunSettings
from farm.runtime.shift import Shift
from farm.runtime.watch import Watch
from farm.store.protocol import Store

_BATCH_CASES = 10_000  # that a worker scores between two syncs, at most
_RETRIES_S = (0.1, 0.5, 2.0)  # pauses before another try to start a worker process
_LOOK_S = 1.0  # how often a waiting run looks at other owners' leases
_KILL_GRACE_S = 1.0
_LONG_ENOUGH_MS = 30_000  # no lease is made longer than this because one was lost


class Supervisor:
    """Runs workers on a store until nothing is left that it may do."""

    def __init__(
        self,
        store: Store,
        settings: RunSettings,
        *,
        on_events: Callable[[Sequence[Event]], None],
        interrupts: Interrupts | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._settings = settings
        self._interrupts = interrupts
        self._watch = watch
        self._committer = Committer(store, on_events=on_events)
        self._cap = Semaphore(settings.workers)
        self._shifts: dict[str, Shift] = {}
        self._spawned = 0
        self._starting: dict[str, Sequence[Lease]] = {}  # claimed for workers not yet running
        self._suspects: set[str] = set()  # shards one of which ended a worker that was at several
        self._failed_starts = 0
        self._failure: FarmError | None = None
        self._shift_ended = anyio.Event()
        self._dispatching = CancelScope()
        self._draining = False
        self._drain_begun = anyio.Event()
        self._ending = Ending()
        cases = max(1, store.plan.cases // max(1, len(store.plan.shards)))
        one_by_one = settings.delay_ms or settings.isolation  # shards that take their time
        by_cases = 1 if one_by_one else max(1, _BATCH_CASES // cases)
        self._batch = settings.shards_per_batch or by_cases
        self._share = settings.share(len(store.plan.shards))
        self._ttl_ms = settings.ttl_ms

    async def run(self) -> Ending:
        """Work until done, drained or failed; every worker has ended when it returns.

        Raises the `FarmError` that stopped the run.
        """
        async with anyio.create_task_group() as service:
            service.start_soon(self._committer.run)
            if self._interrupts is not None:
                service.start_soon(self._watch_signals, service, self._interrupts)
            if self._settings.now_ms is None:
                service.start_soon(self._renew)
            await self._supervise()
            service.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return self._ending

    async def _supervise(self) -> None:
        try:
            await self._begin()
        except FarmError as error:
            self._failure = error
            return
        async with anyio.create_task_group() as shifts:
            if self._settings.deadline_s:
                self._dispatching.deadline = anyio.current_time() + self._settings.deadline_s
            with self._dispatching:
                await self._dispatch(shifts)
            if self._dispatching.cancelled_caught and not self._draining:
                self._ending.deadline = True
                self._drain(grace_s=self._settings.deadline_grace_s)
                await self._announce("the deadline: workers may finish what they have begun")

    async def _begin(self) -> None:
        ledger = self._committer.ledger
        await self._committer.tell(opening(ledger, self._settings, pid=os.getpid()))
        if self._settings.now_ms is None:
            reclaims = to_reclaim(ledger, self._settings.is_gone)
            if reclaims:
                await self._committer.commit(reclaims)

    async def _dispatch(self, shifts: TaskGroup) -> None:
        """Start a shift whenever the cap allows it and there is a shard to claim."""
        while self._failure is None:
            ended = self._shift_ended
            await self._cap.acquire()
            # from claim to shift without a gap: a cancellation in between would strand the lease
            with CancelScope(shield=True):
                started = await self._start_shift(shifts)
            if started:
                continue
            self._cap.release()
            if self._shifts or self._starting:
                await ended.wait()
            elif not await self._wait_for_others():
                return

    async def _start_shift(self, shifts: TaskGroup) -> bool:
        if self._committer.ledger.settled:  # for good; to ask again would take the store's lock
            return False
        name = f"{self._settings.name}-w{self._spawned + 1}"
        leases = await self._claim_suspect(name)
        allowance = 1 if leases else self._share
        if not leases:
            claim = self._claim(name, limit=self._limit(self._share), skip=self.unwanted())
            leases = await self._commit_or_fail([claim])
        if not leases:
            return False
        self._spawned += 1
        self._starting[name] = leases
        shifts.start_soon(self._work, name, leases, allowance)
        return True

    async def _claim_suspect(self, name: str) -> Sequence[Lease]:
        """Claim one shard under suspicion, if there is any: its worker gets no other.

        So the next death, if it is that shard's doing, is charged to it and to nobody else.
        """
        ledger = self._committer.ledger
        self._suspects -= {lease.shard for lease in ledger.leases if lease.settled}
        if not self._suspects:
            return ()
        others = {lease.shard for lease in ledger.leases} - self._suspects
        skip = frozenset(self._ending.returned) | others
        return await self._commit_or_fail([self._claim(name, limit=1, skip=skip)])

    def _claim(self, name: str, *, limit: int, skip: frozenset[str]) -> Claim:
        settings = self._settings
        return Claim(
            worker=name,
            ttl=self._ttl_ms,
            limit=limit,
            incarnation=settings.incarnation,
            now=settings.now_ms,
            skip=skip,
        )

    async def _commit_or_fail(self, changes: Sequence[Change]) -> Sequence[Lease]:
        try:
            outcome = (await self._commit(changes))[0]
        except FarmError as error:
            self._fail(error)
            return ()
        if isinstance(outcome, Fenced):  # a lease to give back is somebody else's already
            return ()
        if isinstance(outcome, FarmError):  # no clock or lifetime under which to claim anything
            self._fail(outcome)
            return ()
        return outcome

    async def _work(self, name: str, leases: Sequence[Lease], allowance: int) -> None:
        """Spawn a worker and serve its shift; the place under the cap is given back at the end."""
        try:
            process = await self._spawn(name)
            if process is None:
                with CancelScope(shield=True):
                    await self._give_back(leases)
                return
            shift = Shift(
                name=name,
                process=process,
                first=leases,
                allowance=allowance,
                limit=self._limit,
                settings=self._settings,
                ttl_ms=lambda: self._ttl_ms,
                commit=self._commit,
                tell=self._committer.tell,
                hears=self,
            )
            self._shifts[name] = shift
            del self._starting[name]
            if self._draining:
                shift.dismiss(grace_s=_KILL_GRACE_S)
            try:
                await shift.run()
            finally:
                if self._watch is not None:
                    self._watch.ended(name)
            self._judge(shift)
        except FarmError as error:
            self._fail(error)
        finally:
            self._starting.pop(name, None)
            self._shifts.pop(name, None)
            self._cap.release()
            self._shift_ended.set()
            self._shift_ended = anyio.Event()

    def published(self, lease: Lease) -> None:
        """Take note of a receipt that counts."""
        self._ending.published.append(lease)
        if self._watch is not None:
            self._watch.published(lease)

    def returned(self, shard: str, reason: str) -> None:
        """Take note of a shard that was given back."""
        self._ending.returned[shard] = reason

    def unwanted(self) -> frozenset[str]:
        """Say which shards no worker may claim beside others: given back, or under suspicion."""
        return frozenset(self._ending.returned) | self._suspects

    def halting(self, reason: str) -> Sequence[Note]:
        """End the run as pending: workers may finish what they have out, however long it takes.

        Each call has a timeout of its own, and an answer that is waited for is paid for.
        """
        first = not self._draining
        self._ending.halted = self._ending.halted or reason
        self._drain(grace_s=math.inf)
        return [note("run.draining", reason=reason)] if first else ()

    def pulse(self, worker: str, pulse: Pulse) -> Sequence[Note]:
        """Pass on how far a worker is."""
        return () if self._watch is None else self._watch.pulse(worker, pulse)

    def _judge(self, shift: Shift) -> None:
        self._suspects |= shift.suspects
        if shift.failure is not None:
            self._fail(shift.failure)
        elif shift.began or shift.dismissed:
            self._failed_starts = 0
        else:
            self._failed_starts += 1
            if self._failed_starts > len(_RETRIES_S):
                reason = f"{self._failed_starts} in a row ended before they began a shard"
                self._fail(WorkerStartFailed(reason=reason, log=shift.last_words))

    async def _spawn(self, name: str) -> WorkerProcess | None:
        """Start a worker process, with pauses between tries; None when the run must stop."""
        command = self._settings.worker_command
        if self._failed_starts:
            await self._pause(_RETRIES_S[min(self._failed_starts, len(_RETRIES_S)) - 1])
        for pause_s in (*_RETRIES_S, None):
            if self._draining:
                return None
            try:
                return await WorkerProcess.spawn(command)
            except OSError as error:
                where = f"{error.filename!r}: " if error.filename else ""
                reason = where + os.strerror(error.errno or 0).lower()
                if error.errno == errno.EAGAIN:
                    reason += " (raise `ulimit -u`, or give fewer --workers)"
            if pause_s is None:
                break
            await self._committer.tell(
                [note("worker.spawn_failed", worker=name, reason=reason, retry_s=pause_s)]
            )
            await self._pause(pause_s)
        self._fail(WorkerStartFailed(reason=reason, log=""))
        return None

    async def _pause(self, pause_s: float) -> None:
        """Wait, but no longer than the run goes on."""
        with anyio.move_on_after(pause_s):
            await self._drain_begun.wait()

    async def _commit(self, changes: Sequence[Change]) -> list[Outcome]:
        """Commit; leases that ran out before they could be renewed make the next ones longer.

        Else a lifetime below what this machine needs to start a worker and to sync its disk
        would let no shard ever finish.
        """
        outcomes = await self._committer.commit(changes)
        if any(isinstance(outcome, Fenced) for outcome in outcomes):
            self._ttl_ms = max(self._ttl_ms, min(2 * self._ttl_ms, _LONG_ENOUGH_MS))
        return outcomes

    async def _give_back(self, leases: Sequence[Lease]) -> None:
        await self._commit_or_fail(
            [
                Release(
                    shard=lease.shard,
                    worker=lease.worker,
                    version=lease.version,
                    reason="no worker was started",
                )
                for lease in leases
            ]
        )

    def _limit(self, allowance: int) -> int:
        """Say how many shards one claim may take: a batch, and never most of what is left."""
        left = sum(
            not lease.settled and not lease.worker for lease in self._committer.ledger.leases
        )
        fair = math.ceil(left / (2 * self._settings.workers))
        return max(1, min(allowance, self._batch, fair)) if allowance else 0

    async def _wait_for_others(self) -> bool:
        """With `wait`, sleep until another owner's lease may have expired; else say no."""
        if not self._settings.wait or self._settings.now_ms is not None:
            return False
        if self._committer.ledger.settled:
            return False
        await anyio.sleep(_LOOK_S)
        return True

    async def _renew(self) -> None:
        """Renew the leases of all live workers, three times within their life."""
        while True:
            await anyio.sleep(self._ttl_ms / 3000)
            shifts = list(self._shifts.values())
            held = [lease for shift in shifts for lease in shift.held.values()]
            held += [lease for leases in self._starting.values() for lease in leases]
            renewals = [
                Renew(
                    shard=lease.shard,
                    worker=lease.worker,
                    version=lease.version,
                    ttl=self._ttl_ms,
                )
                for lease in held
            ]
            if not renewals:
                continue
            try:
                outcomes = await self._commit(renewals)
            except FarmError as error:
                self._fail(error)
                return
            for change, outcome in zip(renewals, outcomes, strict=True):
                if isinstance(outcome, FarmError) and change.worker in self._shifts:
                    self._shifts[change.worker].lost(change.shard, change.version)

    def _fail(self, error: FarmError) -> None:
        """Stop the run: no more dispatch, every worker ended."""
        self._failure = self._failure or error
        self._drain(grace_s=_KILL_GRACE_S)

    def _drain(self, *, grace_s: float) -> None:
        self._draining = True
        self._committer.hasty = True
        self._drain_begun.set()
        self._dispatching.cancel()
        for shift in self._shifts.values():
            shift.dismiss(grace_s=grace_s)

    async def _watch_signals(self, service: TaskGroup, interrupts: Interrupts) -> None:
        """Drain on the first signal, end the workers on the second; the third leaves by itself.

        Nothing here waits for the disk: a person who presses again is heard at once.
        """
        number = await interrupts.next()
        self._ending.signal = number
        self._drain(grace_s=self._settings.grace_s)
        service.start_soon(self._announce, f"{number.name}: workers may finish their shards")
        await interrupts.next()
        self._drain(grace_s=0)

    async def _announce(self, reason: str) -> None:
        try:
            await self._committer.tell([Note(event="run.draining", fields={"reason": reason})])
        except FarmError as error:
            self._fail(error)
