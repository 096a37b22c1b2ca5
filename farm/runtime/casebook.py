"""The cases of recorded runs as a report page shows them: asked, answered, and why judged so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from farm.core.case import Case, targets_of
from farm.core.plan import ScorerName
from farm.core.result import PENDING, CaseResult, counts
from farm.errors import SpecError
from farm.report.casepages import CaseRow
from farm.runtime.trials import Recorded, given, whole_cases
from farm.scoring.explain import Account, Explanation, explain
from farm.scoring.registry import scorer

if TYPE_CHECKING:
    from farm.scoring.programcase import AssertionAccount
    from farm.scoring.programs import ProgramRunner

_STEP_CUT = 1_000  # characters of a step: the texts themselves stand in full beside it

Explain = Callable[[Case], Explanation | None]


def case_rows(
    recordings: Sequence[Recorded], *, programs: Mapping[str, ProgramRunner] | None = None
) -> Iterator[CaseRow]:
    """Yield every case of the runs, explained by the scorer that judged it; a shard at a time.

    `programs` has, by a scorer's name, what runs a program once more to tell of each assertion;
    without it such a case is told by its code, its assertions and the share that passed.
    """
    for run in recordings:
        used = run.plan.identity.scorer
        if _runs_programs(used):
            runner = (programs or {}).get(used.name)
            for case, verdict in whole_cases(run):
                yield _program_row(run, case, verdict, runner)
            continue
        account = _explainer(used)
        for case, verdict in whole_cases(run):
            yield _row(run, case, verdict, account)


def _runs_programs(used: ScorerName) -> bool:
    try:
        return scorer(used.name).runs_programs
    except SpecError:  # as below
        return False


def _program_row(
    run: Recorded, case: Case, verdict: CaseResult | None, runner: ProgramRunner | None
) -> CaseRow:
    # here and not at the top: the parser that finds programs loads for 10 ms
    from farm.scoring.code import extract_code
    from farm.scoring.programcase import UNRUN, explain_program, passed_of

    row = _row(run, case, verdict, lambda _: None)
    assertions = targets_of(case)
    rule, steps = run.scorer, tuple(f"assertion: {_cut(text)}" for text in assertions)
    if verdict is not None and counts(verdict.outcome):
        passed = round(verdict.score * len(assertions))
        share = passed_of(passed, len(assertions))
        rule = f"{run.scorer}: {UNRUN.get(verdict.outcome, share)}"
    if verdict is not None and runner is not None:
        metric = scorer(run.plan.identity.scorer.name)
        told = explain_program(metric, case.response, assertions, runner)
        steps = tuple(_told(one) for one in told.assertions)
        if told.outcome == verdict.outcome:
            rule = f"{run.scorer}: {told.rule}" + (f"; {told.detail}" if told.detail else "")
        else:  # a program may use chance or the clock; the recorded verdict stands
            rule += f"; run again it ends in {told.outcome!r}"
    return msgspec.structs.replace(
        row, extracted=extract_code(case.response) or None, rule=rule, steps=steps
    )


def _told(one: AssertionAccount) -> str:
    why = f" ({_cut(one.detail)})" if one.detail else ""
    return f"{one.outcome}{why}: {_cut(one.text)}"


def _explainer(used: ScorerName) -> Explain:
    """Return what explains a verdict; nothing where this farm does not have that scorer."""
    try:
        found = scorer(used.name)
    except SpecError:  # a plugin that is not installed here: the verdicts stand without it
        return lambda case: None
    if found.version != used.version or found.needs:
        return lambda case: None

    def account(case: Case) -> Explanation | None:
        try:
            return explain(used.name, case.response, targets_of(case))
        except MemoryError:
            raise
        # a plugin may raise anything; the verdict already says that it failed
        except Exception:  # noqa: BLE001
            return None

    return account


def _row(run: Recorded, case: Case, verdict: CaseResult | None, account: Explain) -> CaseRow:
    told = None if verdict is None else account(case)
    counted = verdict is not None and counts(verdict.outcome)
    return CaseRow(
        model=run.model,
        id=case.id,
        prompt=case.prompt,
        expected="\n".join(targets_of(case)),
        response=case.response,
        extracted=_extracted(told),
        rule=run.scorer if told is None else f"{run.scorer}: {told.rule}",
        steps=() if told is None else _steps(told),
        category=given(case.category, ""),
        outcome=PENDING if verdict is None else verdict.outcome,
        score=verdict.score if verdict is not None and counted else None,
    )


def _extracted(told: Explanation | None) -> str | None:
    """Return the span that was judged; None where it is the response as it stands."""
    if told is None:
        return None
    if told.read is not None:
        return told.read.text if told.read.found else None
    return None if told.post_process == "none" else told.extracted.text


def _steps(told: Explanation) -> tuple[str, ...]:
    """Return what was done to both sides until they were compared, a line a step."""
    wanted = told.target_steps[told.best_target or 0] if told.target_steps else ()
    return (*_lines("response", told.prediction_steps), *_lines("expected", wanted))


def _lines(side: str, account: Account) -> Iterator[str]:
    for seen in account:
        yield f"{side}, {seen.step}: {_cut(seen.text)}"


def _cut(text: str) -> str:
    rest = len(text) - _STEP_CUT
    return f"{text[:_STEP_CUT]!r}" + (f" and {rest:,} more characters" if rest > 0 else "")
