"""What a store says, case by case: its cases with their verdicts, as the rows of statistics.

A store is read at one moment, that of its ledger. Texts of cases pass by a shard at a time; what
is kept of a case is its row. Where models were asked, a store holds a run for each of them, and
what a case lacks, the answer, is taken from the receipts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.answer import answers_of
from farm.core.case import Case
from farm.core.generation import Generation, told_of
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, Shard
from farm.core.receipt import Receipt, read_receipt, receipt_name
from farm.core.result import PENDING, CaseResult, counts
from farm.core.task import TaskSpec
from farm.core.trial import has_trials, read_trial
from farm.errors import Corrupt
from farm.runtime.asked import tasks_of
from farm.scoring.registry import scorer
from farm.stats.evalrun import EvalRun
from farm.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run as it stood when it was opened, under the name its report gives the model."""

    model: str
    store: Store
    ledger: Ledger
    asked: str = ""  # the model as the store names it, where models were asked; "" elsewhere
    tasks: Mapping[str, TaskSpec] = field(default_factory=dict)  # by id, where models were asked

    @property
    def plan(self) -> Plan:
        """What was to be done."""
        return self.store.plan

    @property
    def scorer(self) -> str:
        """The scorer as signatures write it: ``exact_match@1``."""
        used = self.plan.identity.scorer
        return f"{used.name}@{used.version}"


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What statistics need of a case; its long texts are skipped."""

    id: str
    expected: str | UnsetType = UNSET
    task: str | UnsetType = UNSET
    sample: int | UnsetType = UNSET
    category: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    token_nll: float | UnsetType = UNSET
    token_count: int | UnsetType = UNSET
    targets: tuple[str, ...] | UnsetType = UNSET
    latency_s: float | UnsetType = UNSET  # of answers only
    told: Mapping[str, str] | UnsetType = UNSET  # why its text was not judged, of answers only

    @property
    def task_id(self) -> str:
        """The task this case is a sample of; without one, or an empty one, it is its own."""
        return self.task or self.id


K = TypeVar("K", Case, Facts)
V = TypeVar("V")
D = TypeVar("D")

_facts = msgspec.json.Decoder(list[Facts])
_cases = msgspec.json.Decoder(list[Case])


def recorded(store: Store, *, model: str) -> Recorded:
    """Open a store's run of recorded predictions for reading, as it stands now."""
    return Recorded(model=model, store=store, ledger=store.ledger())


def recordings(
    store: Store, *, names: Sequence[str], ledger: Ledger | None = None
) -> list[Recorded]:
    """Open a store for reading, as it stands now, or at a ledger: a run for each model it has.

    `names` are what reports call them, one for each model of the plan, in its order; a store of
    recorded predictions has one. Raises `Corrupt` when the tasks of an evaluation are not its own.
    """
    ledger = ledger or store.ledger()
    if not has_trials(store.plan):
        return [Recorded(model=name, store=store, ledger=ledger) for name in names]
    tasks = tasks_of(store)
    return [
        Recorded(model=name, store=store, ledger=ledger, asked=asked, tasks=tasks)
        for name, asked in zip(names, store.plan.identity.models, strict=True)
    ]


def facts(run: Recorded) -> Iterator[tuple[Facts, CaseResult | None]]:
    """Yield what is known of every case, and its verdict: None while its shard has no receipt."""
    return ((case, verdict) for case, verdict, _ in _judged(run, _facts))


def whole_cases(run: Recorded) -> Iterator[tuple[Case, CaseResult | None, Generation | None]]:
    """Yield every case with all its texts, its verdict, and what was answered where models were.

    A shard's texts at a time.
    """
    return _judged(run, _cases)


def rows_of_shard(
    runs: Mapping[str, Recorded], shard: Shard, lease: Lease
) -> Iterator[tuple[EvalRun, Generation]]:
    """Yield the trials of a shard that is done, of all models, with what was answered.

    `runs` are the runs of one store by the model as the store names it.
    """
    if lease.receipt is None:
        return
    store = next(iter(runs.values())).store
    path = receipt_name(lease.shard, lease.version)
    receipt = read_receipt(store.read_receipt(lease), lease.receipt, path=path)
    cases = _facts.decode(b"[" + store.read_cases(shard)[:-1].replace(b"\n", b",") + b"]")
    _check_ids(cases, receipt.cases, shard, path=path)
    answers = answers_of(receipt, path=path)
    for case, verdict, answer in zip(cases, receipt.cases, answers, strict=True):
        run = runs[read_trial(case.id).model]
        yield trial(run, _with_answer(case, answer), verdict), answer


