"""A worker's job: read a shard's cases, score them, make the receipt durable, say so.

Deciding who may finish a shard is not its business: it works on leases it was handed, and what
it publishes counts only if the ledger still agrees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from farm.core.case import ProgramInput, ScoredInput
from farm.core.message import Assignment, Batch, Message, Progressed, Scored, Started
from farm.core.plan import TASKS, Plan, Shard
from farm.core.receipt import (
    Receipt,
    ReceiptReference,
    build_receipt,
    encode_receipt,
    refer,
)
from farm.errors import Corrupt, SpecError
from farm.runtime.handover import hand_over
from farm.scoring.batch import judge_cases
from farm.scoring.registry import Scorer, scorer
from farm.store.protocol import Store

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner

PULSE_S = 1.0  # between two words about a shard whose cases take time, at the least

_decoder = msgspec.json.Decoder(list[ScoredInput])
_program_decoder = msgspec.json.Decoder(list[ProgramInput])


def scorer_of(plan: Plan) -> Scorer:
    """Give the scorer a plan names; another version than the planned one is another scorer."""
    if plan.identity.scorer.name == TASKS:
        raise SpecError("the cases of this run are asked of models: continue it with `farm eval`")
    found = scorer(plan.identity.scorer.name)
    if found.version != plan.identity.scorer.version:
        raise SpecError(
            f"the run was planned with {plan.identity.scorer}, this farm has version "
            f"{found.version}: score it anew in a new store, or use the farm that planned it"
        )
    return found


def decode_cases(data: bytes, shard: Shard, *, programs: bool = False) -> Sequence[ScoredInput]:
    """Read a shard's records, each ended by a newline; raises `Corrupt` on a wrong number.

    For `programs` they are `ProgramInput`.
    """
    # records hold no raw newline, so one array is decoded instead of many lines
    array = b"[" + data[:-1].replace(b"\n", b",") + b"]"
    cases: Sequence[ScoredInput] = (_program_decoder if programs else _decoder).decode(array)
    if len(cases) != shard.cases:
        reason = f"{shard.name} has {len(cases)} cases, the plan says {shard.cases}"
        raise Corrupt(path="cases", reason=reason)
    return cases


def score_shard(
    data: bytes,
    shard: Shard,
    metric: Scorer,
    *,
    worker_pid: int,
    programs: ProgramRunner | None = None,
    on_case: Callable[[int], None] | None = None,
) -> Receipt:
    """Score a shard's records into its receipt; the same records give the same verdicts.

    `programs` runs what a metric that runs programs is given; `on_case` is told now and then how
    many cases have their verdict. Raises `SpecError` when such a metric has nobody to run them.
    """
    cases = decode_cases(data, shard, programs=metric.runs_programs)
    if not metric.runs_programs:
        return build_receipt(judge_cases(cases, metric, on_case=on_case), worker_pid=worker_pid)
    if programs is None:
        raise SpecError(f"metric {metric.name!r} needs a sandbox, and this worker was given none")
    # here and not at the top: the parser that finds programs loads for 10 ms, and few runs need it
    from farm.scoring.programs import judge_programs

    results, isolation = judge_programs(cases, programs, on_case=on_case)
    return build_receipt(results, worker_pid=worker_pid, isolation=isolation)


class Worker:
    """Executes batches of assignments on a store."""

    def __init__(
        self,
        store: Store,
        *,
        worker_pid: int,
        say: Callable[[Message], None],
        delay_s: float = 0.0,
        pulse_s: float = PULSE_S,
        open_programs: Callable[[], ProgramRunner] | None = None,
    ) -> None:
        """Tell of every step through `say`; `delay_s` is a pause before each shard's scoring.

        How far a shard is that takes its time is told every `pulse_s`, when a case is done.
        `open_programs` is called once, when the first program is to be run; whoever gave it
        closes what it opened.
        """
        self._store = store
        self._shards = {shard.name: shard for shard in store.plan.shards}
        self._scorer = scorer_of(store.plan)
        self._worker_pid = worker_pid
        self._say = say
        self._delay_s = delay_s
        self._pulse_s = pulse_s
        self._open_programs = open_programs
        self._programs: ProgramRunner | None = None
        self._stopping = False

    def stop(self) -> None:
        """Finish the shard that is executing, make its receipt durable, take no other."""
        self._stopping = True

    def run(self, batches: Iterable[Batch]) -> None:
        """Execute batches until they end."""
        for batch in batches:
            self._execute(batch)
            if self._stopping:
                return

    def _execute(self, batch: Batch) -> None:
        ready: list[tuple[Scored, bytes]] = []
        for assignment in batch.assignments:
            if self._stopping:
                break
            self._say(Started(shard=assignment.shard, version=assignment.version))
            self._delay(assignment)
            data, reference = self.score(assignment)
            scored = Scored(shard=assignment.shard, version=assignment.version, receipt=reference)
            ready.append((scored, data))
        # one sync of the folder serves the whole batch, and nothing is said before it
        for message in hand_over(self._store, ready):
            self._say(message)

    def _delay(self, assignment: Assignment) -> None:
        """Pause as was asked for, and say that it is a pause."""
        ends = time.monotonic() + self._delay_s
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, self._pulse_s))
            self._say(Progressed(shard=assignment.shard, version=assignment.version, cases=0))

    def score(self, assignment: Assignment) -> tuple[bytes, ReceiptReference]:
        """Score one shard; give its receipt's bytes and the reference to them."""
        shard = self._shards[assignment.shard]
        cases = self._store.read_cases(shard)
        if self._scorer.runs_programs and self._programs is None and self._open_programs:
            self._programs = self._open_programs()
        receipt = score_shard(
            cases,
            shard,
            self._scorer,
            worker_pid=self._worker_pid,
            programs=self._programs,
            on_case=self._progress_of(assignment),
        )
        data = encode_receipt(receipt)
        return data, refer(receipt, data)

    def _progress_of(self, assignment: Assignment) -> Callable[[int], None]:
        """Make what says now and then how far a shard is, so that slow is not taken for hung."""
        said = time.monotonic()

        def progress(cases: int) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= self._pulse_s:
                said = now
                self._say(
                    Progressed(shard=assignment.shard, version=assignment.version, cases=cases)
                )

        return progress
