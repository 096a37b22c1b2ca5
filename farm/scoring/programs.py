"""Cases whose response is a program: what is run, and what its verdict makes of the case.

Pure: who runs programs, and behind which walls, is somebody else's business and comes in as a
`ProgramRunner`. A case's targets are its assertions; the program is what
`farm.scoring.code.extract_code` takes out of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from farm.core.case import ScoredInput, targets_of
from farm.core.isolation import Isolation, isolation_of, weakest
from farm.core.result import (
    CORRECT,
    EMPTY,
    ERROR,
    TIMEOUT,
    UNPARSED,
    UNSCORABLE,
    WRONG,
    CaseResult,
)
from farm.errors import SandboxLost
from farm.scoring.code import extract_code
from farm.scoring.syntax import parsed

# What a program's own fate makes of its case; anything else a runner says is no verdict.
_OUTCOMES: Final = {
    "pass": CORRECT,
    "assertion_fail": WRONG,
    "syntax_error": WRONG,
    "error": WRONG,
    "timeout": TIMEOUT,
}


class ProgramVerdict(Protocol):
    """What scoring looks at in a verdict on a program."""

    @property
    def outcome(self) -> str:
        """One of "pass", "assertion_fail", "syntax_error", "timeout", "error"."""

    @property
    def score(self) -> float:
        """The share of assertions that passed; those not reached count as failed."""

    @property
    def starved(self) -> bool:
        """Whether the program waited so long for a processor that its deadline was moved."""

    @property
    def spent(self) -> bool:
        """Whether the program used up its time on processors, however long it waited."""

    @property
    def isolation(self) -> object:
        """What stood between the program and the machine, with the fields of `Isolation`."""


class ProgramRunner(Protocol):
    """Runs programs where they can do no harm."""

    def judge(
        self, code: str, assertions: Sequence[str], /, *, timeout_s: float = ...
    ) -> ProgramVerdict:
        """Run a program and judge it by assertions, of which there is at least one.

        `timeout_s` is for all of it; without one the runner's own holds. Raises `SandboxLost`
        when there is no verdict on this program, `SandboxUnavailable` when none can be run at all.
        """


def is_assertion(target: str) -> bool:
    """Say whether a target can judge a program: it parses, and holds something to run."""
    tree = parsed(target.strip())
    return tree is not None and bool(tree.body)


def judge_programs(
    cases: Sequence[ScoredInput],
    runner: ProgramRunner,
    *,
    on_case: Callable[[int], None] | None = None,
) -> tuple[list[CaseResult], Isolation | None]:
    """Judge cases in order; return the verdicts and what all their programs had around them.

    The isolation is None when no case held a program. `on_case` is told after each case how
    many have their verdict.
    """
    results: list[CaseResult] = []
    around: set[Isolation] = set()
    for case in cases:
        result, isolation = judge_program(case.id, case.response, targets_of(case), runner)
        results.append(result)
        if isolation is not None:
            around.add(isolation)
        if on_case is not None:
            on_case(len(results))
    return results, weakest(around)


def judge_program(
    id: str,
    response: str,
    assertions: Sequence[str],
    runner: ProgramRunner,
    *,
    timeout_s: float | None = None,
) -> tuple[CaseResult, Isolation | None]:
    """Judge one case whose response is a program.

    In this order: unscorable (no target is an assertion), empty, unparsed (no program in the
    response), then what became of the program: correct (every assertion passed), wrong, or
    timeout. A program that could not be judged, or was out of time for want of a processor
    twice, is an error: that says nothing about it.
    """
    if not any(map(is_assertion, assertions)):
        return _unrun(id, UNSCORABLE), None
    if not response or response.isspace():
        return _unrun(id, EMPTY), None
    code = extract_code(response)
    if not code:
        return _unrun(id, UNPARSED), None
    limit = {} if timeout_s is None else {"timeout_s": timeout_s}
    try:
        verdict = runner.judge(code, assertions, **limit)
        if _says_little(verdict):
            verdict = runner.judge(code, assertions, **limit)  # the machine may be less busy now
    except SandboxLost:
        return _unrun(id, ERROR), None
    around = isolation_of(verdict.isolation)
    if _says_little(verdict):
        return _unrun(id, ERROR), around
    outcome = _OUTCOMES[verdict.outcome]
    result = CaseResult(
        id=id,
        correct=outcome == CORRECT,
        score=verdict.score,
        outcome=outcome,
        trust=around.trust,
    )
    return result, around


def _says_little(verdict: ProgramVerdict) -> bool:
    return verdict.outcome == "timeout" and verdict.starved and not verdict.spent


def _unrun(id: str, outcome: str) -> CaseResult:
    return CaseResult(id=id, correct=False, score=0.0, outcome=outcome)
