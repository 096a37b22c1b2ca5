"""The cases of a shard to their verdicts: the same as judging each, and several times as fast.

Most cases of a run are right or plainly wrong under a scorer that takes any text; these need no
call of their own. Whatever is not so plain goes to `farm.scoring.score.case_judge`, one by one.
So does whatever a plugin scores: its scores may be anything, and what it says of a batch may be
something else than what it says of a case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET

from farm.core.case import ScoredInput, targets_of
from farm.core.result import CORRECT, EMPTY, WRONG, CaseResult
from farm.scoring.registry import BatchFunction, Scorer
from farm.scoring.score import case_judge

# Cases between two words about how far a shard is, where each is judged in well under a second:
_FEW: Final = 8  # judged by themselves
_AT_ONCE: Final = 512  # judged by one call


def judge_cases(
    cases: Sequence[ScoredInput],
    metric: Scorer,
    *,
    on_case: Callable[[int], None] | None = None,
) -> list[CaseResult]:
    """Judge cases in order; equal to calling the metric's `case_judge` on each.

    `on_case` is told now and then how many have their verdict: after each that a plugin judges,
    since that may take its time, and after some of those that farm judges, which never does.
    """
    many = metric.many
    results: list[CaseResult] = []
    if many is None or metric.fractional or metric.judges or metric.reads:
        judge = case_judge(metric)
        step = 1 if metric.foreign else _FEW
        for start in range(0, len(cases), step):
            some = cases[start : start + step]
            results += [judge(case.id, case.response, targets_of(case)) for case in some]
            if on_case is not None:
                on_case(len(results))
        return results
    for start in range(0, len(cases), _AT_ONCE):
        results += _at_once(cases[start : start + _AT_ONCE], metric, many)
        if on_case is not None:
            on_case(len(results))
    return results


def _at_once(cases: Sequence[ScoredInput], metric: Scorer, many: BatchFunction) -> list[CaseResult]:
    wanted = [
        (case.expected,)
        if case.targets is UNSET and case.expected is not UNSET  # spares most cases the call
        else targets_of(case)
        for case in cases
    ]
    if not all(wanted):  # a case without a target is unscorable, which no score says
        judge = case_judge(metric)
        return [judge(case.id, case.response, targets_of(case)) for case in cases]
    scores = many([case.response for case in cases], wanted)
    return [
        CaseResult(id=case.id, correct=True, score=1.0, outcome=CORRECT)
        if score == 1.0
        else CaseResult(id=case.id, correct=False, score=0.0, outcome=_why(case.response))
        for case, score in zip(cases, scores, strict=True)
    ]


def _why(response: str) -> str:
    return EMPTY if not response or response.isspace() else WRONG
