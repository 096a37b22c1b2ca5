"""Re-derive everything in a store from its cases, and say what does not hold.

Nothing is believed but the cases themselves: digests of shards and dataset, the run's name,
every verdict, every total and the events are made again and held against what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, Shard
from farm.core.progress import fold, shard_states
from farm.core.receipt import encode_receipt, receipt_name, recount
from farm.errors import FarmError
from farm.runtime.worker import score_shard, scorer_of
from farm.store.protocol import Store

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner


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
) -> Verification:
    """Check a whole store; raises only when plan or ledger cannot be read at all.

    `digests` derives (dataset_sha256, tasks_sha256, cases) from the store's cases in the order
    of the input; `receipt_names` lists the receipt files that are there; `programs` runs again what
    a metric that runs programs was given.
    """
    plan, ledger = store.plan, store.ledger()
    problems: list[str] = []
    dataset, tasks, cases = "", "", 0
    try:
        dataset, tasks, cases = digests()
        problems += _identity_problems(plan, dataset, tasks, cases)
    except FarmError as error:
        problems.append(str(error))
    for shard, lease in zip(plan.shards, ledger.leases, strict=True):
        problems += _shard_problems(store, shard, lease, programs)
    counted = {receipt_name(x.shard, x.version) for x in ledger.leases if x.done}
    told = 0
    try:
        told = sum(1 for _ in store.events())
        problems += _event_problems(store, ledger)
    except FarmError as error:
        problems.append(str(error))
    return Verification(
        run_id=plan.run_id,
        ok=not problems,
        dataset_sha256=dataset,
        tasks_sha256=tasks,
        cases=cases,
        shards=len(plan.shards),
        receipts=len(counted),
        events=told,
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


def _shard_problems(
    store: Store, shard: Shard, lease: Lease, programs: ProgramRunner | None
) -> Iterator[str]:
    try:
        data = store.read_cases(shard)
        if lease.receipt is None:
            return
        text = store.read_receipt(lease)
        path = receipt_name(lease.shard, lease.version)
        if recount(text, path=path) != lease.receipt:
            yield f"{path}: its totals are not those of its verdicts"
        metric = scorer_of(store.plan)
        again = score_shard(
            data, shard, metric, worker_pid=lease.receipt.worker_pid, programs=programs
        )
        # like the pid, what stood around a program then is a fact of that attempt
        again = msgspec.structs.replace(again, isolation=lease.receipt.isolation)
        if encode_receipt(again) != text:
            chance = ", as those of programs that depend on chance or time may be"
            yield (
                f"{path}: scoring {shard.name} again gives other verdicts"
                + (chance if metric.runs_programs else "")
            )
    except FarmError as error:
        yield str(error)


def _event_problems(store: Store, ledger: Ledger) -> Iterator[str]:
    told, seq = fold(store.events()), 0
    for event in store.events():
        if event.seq != seq + 1:
            yield f"events: number {event.seq} follows {seq}"
        if event.run_id != ledger.run_id:
            yield f"events: number {event.seq} is of run {event.run_id}"
        seq = event.seq
    stands = shard_states(ledger)
    for shard in sorted(stands.keys() | told.keys()):
        if told.get(shard) != stands.get(shard) and shard in told:
            yield f"events: {shard} is {told[shard].state} in the events, not so in the ledger"
