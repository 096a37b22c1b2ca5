"""Where a run stands: what the report is built from, read from a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.canonical import names_groups
from farm.core.case import group_of, targets_of
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan
from farm.core.receipt import read_receipt, receipt_name
from farm.core.result import counts
from farm.core.trial import has_trials
from farm.report.build import DETAIL_CASES, Detail, Report, WorkerEvent, build
from farm.report.caution import FLATTERING
from farm.runtime.worker import decode_cases
from farm.scoring.corpus import CorpusScore, published
from farm.scoring.registry import scorer
from farm.store.protocol import Store

if TYPE_CHECKING:
    from farm.core.task import TaskSpec
    from farm.report.grouped import GroupedFigures


class _Place(msgspec.Struct, frozen=True, gc=False):
    """Which case it is, and what it belongs to."""

    id: str
    task: str | UnsetType = UNSET
    sample: int | UnsetType = UNSET
    cluster: str | UnsetType = UNSET


class _Score(msgspec.Struct, frozen=True, gc=False):
    score: float
    outcome: str


class _Scores(msgspec.Struct, frozen=True):
    cases: list[_Score]


_places = msgspec.json.Decoder(_Place)
_scores = msgspec.json.Decoder(_Scores)


def report_of(
    store: Store, *, detail: bool | None = None, published: Sequence[Lease] | None = None
) -> Report:
    """Read a store and build its report; raises `Corrupt` when a receipt is not as counted.

    `detail` None shows single cases up to `DETAIL_CASES`. `published` are the leases that this
    invocation's workers finished; None when the command runs none.
    """
    plan, ledger = store.plan, store.ledger()
    tasks = _tasks(store)
    if detail is None:
        detail = plan.cases <= DETAIL_CASES
    for lease in ledger.leases:
        if lease.done:
            store.check_receipt(lease)
    return build(
        plan,
        ledger,
        detail=_detail(store, plan, ledger) if detail else None,
        scores=list(_all_scores(store, plan, ledger)),
        fractional=_is_fractional(plan),
        # with the detail, since it reads every answer: a look at a large run stays quick
        corpus=corpus_scores(store, ledger) if detail else (),
        worker_events=None if published is None else [_event(lease) for lease in published],
        grouped=_grouped(store, ledger) if _may_be_grouped(store, tasks) else None,
        post_processes=sorted({task.post_process for task in tasks.values()}) or ("none",),
    )


def _tasks(store: Store) -> Mapping[str, TaskSpec]:
    """Give the tasks of an evaluation by id, none of other runs."""
    if not has_trials(store.plan):
        return {}
    # here and not at the top: other runs start without it
    from farm.runtime.asked import tasks_of

    return tasks_of(store)


def _may_be_grouped(store: Store, tasks: Mapping[str, TaskSpec]) -> bool:
    """Say whether cases may belong together.

    A large run is not read through for it: its plan says so, unless an older farm wrote it. Of an
    evaluation it shows in the number of its trials.
    """
    plan = store.plan
    if tasks or plan.grouped is True:
        return plan.cases > len(tasks)
    small = plan.cases <= DETAIL_CASES
    return small and any(names_groups(store.read_cases(shard)) for shard in plan.shards)


def _grouped(store: Store, ledger: Ledger) -> GroupedFigures | None:
    """Give the figures by task and cluster; None where no cases belong together."""
    # here and not at the top: these load numpy for 100 ms, which most runs do not need
    from farm.report.grouped import Sample, clusters_of, grouped_figures
    from farm.runtime.trials import facts, recordings

    named: dict[str, str] = {}
    samples: list[Sample] = []
    for run in recordings(store, names=store.plan.identity.models or ("",), ledger=ledger):
        for case, verdict in facts(run):
            if case.cluster:
                named.setdefault(case.task_id, f"cluster {case.cluster}")
            counted = verdict if verdict is not None and counts(verdict.outcome) else None
            samples.append(
                Sample(
                    task=case.task_id,
                    score=None if counted is None else counted.score,
                    correct=counted is not None and counted.correct,
                )
            )
    tasks = dict.fromkeys(sample.task for sample in samples)
    if not named and len(tasks) == len(samples):
        return None
    return grouped_figures(samples, clusters=clusters_of(tasks, named))


def _detail(store: Store, plan: Plan, ledger: Ledger) -> Detail:
    texts = {lease.shard: store.read_receipt(lease) for lease in ledger.leases if lease.done}
    places = {
        shard.name: [_places.decode(line) for line in store.read_cases(shard).split(b"\n")[:-1]]
        for shard in plan.shards
    }
    # the ids of an evaluation say which task they are of, where they are listed with a verdict
    told = texts if has_trials(plan) else {}
    grouped = (case for name, own in places.items() if name not in told for case in own)
    return Detail(
        case_ids={name: [case.id for case in own] for name, own in places.items()},
        groups={case.id: group for case in grouped if (group := group_of(case))},
        receipts={
            lease.shard: read_receipt(
                texts[lease.shard],
                lease.receipt,
                path=receipt_name(lease.shard, lease.version),
            )
            for lease in ledger.leases
            if lease.receipt is not None
        },
        texts=texts,
    )


def _all_scores(store: Store, plan: Plan, ledger: Ledger) -> Iterator[float]:
    fractional = _is_fractional(plan)
    for lease in ledger.leases:
        if lease.receipt is None:
            continue
        if not fractional:  # every correct case scores one and every other nothing
            yield float(lease.receipt.correct)
        else:
            verdicts = _scores.decode(store.read_receipt(lease)).cases
            yield from (one.score for one in verdicts if counts(one.outcome))


def _is_fractional(plan: Plan) -> bool:
    """Say whether scores may lie between 0 and 1; of tasks each has a metric of its own."""
    return has_trials(plan) or scorer(plan.identity.scorer.name).fractional


def corpus_scores(store: Store, ledger: Ledger) -> tuple[CorpusScore, ...]:
    """Give the published corpus figures over the scored cases of a run by bleu_4.

    None for other scorers, and where sacrebleu is not installed. Holds all answers at a time.
    """
    if store.plan.identity.scorer.name != FLATTERING:
        return ()
    answers: list[str] = []
    wanted: list[tuple[str, ...]] = []
    for shard, lease in zip(store.plan.shards, ledger.leases, strict=True):
        if lease.receipt is None:
            continue
        verdicts = _scores.decode(store.read_receipt(lease)).cases
        cases = decode_cases(store.read_cases(shard), shard)
        for case, verdict in zip(cases, verdicts, strict=True):
            if counts(verdict.outcome):
                answers.append(case.response)
                wanted.append(targets_of(case))
    return published(answers, wanted)


def _event(lease: Lease) -> WorkerEvent:
    reference = lease.receipt
    if reference is None:
        raise ValueError(f"{lease.shard} is not done")
    return WorkerEvent(
        shard=lease.shard,
        version=lease.version,
        correct=reference.correct,
        total=reference.total,
        worker_pid=reference.worker_pid,
    )
