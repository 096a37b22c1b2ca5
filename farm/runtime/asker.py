"""A worker that asks: trials of many shards at once, answers to receipts, receipts to the run.

Shards are begun ahead of some model's calls, so that no endpoint waits for the slow trial of
another shard. It is published when all its trials have a verdict. One with a call that
failed and may still be answered is given back, unless errors are to be accepted as they are.
So is one with a call that failed for good, when its model has answered nothing at all: then it
is likely a setting that is wrong.
What goes wrong over one trial costs that trial and no other.
Which adapter a model has, and where answers are kept, is not this loop's business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

from farm.adapters.protocol import Model
from farm.core.event import Note
from farm.core.generation import Generation, failed
from farm.core.message import (
    Assignment,
    Batch,
    Halting,
    Message,
    Noted,
    Pulse,
    Returned,
    Scored,
    Started,
)
from farm.core.receipt import encode_receipt, refer
from farm.core.task import TaskSpec, render_prompt
from farm.core.trial import Trial
from farm.errors import Busy, Corrupt, Halted, SandboxUnavailable, StorageError
from farm.runtime.answered import receipt_of, trials_of
from farm.runtime.desk import Desk, OpenShard, Place
from farm.runtime.handover import hand_over
from farm.scoring.trial import TrialJudge, Verdict, runs_programs
from farm.store.protocol import Store

_MOST_OPEN: Final = 4096  # trials in memory, whatever the models bear
_PULSE_S: Final = 0.5
_NOTES: Final = 50  # in one message
_SHOWN: Final = 500  # characters of a foreign error
_GATHER_S: Final = 0.05  # receipts that come within it are made durable together
# what concerns the run and not one trial: its store, its cache, this machine
_OF_THE_RUN: Final = (MemoryError, StorageError, Corrupt, Busy, Halted, SandboxUnavailable)


_Judged = tuple[Generation, Verdict]


class Asker:
    """Executes batches of assignments by asking models.

    `models` and `limits` are by model id, `answered` are those that answered earlier in this run.
    `settle` makes the cost ledger durable, `cost` says
    what was spent. What models and the judge raise makes that trial a failure, but for what
    tells of the run's own store, cache or machine: that passes out of `run`, except `Halted`.
    """

    def __init__(
        self,
        store: Store,
        *,
        tasks: Mapping[str, TaskSpec],
        models: Mapping[str, Model],
        limits: Mapping[str, int],
        judge: TrialJudge,
        worker_pid: int,
        say: Callable[[Message], None],
        accept_errors: bool = False,
        answered: Collection[str] = (),
        settle: Callable[[], None] = lambda: None,
        cost: Callable[[], str] = lambda: "",
    ) -> None:
        self._store = store
        self._shards = {shard.name: shard for shard in store.plan.shards}
        self._tasks = tasks
        self._prompts = {name: render_prompt(task) for name, task in tasks.items()}
        self._programs = {name for name, task in tasks.items() if runs_programs(task)}
        self._desks = {
            name: Desk(model, limit=limits[name], answered=name in answered)
            for name, model in models.items()
        }
        self._judge = judge
        self._worker_pid = worker_pid
        self._say = say
        self._accept_errors = accept_errors
        self._settle = settle
        self._cost = cost
        self._queue: deque[Assignment] = deque()
        self._open_trials = 0
        self._open_shards = 0
        self._ready: list[tuple[Scored, bytes]] = []  # receipts to be made durable
        self._is_ready = asyncio.Event()
        self._doubtful: list[OpenShard] = []  # whole, with failures for good of mute models
        self._notes: list[Note] = []
        self._moved = asyncio.Event()  # something changed that may let a shard begin or end
        self._input_ended = False
        self._all_judged = asyncio.Event()
        self._stopping = False
        self._stop = asyncio.Event()

    async def run(self, batches: AsyncIterator[Batch]) -> None:
        """Execute batches until they end, or the run is to stop."""
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(batches))
            pulse = group.create_task(self._beat())
            publishing = group.create_task(self._publish())
            async with asyncio.TaskGroup() as trials:
                await self._feed(trials)
            self._decide_doubtful(last=True)
            self._all_judged.set()
            self._is_ready.set()
            await publishing
            reading.cancel()
            pulse.cancel()
        self._say_how_far()

    def stop(self) -> None:
        """Begin nothing more; calls that are out may end, and shards that are whole are published.

        For the event loop's own thread, as a signal handler of the loop is.
        """
        self._stopping = True
        self._stop.set()
        for desk in self._desks.values():
            desk.model.halt()
        self._moved.set()

    def tell(self, noted: Note) -> None:
        """Take an event of a model; it goes out with the next pulse."""
        self._notes.append(noted)
        if noted.fields.get("kind") == "busy":
            self._desks[str(noted.fields["model"])].busy += 1

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond `stop`; for the pauses of models."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _read(self, batches: AsyncIterator[Batch]) -> None:
        async for batch in batches:
            self._queue.extend(batch.assignments)
            self._moved.set()
        self._input_ended = True
        self._moved.set()

    async def _feed(self, trials: asyncio.TaskGroup) -> None:
        """Begin shards while some model has room; return when nothing is left to begin."""
        while not self._stopping:
            if self._queue and self._has_room():
                await self._begin(self._next(), trials)
            elif self._input_ended and not self._queue and not self._open_shards:
                return
            else:
                self._moved.clear()
                await self._moved.wait()

    def _has_room(self) -> bool:
        return self._open_trials < _MOST_OPEN and any(desk.room for desk in self._desks.values())

    def _next(self) -> list[Assignment]:
        """Take as many shards as there is room for, at least one."""
        room = sum(desk.room for desk in self._desks.values())
        taken = [self._queue.popleft()]
        while self._queue and sum(self._shards[one.shard].cases for one in taken) < room:
            taken.append(self._queue.popleft())
        return taken

    async def _begin(self, assignments: Sequence[Assignment], group: asyncio.TaskGroup) -> None:
        shards = [self._open(assignment) for assignment in assignments]
        for name, desk in self._desks.items():
            places = [
                place
                for shard in shards
                for number, trial in enumerate(shard.trials)
                if trial.model == name
                and (place := self._place(desk, shard, number=number, trial=trial)) is not None
            ]
            await desk.model.look_ahead([place.call for place in places])
            for place in places:
                desk.waiting.append(place)
                if desk.has_seat:
                    desk.askers += 1
                    group.create_task(self._ask_on(desk, group))

    def _open(self, assignment: Assignment) -> OpenShard:
        shard = self._shards[assignment.shard]
        trials = trials_of(self._store.read_cases(shard), shard, self._tasks)
        self._say(Started(shard=assignment.shard, version=assignment.version))
        count = len(trials)
        self._open_trials += count
        self._open_shards += 1
        return OpenShard(
            assignment=assignment,
            trials=trials,
            answers=[None] * count,
            verdicts=[None] * count,
            left=count,
        )

    def _place(self, desk: Desk, shard: OpenShard, *, number: int, trial: Trial) -> Place | None:
        """Say what is to be asked; None where that cannot be said, and the trial has failed."""
        task = self._tasks[trial.task]
        try:
            call = desk.model.call(self._prompts[trial.task], task, sample=trial.sample)
        except _OF_THE_RUN:
            raise
        except Exception as error:  # noqa: BLE001  adapters are foreign code; one trial is lost
            answer = _broken(error)
            self._open_trials -= 1
            self._take(desk, shard, number, (answer, self._judge(trial.id, task, answer)))
            return None
        return Place(shard, number, trial, call)

    async def _ask_on(self, desk: Desk, group: asyncio.TaskGroup) -> None:
        """Ask what waits at a desk, one trial after another; after `stop` nothing more."""
        try:
            while desk.waiting and not self._stopping:
                place = desk.waiting.popleft()
                if self._queue:
                    self._moved.set()
                try:
                    answer = await desk.model.answer(place.call)
                except _OF_THE_RUN:
                    raise
                except asyncio.CancelledError as error:
                    if _is_cancelled():
                        raise
                    answer = _broken(error)  # an adapter's own
                except Exception as error:  # noqa: BLE001  adapters are foreign code
                    answer = _broken(error)
                self._open_trials -= 1
                if place.trial.task in self._programs:  # they take their time, and no seat
                    group.create_task(self._run_program(desk, place, answer))
                else:
                    judged = self._verdict(place.trial, answer)
                    self._take(desk, place.shard, place.number, judged)
        except Halted as error:
            self._halt(error)
        finally:
            desk.askers -= 1

    def _verdict(self, trial: Trial, answer: Generation) -> _Judged:
        task = self._tasks[trial.task]
        try:
            return answer, self._judge(trial.id, task, answer)
        except _OF_THE_RUN:
            raise
        except Exception as error:  # noqa: BLE001  a fault of one metric costs no other trial
            broken = _broken(error, text=answer.text)
            return broken, self._judge(trial.id, task, broken)

    async def _run_program(self, desk: Desk, place: Place, answer: Generation) -> None:
        judged = await asyncio.to_thread(self._verdict, place.trial, answer)
        self._take(desk, place.shard, place.number, judged)

    def _take(self, desk: Desk, shard: OpenShard, number: int, judged: _Judged) -> None:
        answer, verdict = judged
        shard.answers[number] = answer
        shard.verdicts[number] = verdict
        desk.answered = desk.answered or answer.failure is None
        desk.count(verdict)
        shard.left -= 1
        if not shard.left:
            self._end(shard)

    def _halt(self, error: Halted) -> None:
        if not self._stopping:
            self._say(Halting(reason=str(error)))
            self.stop()

    def _end(self, shard: OpenShard) -> None:
        """Decide on a shard whose trials are all answered, as soon as that can be done."""
        self._open_shards -= 1
        self._moved.set()
        if self._accept_errors or not self._is_doubtful(shard):
            self._decide(shard)
        else:
            self._doubtful.append(shard)
        if self._doubtful:
            self._decide_doubtful(last=not self._open_shards and not self._queue)

    def _is_doubtful(self, shard: OpenShard) -> bool:
        """Say whether a trial failed for good whose model has answered nothing so far."""
        return any(
            answer is not None
            and answer.failure is not None
            and answer.failure.final
            and not self._desks[trial.model].answered
            for trial, answer in zip(shard.trials, shard.answers, strict=True)
        )

    def _decide_doubtful(self, *, last: bool) -> None:
        """Decide on shards that waited for a first answer; on the `last` occasion on all."""
        waiting, self._doubtful = self._doubtful, []
        for shard in waiting:
            if last or not self._is_doubtful(shard):
                self._decide(shard)
            else:
                self._doubtful.append(shard)

    def _decide(self, shard: OpenShard) -> None:
        """Hand a shard to the publisher, or give it back."""
        assignment = shard.assignment
        answers = [answer for answer in shard.answers if answer is not None]
        again = [
            (trial, answer.failure)
            for trial, answer in zip(shard.trials, answers, strict=True)
            if answer.failure is not None
            and not (answer.failure.final and self._desks[trial.model].answered)
        ]
        if again and not self._accept_errors:
            trial, failure = again[0]
            reason = f"{len(again)} of {len(answers)} calls, {trial.id}: {failure.detail}"
            self._say(
                Returned(shard=assignment.shard, version=assignment.version, reason=reason[:_SHOWN])
            )
            return
        verdicts = [verdict for verdict in shard.verdicts if verdict is not None]
        receipt = receipt_of(verdicts, answers, worker_pid=self._worker_pid)
        data = encode_receipt(receipt)
        scored = Scored(
            shard=assignment.shard, version=assignment.version, receipt=refer(receipt, data)
        )
        self._ready.append((scored, data))
        self._is_ready.set()

    async def _publish(self) -> None:
        """Make receipts durable as they come; those that come meanwhile share the next sync."""
        while self._ready or not self._all_judged.is_set():
            await self._is_ready.wait()
            self._is_ready.clear()
            await self._gather()
            await self._publish_ready()

    async def _gather(self) -> None:
        """Wait a little for more receipts, while more may come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_S):
                await self._all_judged.wait()

    async def _publish_ready(self) -> None:
        ready, self._ready = self._ready, []
        if not ready:
            return
        for message in await asyncio.to_thread(self._put, ready):
            self._say(message)

    def _put(self, ready: Sequence[tuple[Scored, bytes]]) -> Sequence[Message]:
        self._settle()
        return hand_over(self._store, ready)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_PULSE_S)
            self._say_how_far()

    def _say_how_far(self) -> None:
        while self._notes:
            part, self._notes = self._notes[:_NOTES], self._notes[_NOTES:]
            self._say(Noted(notes=tuple(part)))
        models = {name: desk.pulse() for name, desk in self._desks.items()}
        self._say(Pulse(models=models, cost=self._cost()))


def _broken(error: BaseException, *, text: str = "") -> Generation:
    """Make a failure of what an adapter or a metric raised; a later run asks or judges again."""
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return failed("program", detail[:_SHOWN], text=text)


def _is_cancelled() -> bool:
    """Say whether it is this task that is to end, and not something it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
