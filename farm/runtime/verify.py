"""Re-derive everything in a store from its cases, and say what does not hold.

Nothing is believed but the cases themselves: digests of shards and dataset, the run's name,
every verdict, every total and the events are made again and held against what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from farm.core.event import Event
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.narration import completed_note
from farm.core.plan import Plan, Shard
from farm.core.progress import fold, shard_states
from farm.core.receipt import ReceiptReference, encode_receipt, receipt_name, recount
from farm.core.task import TaskSpec
from farm.core.trial import Trials, has_trials, plan_trials
from farm.errors import FarmError
from farm.runtime.answered import Judge, judged_again, trials_of
from farm.runtime.trials import tasks_of
from farm.runtime.worker import score_shard, scorer_of
from farm.scoring.registry import scorer
from farm.store.protocol import TASKS_FILE, Store

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner


# cases, shard, receipt and the ledger's reference to it -> the receipt as it should be
Again = Callable[[bytes, Shard, bytes, ReceiptReference], bytes]

_TRIES = 20  # to find a running run between two commits
_MARKS = {"recovered", "truncated"}  # how an event got here, not what it tells


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was held against what, and everything that did not hold."""

    run_id: str
    ok: bool
    dataset_sha256: str  # as derived from the cases in the store; "" when that was not possible
    tasks_sha256: str
    cases: int
    shards: int
    receipts: int
    events: int
    orphans: int  # receipts of workers that were overtaken: evidence, never counted
    problems: tuple[str, ...]


def verify(
    store: Store,
    *,
    digests: Callable[[], tuple[str, str, int]],
    receipt_names: Callable[[], list[str]],
    programs: ProgramRunner | None = None,
    judge: Judge | None = None,
) -> Verification:
    """Check a whole store; raises only when plan or ledger cannot be read at all.

    `digests` derives (dataset_sha256, tasks_sha256, cases) from the store's cases in the order
    of the input; `receipt_names` lists the receipt files that are there; `programs` runs again what
    a metric that runs programs was given, `judge` judges answers where models were asked.
    """
    plan = store.plan
    ledger, events, broken = _at_one_moment(store)
    problems: list[str] = [broken] if broken else []
    dataset, questions, cases = "", "", 0
    tasks: dict[str, TaskSpec] = {}
    try:
        dataset, questions, cases = digests()
        if has_trials(plan):
            tasks = tasks_of(store)
            questions = plan.tasks_sha256  # of the tasks file, from which the plan is made again
            problems += _trial_problems(plan, tasks)
        problems += _identity_problems(plan, dataset, questions, cases)
    except FarmError as error:
        problems.append(str(error))
    again = _scored_again(plan, programs) if judge is None else _asked_again(tasks, judge)
    for shard, lease in zip(plan.shards, ledger.leases, strict=True):
        problems += _shard_problems(store, shard, lease, again)
    counted = {receipt_name(x.shard, x.version) for x in ledger.leases if x.done}
    if not broken:
        problems += _event_problems(events, ledger)
    return Verification(
        run_id=plan.run_id,
        ok=not problems,
        dataset_sha256=dataset,
        tasks_sha256=questions,
        cases=cases,
        shards=len(plan.shards),
        receipts=len(counted),
        events=len(events),
        orphans=len(set(receipt_names()) - counted),
        problems=tuple(problems),
    )


def _identity_problems(plan: Plan, dataset: str, tasks: str, cases: int) -> Iterator[str]:
    for what, derived, written in (
        ("dataset_sha256", dataset, plan.identity.dataset_sha256),
        ("tasks_sha256", tasks, plan.tasks_sha256),
        ("cases", cases, plan.cases),
        ("cases of all shards", cases, sum(shard.cases for shard in plan.shards)),
    ):
        if derived != written:
            yield f"{what}: the cases give {derived}, the plan says {written}"


