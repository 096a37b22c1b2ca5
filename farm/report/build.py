"""From plan, ledger and receipts to the report value; the one place where figures are made.

Pure: what has to be read is passed in. The same plan and the same verdicts give the same report,
whatever happened on the way, attempt facts (pids, owners, versions, expiries) apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.case import Group
from farm.core.isolation import Isolation, weakest
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, ScorerName, Shard
from farm.core.receipt import Receipt
from farm.core.result import CaseResult, counts
from farm.report.caution import FLATTERING, cautions
from farm.scoring.corpus import CorpusScore
from farm.stats.intervals import Flag, Interval, wilson

if TYPE_CHECKING:
    from farm.report.grouped import GroupedFigures

SCHEMA = 1
DETAIL_CASES = 10_000  # above it a report leaves out what it lists case by case


class LeaseView(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A lease under the names of the published report."""

    shard: str
    worker: str
    version: int
    until: int  # milliseconds since the epoch
    result: str | UnsetType = UNSET  # the receipt file's exact text, "" before there is one
    done: bool


class ShardView(msgspec.Struct, frozen=True, kw_only=True):
    """A shard, its lease and its cases."""

    lease: LeaseView
    cases: int
    quarantined: bool
    attempts: int
    case_ids: Sequence[str] | UnsetType = UNSET


