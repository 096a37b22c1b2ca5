"""Cases whose response is a program: what is run, and what its verdict makes of the case.

Pure: who runs programs, and behind which walls, is somebody else's business and comes in as a
`ProgramRunner`. A case's targets are its assertions; the program is what
`farm.scoring.code.extract_code` takes out of the response.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from farm.core.case import ProgramInput, ScoredInput, targets_of
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
from farm.scoring.blocks import CHECK, block_of, waiting, without_runners
from farm.scoring.code import extract_code
from farm.scoring.syntax import free_names, outline, parsed

# What a program's own fate makes of its case; anything else a runner says is no verdict.
_OUTCOMES: Final = {
    "pass": CORRECT,
    "assertion_fail": WRONG,
    "syntax_error": WRONG,
    "error": WRONG,
    "timeout": TIMEOUT,
}
_BUILTINS: Final = frozenset(vars(builtins))
_CHECK: Final = re.compile(rf"^def +{CHECK}\b", re.MULTILINE)
_BEGUN: Final = re.compile(r"^[ \t]*(?:async +)?def +(\w+)", re.MULTILINE)
_JUDGING: Final = (ast.Name, ast.Assert, ast.Raise)
_REACHING: Final = frozenset(("eval", "exec", "globals", "locals", "vars", "__import__"))


class AssertionVerdict(Protocol):
    """How one assertion ended."""

    @property
    def outcome(self) -> str:
        """One of "pass", "assertion_fail", "error", "not_reached"."""

    @property
    def detail(self) -> str:
        """Why, unless it passed."""


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
    def detail(self) -> str:
        """Why the program did not pass; "" when it did."""

    @property
    def assertions(self) -> Sequence[AssertionVerdict]:
        """How each assertion ended, in order."""

    @property
    def isolation(self) -> object:
        """What stood between the program and the machine, with the fields of `Isolation`."""


class ProgramRunner(Protocol):
    """Runs programs where they can do no harm."""

    def judge(
        self,
        code: str,
        assertions: Sequence[str],
        /,
        *,
        timeout_s: float | None = None,
        entry_point: str | None = None,
    ) -> ProgramVerdict:
        """Run a program and judge it by assertions, of which there is at least one.

        `timeout_s` is for all of it; None is the runner's own. `entry_point` names the function
        that a check is to be given. Raises `SandboxLost`
        when there is no verdict on this program, `SandboxUnavailable` when none can be run at all.
        """


def is_assertion(target: str, beside: Sequence[str] = ()) -> bool:
    """Say whether a target can judge a program, whatever program that is; `beside` are others.

    It must parse, and name something or assert: a literal (`42`, `'yes'`) is an answer, which
    no program can be measured by. Of a block something must run that can fail, and no test in
    it may need pytest's fixtures or arguments, which nothing here has. Where another target
    may decide that, or only a run could tell, it is said to.
    """
    tree = parsed(target.strip())
    if tree is None or not any(isinstance(node, _JUDGING) for node in ast.walk(tree)):
        return False
    if (len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)) or _plainly_asserts(tree):
        return True
    others = [other for text in beside if (other := parsed(text.strip())) is not None]
    elsewhere = frozenset().union(*map(_mentioned, others))
    without_runners(tree)
    block = block_of(tree)
    mentioned = elsewhere | block.mentions
    if any(unit.needs_pytest and unit.name not in mentioned for unit in block.units):
        return False
    found = waiting(block, elsewhere, elsewhere)
    if found.judges or found.tests or found.check:
        return True
    # what it calls may be another target's, or hidden from a reader of texts
    return not block.mentions.isdisjoint(_REACHING.union(*map(_defines, others)))


def _plainly_asserts(tree: ast.Module) -> bool:
    """Say whether a block runs an assert, by itself or in a function it calls; quick, errs to no.

    None that holds what may be a test of pytest's does.
    """
    asserting: set[str] = set()
    called: set[str] = set()
    found = False
    for one in tree.body:
        if isinstance(one, ast.FunctionDef):
            if one.name.startswith("test") or one.decorator_list:
                return False
            if any(isinstance(part, ast.Assert) for part in one.body):
                asserting.add(one.name)
        elif isinstance(one, ast.Expr):
            call = one.value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                called.add(call.func.id)
        elif not isinstance(one, ast.Assign | ast.Assert | ast.Import | ast.ImportFrom):
            return False
        found = found or isinstance(one, ast.Assert)
    return found or not asserting.isdisjoint(called)


def _mentioned(tree: ast.Module) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _defines(tree: ast.Module) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def program_of(response: str, targets: Sequence[str]) -> str:
    """Take the program out of a response, "" if there is none.

    Of several blocks those are preferred that define what the assertions call.
    """
    code = extract_code(response)
    named = frozenset().union(*[_names_of(target) for target in targets]) - _BUILTINS
    missing = named - _defined(code)
    if not code or not missing:
        return code
    for name in sorted(missing):
        other = extract_code(response, entry_point=name)
        if len(named - _defined(other)) < len(missing):
            code, missing = other, named - _defined(other)
    return code


def _names_of(target: str) -> frozenset[str]:
    tree = parsed(target.strip())
    return frozenset() if tree is None else free_names(tree)


def _defined(code: str) -> frozenset[str]:
    seen = outline(code)
    return frozenset() if seen is None else seen.defines


def asked_for(prompt: str, code: str, assertions: Sequence[str]) -> str | None:
    """Return the function that a check is to be given, by the prompt: the last that it begins.

    None where nothing waits to be given one, or the program does not define it.
    """
    if not any(_CHECK.search(text) for text in assertions):
        return None
    begun = _BEGUN.findall(prompt)
    seen = outline(code) if begun else None
    return begun[-1] if seen is not None and begun[-1] in seen.defines else None


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
        judged = judge_program(case, runner)
        results.append(judged.result)
        if judged.isolation is not None:
            around.add(judged.isolation)
        if on_case is not None:
            on_case(len(results))
    return results, weakest(around)


class Judged(NamedTuple):
    """A case's verdict; what was run for it, and what the runner said, as far as it came."""

    result: CaseResult
    code: str | None = None
    verdict: ProgramVerdict | None = None
    isolation: Isolation | None = None
    lost: str = ""  # why there is no verdict on a program that was to be run


