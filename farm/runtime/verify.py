"""Re-derive everything in a store from its cases, and say what does not hold.

Nothing is believed but the cases themselves: digests of shards and dataset, the run's name,
every verdict, every total and the events are made again and held against what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from farm.core.event import Event
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.narration import completed_note
from farm.core.plan import Plan, Shard
from farm.core.progress import fold, shard_states
from farm.core.receipt import Receipt, encode_receipt, receipt_name, recount
from farm.errors import FarmError
from farm.runtime.worker import score_shard, scorer_of
from farm.store.protocol import Store

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner


_TRIES = 20  # to find a running run between two commits
_MARKS = {"recovered", "truncated"}  # how an event got here, not what it tells
# From a shard's cases and its lease: its receipt made again, and what to say if it is another.
Rescore = Callable[[bytes, Shard, Lease], tuple[Receipt, str]]


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
    rescore: Rescore | None = None,
    beside: Callable[[Ledger], Iterable[str]] = lambda ledger: (),
) -> Verification:
    """Check a whole store; raises only when plan or ledger cannot be read at all.

    `digests` derives (dataset_sha256, tasks_sha256, cases) from the store's cases in the order
    of the input; `receipt_names` lists the receipt files that are there; `programs` runs again what
    a metric that runs programs was given. A store whose verdicts no metric gives is checked by
    `rescore`, which makes a shard's receipt again; `beside` says what does not hold around it.
    """
    if rescore is None:
        rescore = _by_metric(store.plan, programs)
    plan = store.plan
    ledger, events, broken = _at_one_moment(store)
    problems: list[str] = [broken] if broken else []
    dataset, tasks, cases = "", "", 0
    try:
        dataset, tasks, cases = digests()
        problems += _identity_problems(plan, dataset, tasks, cases)
    except FarmError as error:
        problems.append(str(error))
    for shard, lease in zip(plan.shards, ledger.leases, strict=True):
        problems += _shard_problems(store, shard, lease, rescore)
    counted = {receipt_name(x.shard, x.version) for x in ledger.leases if x.done}
    if not broken:
        problems += _event_problems(events, ledger)
    problems += beside(ledger)
    return Verification(
        run_id=plan.run_id,
        ok=not problems,
        dataset_sha256=dataset,
        tasks_sha256=tasks,
        cases=cases,
        shards=len(plan.shards),
        receipts=len(counted),
        events=len(events),
        orphans=len(set(receipt_names()) - counted),
        problems=tuple(dict.fromkeys(problems)),  # one file can fail several checks
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


def _shard_problems(store: Store, shard: Shard, lease: Lease, rescore: Rescore) -> Iterator[str]:
    try:
        data = store.read_cases(shard)
        if lease.receipt is None:
            return
        text = store.read_receipt(lease)
        path = receipt_name(lease.shard, lease.version)
        if recount(text, path=path) != lease.receipt:
            yield f"{path}: its totals are not those of its verdicts"
        again, why = rescore(data, shard, lease)
        # like the pid, what stood around a program then is a fact of that attempt
        again = msgspec.structs.replace(again, isolation=lease.receipt.isolation)
        if encode_receipt(again) != text:
            yield f"{path}: {why}"
    except FarmError as error:
        yield str(error)


def _by_metric(plan: Plan, programs: ProgramRunner | None) -> Rescore:
    def rescore(data: bytes, shard: Shard, lease: Lease) -> tuple[Receipt, str]:
        metric = scorer_of(plan)
        pid = 0 if lease.receipt is None else lease.receipt.worker_pid
        again = score_shard(data, shard, metric, worker_pid=pid, programs=programs)
        chance = ", as those of programs that depend on chance or time may be"
        why = f"scoring {shard.name} again gives other verdicts"
        return again, why + (chance if metric.runs_programs else "")

    return rescore


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
