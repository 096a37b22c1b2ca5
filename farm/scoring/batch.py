"""The cases of a shard to their verdicts: the same as judging each, and several times as fast.

Most cases of a run are right or plainly wrong under a scorer that takes any text; these need no
call of their own. Whatever is not so plain goes to `farm.scoring.score.case_judge`, one by one.
So does whatever a plugin scores: its scores may be anything, and what it says of a batch may be
something else than what it says of a case.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from farm.core.case import ScoredInput, targets_of
from farm.core.result import CORRECT, EMPTY, WRONG, CaseResult
from farm.scoring.registry import Scorer
from farm.scoring.score import case_judge


def judge_cases(cases: Sequence[ScoredInput], metric: Scorer) -> list[CaseResult]:
    """Judge cases in order; equal to calling the metric's `case_judge` on each."""
    if metric.many is None or metric.fractional or metric.judges or metric.reads:
        judge = case_judge(metric)
        return [judge(case.id, case.response, targets_of(case)) for case in cases]
    wanted = [
        (case.expected,)
        if case.targets is UNSET and case.expected is not UNSET  # spares most cases the call
        else targets_of(case)
        for case in cases
    ]
    if not all(wanted):  # a case without a target is unscorable, which no score says
        return _one_by_one(cases, wanted, metric)
    scores = metric.many([case.response for case in cases], wanted)
    return [
        CaseResult(id=case.id, correct=True, score=1.0, outcome=CORRECT)
        if score == 1.0
        else CaseResult(id=case.id, correct=False, score=0.0, outcome=_why(case.response))
        for case, score in zip(cases, scores, strict=True)
    ]


def _one_by_one(
    cases: Sequence[ScoredInput], wanted: Sequence[Sequence[str]], metric: Scorer
) -> list[CaseResult]:
    judge = case_judge(metric)
    return [
        judge(case.id, case.response, targets) for case, targets in zip(cases, wanted, strict=True)
    ]


def _why(response: str) -> str:
    return EMPTY if not response or response.isspace() else WRONG