def judge_program(
    case: ScoredInput, runner: ProgramRunner, *, timeout_s: float | None = None
) -> Judged:
    """Judge one case; without a time of its own the runner's holds.

    A `check` that nothing calls is given the function that the prompt of a `ProgramInput` asks
    for, where the program has that.

    In this order: unscorable (no target is an assertion), empty, unparsed (no program in the
    response), then what became of the program: correct (every assertion passed), wrong, or
    timeout. A program that could not be judged, or was out of time for want of a processor
    twice, is an error: that says nothing about it.
    """
    assertions = targets_of(case)
    if not any(
        is_assertion(text, [*assertions[:at], *assertions[at + 1 :]])
        for at, text in enumerate(assertions)
    ):
        return Judged(_unrun(case.id, UNSCORABLE))
    if not case.response or case.response.isspace():
        return Judged(_unrun(case.id, EMPTY))
    code = program_of(case.response, assertions)
    if not code:
        return Judged(_unrun(case.id, UNPARSED))
    entry = asked_for(case.prompt, code, assertions) if isinstance(case, ProgramInput) else None
    try:
        verdict = runner.judge(code, assertions, timeout_s=timeout_s, entry_point=entry)
        if _says_little(verdict):
            # the machine may be less busy now
            verdict = runner.judge(code, assertions, timeout_s=timeout_s, entry_point=entry)
    except SandboxLost as error:
        return Judged(_unrun(case.id, ERROR), code, lost=str(error))
    around = isolation_of(verdict.isolation)
    if _says_little(verdict):
        return Judged(_unrun(case.id, ERROR), code, verdict, around)
    outcome = _OUTCOMES[verdict.outcome]
    result = CaseResult(
        id=case.id,
        correct=outcome == CORRECT,
        score=verdict.score,
        outcome=outcome,
        trust=around.trust,
    )
    return Judged(result, code, verdict, around)


def _says_little(verdict: ProgramVerdict) -> bool:
    return verdict.outcome == "timeout" and verdict.starved and not verdict.spent


def _unrun(id: str, outcome: str) -> CaseResult:
    return CaseResult(id=id, correct=False, score=0.0, outcome=outcome)
