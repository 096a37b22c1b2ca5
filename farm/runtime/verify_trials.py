"""Verify an evaluation: its tasks make its plan again, and its answers get their verdicts again.

Models are not asked: what they said stands in the receipts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, Shard
from farm.core.receipt import Receipt, read_receipt, receipt_name
from farm.core.task import TaskSpec
from farm.core.trial import Trials, plan_trials
from farm.errors import FarmError, SpecError
from farm.runtime.answered import Judge, judged_again, trials_of
from farm.runtime.asked import tasks_of
from farm.runtime.verify import Verification, verify
from farm.scoring.registry import scorer
from farm.store.protocol import MODELS_FILE, TASKS_FILE, Store


def verify_evaluation(
    store: Store,
    *,
    digests: Callable[[], tuple[str, str, int]],
    receipt_names: Callable[[], list[str]],
    judge: Judge,
    around: Callable[[], Iterable[str]] = lambda: (),
) -> Verification:
    """Check a whole store as `farm.runtime.verify.verify` does; `judge` judges its answers.

    `around` says what does not hold in the files beside receipts and ledger.
    """
    plan = store.plan
    tasks: dict[str, TaskSpec] = {}
    problems: list[str] = []
    try:
        store.read_kept(MODELS_FILE)
        tasks = tasks_of(store)
        problems += _plan_problems(plan, tasks)
    except FarmError as error:
        problems.append(str(error))

    def derived() -> tuple[str, str, int]:
        dataset, _, cases = digests()
        return dataset, plan.tasks_sha256, cases  # that of an evaluation is of its tasks

    def again(data: bytes, shard: Shard, lease: Lease) -> tuple[Receipt, str]:
        if lease.receipt is None:
            raise SpecError(f"{shard.name} has no receipt")
        path = receipt_name(lease.shard, lease.version)
        receipt = read_receipt(store.read_receipt(lease), lease.receipt, path=path)
        if tasks:  # without them nothing can be judged, which is a problem already
            receipt = judged_again(receipt, trials_of(data, shard, tasks), tasks, judge, path=path)
        chance = ", as those of programs that depend on chance or time may be"
        why = f"judging the answers of {shard.name} again gives other verdicts"
        return receipt, why + (chance if lease.receipt.isolation is not None else "")

    def beside(ledger: Ledger) -> Iterator[str]:
        yield from problems
        yield from around()

    return verify(store, digests=derived, receipt_names=receipt_names, rescore=again, beside=beside)


def _plan_problems(plan: Plan, tasks: Mapping[str, TaskSpec]) -> Iterator[str]:
    """Make the plan again from the tasks, and hold it against the one that is there."""
    again, _ = plan_trials(
        Trials(
            tasks=tuple(tasks.values()),
            models=plan.identity.models,
            samples=plan.cases // max(1, len(tasks) * len(plan.identity.models)),
        ),
        shards=plan.identity.shards,
        version_of=lambda metric: scorer(metric).version,
    )
    if again.identity.scorer != plan.identity.scorer:
        yield (
            f"{TASKS_FILE}: tasks and metrics of this farm make {again.identity.scorer}, the plan "
            f"says {plan.identity.scorer}"
        )
    elif msgspec.structs.replace(again, files=plan.files, checksum=plan.checksum) != plan:
        yield f"{TASKS_FILE}: its tasks make another plan than the one that is there"
