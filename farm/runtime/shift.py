"""One worker process from spawn to judgement: hand out, publish, and settle what is left.

While the worker executes one batch the next is claimed already, in the same commit that
publishes the last, so it never waits for the disk. When it ends, for whatever reason, its last
output is read first; what it did not finish is given back, and only the shard that was
executing is charged, and only if the fault was the worker's own. Where it was at several at
once, each of them is a suspect and none is charged: the next worker has one of them to itself.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import anyio

from farm.core.change import Change, Claim, Outcome, Publish
from farm.core.event import Note, note
from farm.core.lease import Lease
from farm.core.message import (
    Assignment,
    Batch,
    Displaced,
    Halting,
    Message,
    Noted,
    ProtocolError,
    Pulse,
    Returned,
    Scored,
    Started,
    Stopped,
)
from farm.core.narration import fenced_note
from farm.errors import FarmError, Fenced
from farm.runtime.departure import Departure, release
from farm.runtime.process import WorkerProcess
from farm.runtime.settings import RunSettings
from farm.runtime.watch import Hears

Commit = Callable[[Sequence[Change]], Awaitable[list[Outcome]]]
_EXIT_S = 5.0  # for a worker with nothing left to do to be gone
# for the rest of what a dead worker said; a child of it may hold the pipes open for ever
_LAST_WORDS_S = 2.0
_LOG_S = 1.0
_LOG_LINES = 200  # of a worker's stderr that are passed on


class Shift:
    """The time of one worker process; `run` returns when it is over and settled."""

    def __init__(
        self,
        *,
        name: str,
        process: WorkerProcess,
        first: Sequence[Lease],
        allowance: int,
        limit: Callable[[int], int],
        settings: RunSettings,
        ttl_ms: Callable[[], int],
        commit: Commit,
        tell: Callable[[Sequence[Note]], Awaitable[None]],
        hears: Hears,
    ) -> None:
        """Prepare a shift on `first`.

        `allowance` is the number of shards the process may take in all, the first included.
        `limit` says how many of `n` shards may be claimed at once, `ttl_ms` for how long.
        """
        self.name = name
        self.held: dict[str, Lease] = {lease.shard: lease for lease in first}
        self.executing = ""
        self.suspects: frozenset[str] = frozenset()  # one of which may have ended the worker
        self.began = False  # whether any shard was started
        self.failure: FarmError | None = None  # for the whole run to stop with
        self.last_words = ""
        self.dismissed = False  # sent home by the supervisor: nothing it leaves is its fault
        self._process = process
        self._first = tuple(first)
        self._allowance = allowance - len(first)
        self._limit = limit
        self._settings = settings
        self._ttl_ms = ttl_ms
        self._commit = commit
        self._tell = tell
        self._hears = hears
        # leases that ran out, by a clock that may be set back: nobody has taken them for certain
        self._given_up: list[Lease] = []
        self._begun: set[str] = set()  # shards that it is at
        self._told: list[Note] = []  # events that messages brought along
        self._queue: list[str] = []  # shards handed out and not started yet
        self._input_open = True
        self._reason = ""  # what the worker did wrong
        self._stalled = False
        self._log_lines = 0
        self._log_ended = anyio.Event()
        self._reading = anyio.CancelScope()
        self._listening = anyio.CancelScope()  # for the next message, and no longer
        self._silent_from = math.inf  # when nothing more can come: it is dead, its pipe is read
        self._ending = anyio.CancelScope(shield=True)

    async def run(self) -> None:
        """Serve the worker to its end, judge it, settle its leases; cancellation dismisses it."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._drain_log)
                group.start_soon(self._watch_exit)
                await self._serve()
                with anyio.move_on_after(_LOG_S):
                    await self._log_ended.wait()
                group.cancel_scope.cancel()
        finally:
            await self._process.close()
            with anyio.CancelScope(shield=True):
                await self._settle()

    async def _serve(self) -> None:
        pid = self._process.pid
        try:
            await self._tell([note("worker.spawned", worker=self.name, worker_pid=pid)])
            with self._reading:
                await self._hand_out(self._first)
                await self._follow(stall_s=self._settings.stall_s)
            with self._ending:
                await self._end()
        except FarmError as error:
            self.failure = self.failure or error
            self._process.kill()

    def dismiss(self, *, grace_s: float) -> None:
        """End the shift: the worker may finish its shard within `grace_s`, uncharged."""
        self.dismissed = True
        self._ending.deadline = min(self._ending.deadline, anyio.current_time() + grace_s)
        self._reading.cancel()

    def lost(self, shard: str, version: int) -> None:
        """Take note that a lease is somebody else's now; its execution is stopped.

        A renewal that raced with the shard's own publish is no loss: it is not held any more.
        """
        lease = self.held.get(shard)
        if lease is None or lease.version != version:
            return
        self._given_up.append(self.held.pop(shard))
        if shard == self.executing or (self._settings.overlapping and shard in self._begun):
            self.dismiss(grace_s=0)

    async def _follow(self, *, stall_s: float) -> None:
        """Act on the worker's messages until it closes its output."""
        messages = self._process.messages()
        while True:
            limit_s = stall_s if self.held else _EXIT_S
            said: Sequence[Message] | None = None
            end = min(anyio.current_time() + limit_s, self._silent_from)
            try:
                with anyio.CancelScope(deadline=end) as self._listening:
                    said = await anext(messages, None)
                if said is None:
                    if self._listening.cancelled_caught and self._silent_from == math.inf:
                        self._stalled = True
                        self._reason = f"it said nothing for {limit_s:g} s"
                    return
                # a commit whose answer is not awaited would leave its claims with nobody
                with anyio.CancelScope(shield=True):
                    await self._act(said)
            except ProtocolError as error:
                self._reason = str(error)
                return

    async def _watch_exit(self) -> None:
        """Bound the wait for messages once the worker is dead, whoever holds its pipe."""
        await self._process.reap()
        self._silent_from = anyio.current_time() + _LAST_WORDS_S
        self._listening.deadline = min(self._listening.deadline, self._silent_from)

    def _check_turn(self, message: Started | Scored | Returned | Displaced) -> None:
        """Refuse a message about a shard that the worker was never handed under this version.

        A shard that was lost meanwhile, and maybe handed to it again, is no fault of the worker.
        """
        held = self.held.get(message.shard)
        known = held is None or message.version <= held.version
        if isinstance(message, Started):
            known = known and message.shard in self._queue
        if not known:
            raise ProtocolError(
                f"{message.shard!r} v{message.version} is out of turn: it was not handed out so"
            )

    async def _act(self, said: Sequence[Message]) -> None:
        """Commit what the worker's messages ask for, and have it never wait for work."""
        changes: list[Change] = []
        astray: ProtocolError | None = None
        try:
            for message in said:
                self._take(message, changes)
        except ProtocolError as error:
            astray = error
            self._reason = str(error)
        want = self._wanted()
        if want:
            changes.append(self._claim(want))
        if changes:
            await self._change(changes)
        if self._told:
            told, self._told = self._told, []
            await self._tell(told)
        if self._input_open and not self._queue:  # nothing that it has not begun, nothing to come
            self._input_open = False
            await self._process.end_input()
        if astray is not None:  # only now: what it said before it went astray counts
            raise astray

    def _take(self, message: Message, changes: list[Change]) -> None:
        match message:
            case Started(shard=shard):
                self._check_turn(message)
                self.began = True
                self.executing = shard
                self._begun.add(shard)
                self._queue = [other for other in self._queue if other != shard]
            case Scored(shard=shard, version=version, receipt=receipt):
                self._check_turn(message)
                self._ended(shard)
                held = self.held.get(shard)
                if held is not None and held.version == version:
                    changes.append(
                        Publish(
                            shard=shard,
                            worker=self.name,
                            version=version,
                            receipt=receipt,
                            now=self._settings.now_ms,
                        )
                    )
            case (
                Returned(shard=shard, version=version, reason=reason)
                | Displaced(shard=shard, version=version, reason=reason)
            ):
                self._check_turn(message)
                self._ended(shard)
                if isinstance(message, Returned):  # not to be handed out again in this run
                    self._hears.returned(shard, reason)
                lease = self.held.get(shard)
                if lease is not None and lease.version == version:
                    del self.held[shard]
                    changes.append(release(lease, reason=reason))
            case Halting(reason=reason):
                self._told.extend(self._hears.halting(reason))
            case Pulse():
                self._told.extend(self._hears.pulse(self.name, message))
            case Noted(notes=notes):
                self._told.extend(notes)
            case Stopped(reason=reason, exit_code=exit_code):
                self._reason = reason
                if exit_code:
                    self.failure = WorkerStopped(reason, exit_code=exit_code)
            case _:
                pass

    def _ended(self, shard: str) -> None:
        self._begun.discard(shard)
        if shard == self.executing:
            self.executing = ""

    def _wanted(self) -> int:
        """Say how many shards to claim now: a batch, once the last one handed out has begun."""
        if self.dismissed or self._reason or self._queue or not self._input_open:
            return 0
        return min(self._allowance, self._limit(self._allowance))

    def _claim(self, limit: int) -> Claim:
        settings = self._settings
        return Claim(
            worker=self.name,
            ttl=self._ttl_ms(),
            limit=limit,
            incarnation=settings.incarnation,
            now=settings.now_ms,
            skip=self._hears.unwanted(),
        )

    async def _change(self, changes: Sequence[Change]) -> None:
        outcomes = await self._commit(changes)
        fenced: list[Note] = []
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(change, Publish):
                lease = self.held.pop(change.shard, None)
                if isinstance(outcome, FarmError) and lease is not None:
                    self._given_up.append(lease)
                if isinstance(outcome, Fenced):
                    fenced.append(
                        fenced_note(shard=change.shard, worker=self.name, refusal=outcome)
                    )
                elif not isinstance(outcome, FarmError):
                    self._hears.published(outcome[0])
            elif isinstance(change, Claim) and not isinstance(outcome, FarmError):
                self._allowance -= len(outcome)
                self.held.update({lease.shard: lease for lease in outcome})
                await self._hand_out(outcome)
        if fenced:
            await self._tell(fenced)

    async def _hand_out(self, leases: Sequence[Lease]) -> None:
        if not leases:
            return
        self._queue = [lease.shard for lease in leases]
        await self._process.send(
            Batch(
                assignments=tuple(
                    Assignment(shard=lease.shard, version=lease.version, until=lease.until)
                    for lease in leases
                )
            )
        )

    async def _end(self) -> None:
        """Let the worker go: by itself, or asked, or killed when the grace is over."""
        if self._reason or self.failure:
            self._process.kill()
        elif self.dismissed:
            self._process.ask_to_end()
            await self._process.end_input()
            await self._follow(stall_s=self._settings.stall_s)
            if self._stalled:
                self._reason = ""  # dismissed: slow is no fault
                self._process.kill()
        with anyio.move_on_after(_EXIT_S):
            await self._process.reap()
            return
        self._process.kill()

    async def _settle(self) -> None:
        """Give back what is left, charge what the worker's own fault cost, tell how it ended."""
        executing = self.executing
        begun = self._begun & self.held.keys()
        if self._settings.overlapping:
            executing = next(iter(begun)) if len(begun) == 1 else ""
        departure = Departure(
            worker=self.name,
            worker_pid=self._process.pid,
            exit_code=await self._process.reap(),
            complaint=self._reason,
            dismissed=self.dismissed,
            executing=executing,
            held=tuple(self.held.values()),
            ran_out=tuple(self._given_up),
        )
        if self._settings.overlapping and departure.faulty and len(begun) > 1:
            self.suspects = frozenset(begun)
        changes = departure.changes(
            max_attempts=self._settings.max_attempts, charged=self.failure is None
        )
        try:
            if changes:
                await self._commit(changes)
            await self._tell([departure.told()])
        except FarmError as error:
            # the leases stay with us in the ledger; the next run takes them over at once
            self.failure = self.failure or error
        self.held.clear()

    async def _drain_log(self) -> None:
        """Pass on what the worker writes on stderr as it comes; all is read, so it never blocks."""
        async for lines in self._process.log_lines():
            self.last_words = next((line for line in reversed(lines) if line), self.last_words)
            told = [
                note("worker.logged", worker=self.name, worker_pid=self._process.pid, line=line)
                for line in lines[: max(0, _LOG_LINES - self._log_lines)]
            ]
            self._log_lines += len(lines)
            try:
                if told:
                    await self._tell(told)
            except FarmError as error:
                self.failure = self.failure or error
        self._log_ended.set()


class WorkerStopped(FarmError):
    """A worker met something that stops the whole run, such as a damaged store."""

    def __init__(self, reason: str, *, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
