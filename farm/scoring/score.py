"""One case to its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.case import ScoredInput, targets_of
from farm.core.result import CaseResult
from farm.scoring.registry import Scorer

SCORED_OUTCOMES = frozenset({"correct", "wrong", "empty"})


def score_cases(cases: Iterable[ScoredInput], scorer: Scorer) -> list[CaseResult]:
    """Score cases in order."""
    return [score_case(case, scorer) for case in cases]


def score_case(case: ScoredInput, scorer: Scorer) -> CaseResult:
    """Score one case; a response of white space alone that is not right is `empty`."""
    score = scorer.function(case.response, targets_of(case))
    correct = score >= 1.0
    return CaseResult(
        id=case.id, correct=correct, score=score, outcome=_outcome(case.response, correct)
    )


def _outcome(response: str, correct: bool) -> str:
    if correct:
        return "correct"
    return "wrong" if response.strip() else "empty"


def scored(outcomes: dict[str, int]) -> int:
    """Count the cases that enter accuracy."""
    return sum(count for outcome, count in outcomes.items() if outcome in SCORED_OUTCOMES)