def _trial_problems(plan: Plan, tasks: Mapping[str, TaskSpec]) -> Iterator[str]:
    """Make the plan of an evaluation again from its tasks, and hold it against the one there."""
    count = len(tasks) * len(plan.identity.models)
    again, _ = plan_trials(
        Trials(
            tasks=tuple(tasks.values()),
            models=plan.identity.models,
            samples=plan.cases // count if count else 1,
        ),
        shards=plan.identity.shards,
        version_of=lambda metric: scorer(metric).version,
    )
    if again.identity.scorer != plan.identity.scorer:
        yield (
            f"{TASKS_FILE}: tasks and metrics of this farm make {again.identity.scorer}, the plan "
            f"says {plan.identity.scorer}"
        )
    elif again != plan:
        yield f"{TASKS_FILE}: its tasks make another plan than the one that is there"


def _scored_again(plan: Plan, programs: ProgramRunner | None) -> Again:
    def again(data: bytes, shard: Shard, text: bytes, reference: ReceiptReference) -> bytes:
        metric = scorer_of(plan)
        receipt = score_shard(
            data, shard, metric, worker_pid=reference.worker_pid, programs=programs
        )
        # like the pid, what stood around a program then is a fact of that attempt
        return encode_receipt(msgspec.structs.replace(receipt, isolation=reference.isolation))

    return again


def _asked_again(tasks: Mapping[str, TaskSpec], judge: Judge) -> Again:
    def again(data: bytes, shard: Shard, text: bytes, reference: ReceiptReference) -> bytes:
        return judged_again(
            text, trials_of(data, shard, tasks), tasks, judge, path=f"receipt of {shard.name}"
        )

    return again


def _shard_problems(store: Store, shard: Shard, lease: Lease, again: Again) -> Iterator[str]:
    try:
        data = store.read_cases(shard)
        if lease.receipt is None:
            return
        text = store.read_receipt(lease)
        path = receipt_name(lease.shard, lease.version)
        if recount(text, path=path) != lease.receipt:
            yield f"{path}: its totals are not those of its verdicts"
        if again(data, shard, text, lease.receipt) != text:
            chance = ", as those of programs that depend on chance or time may be"
            yield (
                f"{path}: scoring {shard.name} again gives other verdicts"
                + (chance if lease.receipt.isolation is not None else "")
            )
    except FarmError as error:
        yield str(error)


def _at_one_moment(store: Store) -> tuple[Ledger, list[Event], str]:
    """Read ledger and events as they stood together, also during a run; or say what is broken."""
    for _ in range(_TRIES):
        ledger = store.ledger()
        try:
            events = list(store.events())
        except FarmError as error:
            return ledger, [], str(error)
        # an event follows its commit: with one still on its way the two do not fit yet
        if store.ledger() == ledger and not any(_shard_stories(events, ledger)):
            break
    return ledger, events, ""


def _event_problems(events: Sequence[Event], ledger: Ledger) -> Iterator[str]:
    seq = 0
    for event in events:
        if event.seq != seq + 1:
            yield f"events: number {event.seq} follows {seq}"
        if event.run_id != ledger.run_id:
            yield f"events: number {event.seq} is of run {event.run_id}"
        seq = event.seq
    yield from _shard_stories(events, ledger)


def _shard_stories(events: Sequence[Event], ledger: Ledger) -> Iterator[str]:
    """Hold what the events tell of each shard against its lease, figures included."""
    stands, told = shard_states(ledger), fold(events)
    ends = {(e.shard, e.fields["version"]): e for e in events if e.event == "shard.completed"}
    for lease in ledger.leases:
        if told.get(lease.shard) != stands.get(lease.shard):
            was = told[lease.shard].state if lease.shard in told else "untold"
            yield f"events: {lease.shard} is {was} in the events, not so in the ledger"
        elif lease.done and ends[lease.shard, lease.version].fields != {
            **completed_note(lease).fields,
            **{k: v for k, v in ends[lease.shard, lease.version].fields.items() if k in _MARKS},
        }:
            yield f"events: {lease.shard} was completed with other figures than the ledger has"
