"""Show how a case whose response is a program came to its score: what was run, and each assertion.

The verdict is made by `farm.scoring.programs`, as in a run; here it is only told.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.core.case import ProgramInput, targets_of
from farm.core.isolation import Isolation
from farm.core.result import EMPTY, ERROR, UNPARSED, UNSCORABLE
from farm.scoring.programs import Judged, ProgramRunner, judge_program
from farm.scoring.registry import Scorer

# What there is to say of a case that ended without a program being run.
UNRUN = {
    UNSCORABLE: "no target is an assertion, so nothing was run",
    EMPTY: "the response is empty, so nothing was run",
    UNPARSED: "the response holds no program",
    ERROR: "the program could not be judged: a sandbox process was lost, or time ran short",
}


class AssertionAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An assertion and how it ended: pass, assertion_fail, error or not_reached, and why."""

    text: str
    outcome: str
    detail: str


class ProgramExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on a program with its reasons.

    `code` is what was taken out of the response, null where it holds no program. `program` says
    how running it ended ("pass", "assertion_fail", "syntax_error", "timeout", "error"), null
    where it was not run or gave no verdict. `isolation` is what stood around it.
    """

    metric: str
    version: str
    post_process: str = "none"
    code: str | None
    program: str | None
    detail: str
    assertions: tuple[AssertionAccount, ...]
    isolation: Isolation | None
    rule: str
    score: float
    correct: bool
    outcome: str


def explain_program(
    metric: Scorer,
    prediction: str,
    targets: Sequence[str],
    runner: ProgramRunner,
    *,
    prompt: str = "",
) -> ProgramExplanation:
    """Run one program and say why it scores as it does; errors are those of the runner."""
    case = ProgramInput(id="", response=prediction, targets=tuple(targets), prompt=prompt)
    judged = judge_program(case, runner)
    texts = targets_of(case)
    verdict = judged.verdict
    told = () if verdict is None else verdict.assertions
    return ProgramExplanation(
        metric=metric.name,
        version=metric.version,
        code=judged.code,
        program=None if verdict is None else verdict.outcome,
        detail=judged.lost if verdict is None else verdict.detail,
        assertions=tuple(
            AssertionAccount(text=text, outcome=one.outcome, detail=one.detail)
            for text, one in zip(texts, told, strict=False)  # none are told where nothing was run
        ),
        isolation=judged.isolation,
        rule=_rule(judged, len(texts)),
        score=judged.result.score,
        correct=judged.result.correct,
        outcome=judged.result.outcome,
    )


def _rule(judged: Judged, total: int) -> str:
    if judged.code is None:
        return UNRUN[judged.result.outcome]
    if judged.verdict is None:
        return "the program could not be judged here: a sandbox process was lost, twice"
    passed = sum(one.outcome == "pass" for one in judged.verdict.assertions)
    return passed_of(passed, total)


def passed_of(passed: int, total: int) -> str:
    """Say how many assertions passed."""
    return f"{passed} of {total} assertion{'s' if total > 1 else ''} passed"
