"""Which verdicts differ between two stores of the same cases."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from farm.core.lease import Lease
from farm.core.plan import ScorerName
from farm.core.receipt import read_receipt, receipt_name
from farm.core.result import CaseResult
from farm.store.protocol import Store

LISTED = 1_000  # changed verdicts that are listed; all are counted


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict without its case."""

    correct: bool
    score: float
    outcome: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A case whose verdict is another one now."""

    id: str
    before: Verdict
    after: Verdict


class Rescoring(msgspec.Struct, frozen=True, kw_only=True):
    """What scoring the same cases by another scorer changed, over cases that both have."""

    before: ScorerName
    after: ScorerName
    compared: int
    correct_before: int
    correct_after: int
    changed: int  # verdicts of another outcome, or right instead of wrong
    became_correct: int
    became_wrong: int
    cases: tuple[Changed, ...]  # the changed ones, at most the first thousand


def rescoring(old: Store, new: Store) -> Rescoring:
    """Compare the receipts of two stores that were made of the same cases and shards."""
    compared = correct_before = correct_after = changed = better = worse = 0
    listed: list[Changed] = []
    for before, after in _pairs(old, new):
        compared += 1
        correct_before += before.correct
        correct_after += after.correct
        if before.outcome == after.outcome:
            continue
        changed += 1
        better += after.correct
        worse += before.correct
        if len(listed) < LISTED:
            listed.append(Changed(id=before.id, before=_bare(before), after=_bare(after)))
    return Rescoring(
        before=old.plan.identity.scorer,
        after=new.plan.identity.scorer,
        compared=compared,
        correct_before=correct_before,
        correct_after=correct_after,
        changed=changed,
        became_correct=better,
        became_wrong=worse,
        cases=tuple(listed),
    )


def _pairs(old: Store, new: Store) -> Iterator[tuple[CaseResult, CaseResult]]:
    leases = zip(old.ledger().leases, new.ledger().leases, strict=True)
    for first, second in leases:
        if first.done and second.done:
            yield from zip(_cases(old, first), _cases(new, second), strict=True)


def _cases(store: Store, lease: Lease) -> Iterator[CaseResult]:
    if lease.receipt is not None:
        path = receipt_name(lease.shard, lease.version)
        yield from read_receipt(store.read_receipt(lease), lease.receipt, path=path).cases


def _bare(result: CaseResult) -> Verdict:
    return Verdict(correct=result.correct, score=result.score, outcome=result.outcome)
