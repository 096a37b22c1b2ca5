"""What a store says, case by case: its cases with their verdicts, as the rows of statistics.

A store is read at one moment, that of its ledger. Texts of cases pass by a shard at a time; what
is kept of a case is its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.case import Case
from farm.core.ledger import Ledger
from farm.core.plan import Plan
from farm.core.receipt import read_receipt, receipt_name
from farm.core.result import PENDING, CaseResult, counts
from farm.errors import Corrupt
from farm.stats.evalrun import EvalRun
from farm.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run as it stood when it was opened, under the name its report gives the model."""

    model: str
    store: Store
    ledger: Ledger

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

    @property
    def task_id(self) -> str:
        """The task this case is a sample of; without one it is a task of its own."""
        return given(self.task, self.id)


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


K = TypeVar("K", bound=_WithId)
V = TypeVar("V")
D = TypeVar("D")

_facts = msgspec.json.Decoder(list[Facts])
_cases = msgspec.json.Decoder(list[Case])


def recorded(store: Store, *, model: str) -> Recorded:
    """Open a store's run for reading, as it stands now."""
    return Recorded(model=model, store=store, ledger=store.ledger())


def facts(run: Recorded) -> Iterator[tuple[Facts, CaseResult | None]]:
    """Yield what is known of every case, and its verdict: None while its shard has no receipt."""
    return _judged(run, _facts)


def whole_cases(run: Recorded) -> Iterator[tuple[Case, CaseResult | None]]:
    """Yield every case with all its texts, and its verdict; a shard's texts at a time."""
    return _judged(run, _cases)


def trial(run: Recorded, case: Facts, verdict: CaseResult | None) -> EvalRun:
    """Return a case as a row; without a verdict it is "pending", and missing as an error is."""
    counted = verdict if verdict is not None and counts(verdict.outcome) else None
    return EvalRun(
        model_id=run.model,
        task_id=case.task_id,
        sample=given(case.sample, 0),
        category=given(case.category, ""),
        metric_name=run.plan.identity.scorer.name,
        score=None if counted is None else counted.score,
        correct=None if counted is None else counted.correct,
        outcome=PENDING if verdict is None else verdict.outcome,
        confidence=given(case.confidence, None),
        token_nll=given(case.token_nll, None),
        token_count=given(case.token_count, None),
        metadata={"metric_version": run.plan.identity.scorer.version},
    )


def given(value: V | UnsetType, default: D) -> V | D:
    """Return an optional field, or the default where the record does not have it."""
    return default if isinstance(value, UnsetType) else value


def _judged(
    run: Recorded, decoder: msgspec.json.Decoder[list[K]]
) -> Iterator[tuple[K, CaseResult | None]]:
    for shard, lease in zip(run.plan.shards, run.ledger.leases, strict=True):
        # records hold no raw newline, so one array is decoded instead of many lines
        records = run.store.read_cases(shard)
        cases = decoder.decode(b"[" + records[:-1].replace(b"\n", b",") + b"]")
        if lease.receipt is None:
            yield from ((case, None) for case in cases)
            continue
        path = receipt_name(lease.shard, lease.version)
        verdicts = read_receipt(run.store.read_receipt(lease), lease.receipt, path=path).cases
        if [case.id for case in cases] != [verdict.id for verdict in verdicts]:
            raise Corrupt(path=path, reason=f"its verdicts are not on the cases of {shard.name}")
        yield from zip(cases, verdicts, strict=True)