class ReceiptView(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted receipt."""

    worker_pid: int
    cases: Sequence[CaseResult] | UnsetType = UNSET
    correct: int
    total: int


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """The share of correct cases among the scored, and how sure it is, from `n` units.

    These are the scored cases; tasks where a task was sampled more than once, each weighing the
    same, and clusters where cases name one. `method` says which interval that gives.
    `lowest` and `highest` are what the share over all cases could become if those that are not
    scored, or not evaluated yet, were all wrong or all right; they are always known. The share
    and its interval are null without a scored case, and `reason` says so.
    """

    value: float | None
    ci_lo: float | None
    ci_hi: float | None
    method: str
    level: float
    n: int
    lowest: float
    highest: float
    reason: str = ""


class MeanInterval(msgspec.Struct, frozen=True, kw_only=True):
    """How sure the mean score is; ends are null where `reason` says why.

    Student's t clipped to [0, 1] for graded scorers (`small_n` under ten cases), Wilson where
    all scores are 0 or 1, clustered where cases name clusters; `n` units as in `Accuracy`.
    """

    ci_lo: float | None
    ci_hi: float | None
    method: str
    level: float
    n: int
    flags: tuple[Flag, ...] = ()
    reason: str = ""


class WorkerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that this invocation's workers finished."""

    claimed: bool = True
    shard: str
    version: int
    correct: int
    total: int
    worker_pid: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands: the published report."""

    schema_version: int = SCHEMA
    run_id: str
    dataset_sha256: str
    tasks_sha256: str
    dataset_cases: int
    scorer: ScorerName
    models: tuple[str, ...]
    complete: bool
    active_shards: int
    completed_shards: int
    quarantined_shards: int
    evaluated: int
    correct: int
    accuracy: Accuracy
    mean_score: float | None
    mean_interval: MeanInterval
    corpus: Sequence[CorpusScore] | UnsetType = UNSET  # beside bleu_4 only
    warnings: Sequence[str] = ()
    outcomes: dict[str, int]
    signature: str
    isolation: Isolation | UnsetType = UNSET  # what all programs that were run had at least
    worker_processes: int  # distinct pids of accepted receipts
    detail: bool
    shards: Sequence[ShardView]
    receipts: Sequence[ReceiptView]
    groups: Mapping[str, Group] | UnsetType = UNSET  # of cases that name one, by id
    worker_events: Sequence[WorkerEvent] | UnsetType = UNSET


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """What a report shows case by case, by shard; `texts` are the receipt files' exact bytes.

    `groups` are by case id, of those that name one; the ids of an evaluation say so themselves.
    """

    case_ids: Mapping[str, Sequence[str]]
    receipts: Mapping[str, Receipt]
    texts: Mapping[str, bytes]
    groups: Mapping[str, Group] = msgspec.field(default_factory=dict)


def build(
    plan: Plan,
    ledger: Ledger,
    *,
    detail: Detail | None,
    scores: Sequence[float],
    fractional: bool = False,
    corpus: Sequence[CorpusScore] = (),
    worker_events: Sequence[WorkerEvent] | None = None,
    grouped: GroupedFigures | None = None,
    post_processes: Sequence[str] = ("none",),
) -> Report:
    """Make the report of a run as it stands.

    Longer than other functions: most of it is one line a field of the report.

    `scores` are those of all scored cases, in any order: they are summed exactly. `fractional`
    is whether the scorer gives parts of a point; without it every score is 0 or 1. `corpus` are the
    figures to show beside bleu_4. `worker_events` None leaves the list out, as `status` does.
    `grouped` are the figures where cases belong together. `post_processes` are the rules by which
    answers were cut out, for the signature.
    """
    done = [lease for lease in ledger.leases if lease.done]
    references = [lease.receipt for lease in done if lease.receipt is not None]
    outcomes: Counter[str] = Counter()
    for reference in references:
        outcomes.update(reference.outcomes)
    evaluated = sum(reference.total for reference in references)
    correct = sum(reference.correct for reference in references)
    scored = sum(count for outcome, count in outcomes.items() if counts(outcome))
    accuracy = (
        _accuracy(correct=correct, scored=scored, cases=plan.cases)
        if grouped is None
        else _grouped_accuracy(grouped)
    )
    mean = math.fsum(scores) / scored if scored else None
    return Report(
        run_id=plan.run_id,
        dataset_sha256=plan.identity.dataset_sha256,
        tasks_sha256=plan.tasks_sha256,
        dataset_cases=plan.cases,
        scorer=plan.identity.scorer,
        models=plan.identity.models,
        complete=ledger.complete,
        active_shards=len(plan.shards),
        completed_shards=len(done),
        quarantined_shards=sum(lease.quarantined for lease in ledger.leases),
        evaluated=evaluated,
        correct=correct,
        accuracy=accuracy,
        mean_score=mean if grouped is None else grouped.mean,
        mean_interval=_told(
            _mean_interval(scores if fractional else None, correct=correct, scored=scored)
            if grouped is None
            else grouped.mean_interval
        ),
        corpus=corpus if plan.identity.scorer.name == FLATTERING else UNSET,
        warnings=cautions(plan.identity.scorer.name, corpus),
        outcomes=dict(sorted(outcomes.items())),
        signature=_signature(
            plan, n=scored, post="+".join(post_processes), interval=accuracy.method
        ),
        isolation=weakest(one.isolation for one in references if one.isolation) or UNSET,
        worker_processes=len({reference.worker_pid for reference in references}),
        detail=detail is not None,
        shards=[
            _shard_view(shard, lease, detail)
            for shard, lease in zip(plan.shards, ledger.leases, strict=True)
        ],
        receipts=[_receipt_view(lease, detail) for lease in done],
        groups=detail.groups if detail is not None and detail.groups else UNSET,
        worker_events=UNSET if worker_events is None else worker_events,
    )


def _accuracy(*, correct: int, scored: int, cases: int) -> Accuracy:
    interval = wilson(correct, scored)
    return Accuracy(
        value=correct / scored if scored else None,
        ci_lo=interval.lo,
        ci_hi=interval.hi,
        method=interval.method,
        level=interval.level,
        n=scored,
        lowest=correct / cases,
        highest=(correct + cases - scored) / cases,
        reason=interval.reason,
    )


def _grouped_accuracy(grouped: GroupedFigures) -> Accuracy:
    interval = grouped.accuracy_interval
    return Accuracy(
        value=grouped.accuracy,
        ci_lo=interval.lo,
        ci_hi=interval.hi,
        method=interval.method,
        level=interval.level,
        n=interval.n,
        lowest=grouped.lowest,
        highest=grouped.highest,
        reason=interval.reason,
    )


def _mean_interval(scores: Sequence[float] | None, *, correct: int, scored: int) -> Interval:
    if scores is None:
        return wilson(correct, scored)
    # here and not at the top: numpy loads for 100 ms, which reports of 0/1 scores do not need
    from farm.stats.means import mean_interval

    return mean_interval(sorted(scores))  # sorted: the last bit must not tell the order


def _told(interval: Interval) -> MeanInterval:
    return MeanInterval(
        ci_lo=interval.lo,
        ci_hi=interval.hi,
        method=interval.method,
        level=interval.level,
        n=interval.n,
        flags=interval.flags,
        reason=interval.reason,
    )


def _signature(plan: Plan, *, n: int, post: str, interval: str) -> str:
    """Say in one line how the accuracy was made, so that it can be quoted with it."""
    scorer = plan.identity.scorer
    missing = plan.cases - n
    return (
        f"metric:{scorer.name}|version:{scorer.version}|post:{post}|n:{n}|missing:{missing}"
        f"|interval:{interval}|level:0.95|seed:none"
    )


def _shard_view(shard: Shard, lease: Lease, detail: Detail | None) -> ShardView:
    result: str | UnsetType = UNSET
    case_ids: Sequence[str] | UnsetType = UNSET
    if detail is not None:
        result = detail.texts[lease.shard].decode() if lease.done else ""
        case_ids = detail.case_ids[lease.shard]
    return ShardView(
        lease=LeaseView(
            shard=lease.shard,
            worker=lease.worker,
            version=lease.version,
            until=lease.until,
            result=result,
            done=lease.done,
        ),
        cases=shard.cases,
        quarantined=lease.quarantined,
        attempts=lease.attempts,
        case_ids=case_ids,
    )


def _receipt_view(lease: Lease, detail: Detail | None) -> ReceiptView:
    reference = lease.receipt
    if reference is None:
        raise ValueError(f"{lease.shard} is not done")
    return ReceiptView(
        worker_pid=reference.worker_pid,
        cases=UNSET if detail is None else detail.receipts[lease.shard].cases,
        correct=reference.correct,
        total=reference.total,
    )