def trial(run: Recorded, case: Facts, verdict: CaseResult | None) -> EvalRun:
    """Return a case as a row; without a verdict it is "pending", and missing as an error is."""
    counted = verdict if verdict is not None and counts(verdict.outcome) else None
    used = run.plan.identity.scorer
    metric = used.name
    told: dict[str, object] = {"metric_version": used.version}
    if run.asked:
        task = run.tasks[case.task_id]
        metric = task.metric_name
        told = {"metric_version": scorer(metric).version, "post_process": task.post_process}
    told |= given(case.told, {})
    return EvalRun(
        model_id=run.model,
        task_id=case.task_id,
        sample=given(case.sample, 0),
        category=given(case.category, ""),
        metric_name=metric,
        score=None if counted is None else counted.score,
        correct=None if counted is None else counted.correct,
        outcome=PENDING if verdict is None else verdict.outcome,
        confidence=given(case.confidence, None),
        token_nll=given(case.token_nll, None),
        token_count=given(case.token_count, None),
        latency_s=given(case.latency_s, None),
        metadata=told,
    )


def given(value: V | UnsetType, default: D) -> V | D:
    """Return an optional field, or the default where the record does not have it."""
    return default if isinstance(value, UnsetType) else value


def _judged(
    run: Recorded, decoder: msgspec.json.Decoder[list[K]]
) -> Iterator[tuple[K, CaseResult | None, Generation | None]]:
    for shard, lease in zip(run.plan.shards, run.ledger.leases, strict=True):
        # records hold no raw newline, so one array is decoded instead of many lines
        records = run.store.read_cases(shard)
        cases = decoder.decode(b"[" + records[:-1].replace(b"\n", b",") + b"]")
        receipt, path = None, receipt_name(lease.shard, lease.version)
        if lease.receipt is not None:
            receipt = read_receipt(run.store.read_receipt(lease), lease.receipt, path=path)
            _check_ids(cases, receipt.cases, shard, path=path)
        if run.asked:
            yield from _asked(run, cases, receipt, path=path)
        elif receipt is None:
            yield from ((case, None, None) for case in cases)
        else:
            verdicts = zip(cases, receipt.cases, strict=True)
            yield from ((case, verdict, None) for case, verdict in verdicts)


def _check_ids(
    cases: Sequence[K], verdicts: Sequence[CaseResult], shard: Shard, *, path: str
) -> None:
    if [case.id for case in cases] != [verdict.id for verdict in verdicts]:
        raise Corrupt(path=path, reason=f"its verdicts are not on the cases of {shard.name}")


def _asked(
    run: Recorded, cases: Sequence[K], receipt: Receipt | None, *, path: str
) -> Iterator[tuple[K, CaseResult | None, Generation | None]]:
    """Yield one model's cases, named by their question, with what it answered."""
    answers = None if receipt is None else answers_of(receipt, path=path)
    for place, case in enumerate(cases):
        which = read_trial(case.id)
        if which.model != run.asked:
            continue
        bare = msgspec.structs.replace(case, id=which.question)
        if receipt is None or answers is None:
            yield bare, None, None
        else:
            answer = answers[place]
            yield _with_answer(bare, answer), receipt.cases[place], answer


def _with_answer(case: K, answer: Generation) -> K:
    """Fill in what an asked case lacks: a whole case its response, facts their figures."""
    known: dict[str, object] = {
        "confidence": answer.confidence,
        "token_nll": answer.token_nll,
        "token_count": answer.token_count,
    }
    if isinstance(case, Case):
        known["response"] = answer.text
    else:
        known["latency_s"] = answer.latency_s
        known["told"] = told_of(answer)
    return msgspec.structs.replace(
        case, **{name: value for name, value in known.items() if value is not None}
    )
