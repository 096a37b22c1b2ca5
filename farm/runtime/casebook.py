"""The cases of recorded runs as a report page shows them: asked, answered, and why judged so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from farm.core.case import Case, targets_of
from farm.core.generation import Generation, cause_of, forced_outcome
from farm.core.plan import ScorerName
from farm.core.result import PENDING, REFUSED, TRUNCATED, CaseResult, counts
from farm.core.task import TaskSpec
from farm.errors import SpecError
from farm.report.casepages import CaseRow
from farm.runtime.trials import Recorded, given, whole_cases
from farm.scoring.explain import Account, Explanation, explain
from farm.scoring.registry import scorer

if TYPE_CHECKING:
    from farm.scoring.programcase import AssertionAccount
    from farm.scoring.programs import ProgramRunner

_STEP_CUT = 1_000  # characters of a step: the texts themselves stand in full beside it

Explain = Callable[[Case, str, str], Explanation | None]  # a case, finish, and its cause


def case_rows(
    recordings: Sequence[Recorded], *, programs: Mapping[str, ProgramRunner] | None = None
) -> Iterator[CaseRow]:
    """Yield every case of the runs, explained by the scorer that judged it; a shard at a time.

    `programs` has, by a scorer's name, what runs a program once more to tell of each assertion;
    without it such a case is told by its code, its assertions and the share that passed.
    """
    for run in recordings:
        account = _of_tasks(run.tasks) if run.asked else _explainer(run.plan.identity.scorer)
        is_program: dict[str, bool] = {}
        for case, verdict, answer in whole_cases(run):
            metric = _metric(run, case)
            if metric not in is_program:
                is_program[metric] = _runs_programs(metric)
            if is_program[metric]:
                yield _program_row(run, case, verdict, answer, (programs or {}).get(metric))
            else:
                yield _row(run, case, verdict, answer, account)


def _metric(run: Recorded, case: Case) -> str:
    """Name the metric of a case."""
    return (
        run.tasks[given(case.task, "")].metric_name if run.asked else run.plan.identity.scorer.name
    )


def _runs_programs(metric: str) -> bool:
    try:
        return scorer(metric).runs_programs
    except SpecError:  # as below
        return False


def _program_row(
    run: Recorded,
    case: Case,
    verdict: CaseResult | None,
    answer: Generation | None,
    runner: ProgramRunner | None,
) -> CaseRow:
    # here and not at the top: the parser that finds programs loads for 10 ms
    from farm.scoring.programcase import UNRUN, explain_program, passed_of
    from farm.scoring.programs import program_of

    row = _row(run, case, verdict, answer, lambda *_: None)
    if answer is not None and answer.failure is not None:
        return row
    assertions = targets_of(case)
    rule, steps = _rule(run, case), tuple(f"assertion: {_cut(text)}" for text in assertions)
    cause = "" if answer is None else cause_of(answer)
    if verdict is not None:
        passed = round(verdict.score * len(assertions))
        told_so = UNRUN.get(verdict.outcome, passed_of(passed, len(assertions)))
        if verdict.outcome == REFUSED:
            told_so = f"{verdict.outcome}: {cause}"
        elif verdict.outcome == TRUNCATED:
            told_so += f"; {verdict.outcome}: {cause}"
        rule = f"{_rule(run, case)}: {told_so}"
    if verdict is not None and verdict.outcome != REFUSED and runner is not None:
        metric = scorer(_metric(run, case))
        told = explain_program(metric, case.response, assertions, runner, prompt=case.prompt)
        steps = tuple(_told(one) for one in told.assertions)
        if verdict.outcome == TRUNCATED and not told.correct:
            pass  # what its program came to stands beside it
        elif told.outcome == verdict.outcome:
            rule = f"{_rule(run, case)}: {told.rule}" + (f"; {told.detail}" if told.detail else "")
        else:  # a program may use chance or the clock; the recorded verdict stands
            rule += f"; run again it ends in {told.outcome!r}"
    return msgspec.structs.replace(
        row, extracted=program_of(case.response, assertions) or None, rule=rule, steps=steps
    )


def _told(one: AssertionAccount) -> str:
    why = f" ({_cut(one.detail)})" if one.detail else ""
    return f"{one.outcome}{why}: {_cut(one.text)}"


def _explainer(used: ScorerName) -> Explain:
    """Return what explains a verdict; nothing where this farm does not have that scorer."""
    try:
        found = scorer(used.name)
    except SpecError:  # a plugin that is not installed here: the verdicts stand without it
        return lambda *_: None
    if found.version != used.version or found.needs:
        return lambda *_: None

    return lambda case, finish, cause: _account(case, used.name, "none", finish, cause)


def _of_tasks(tasks: Mapping[str, TaskSpec]) -> Explain:
    """Return what explains a verdict by the metric and the rule of the case's task."""

    def account(case: Case, finish: str, cause: str) -> Explanation | None:
        task = tasks[given(case.task, "")]
        return _account(case, task.metric_name, task.post_process, finish, cause)

    return account


def _account(case: Case, metric: str, rule: str, finish: str, cause: str) -> Explanation | None:
    try:
        return explain(
            metric,
            case.response,
            targets_of(case),
            post_process_rule=rule,
            finish=finish,
            cause=cause,
        )
    except MemoryError:
        raise
    # a plugin may raise anything; the verdict already says that it failed
    except Exception:  # noqa: BLE001
        return None


def _row(
    run: Recorded,
    case: Case,
    verdict: CaseResult | None,
    answer: Generation | None,
    account: Explain,
) -> CaseRow:
    failed = answer is not None and answer.failure is not None
    cause = "" if answer is None else cause_of(answer)
    finish = "" if answer is None else forced_outcome(answer) or ""
    told = None if verdict is None or failed else account(case, finish, cause)
    rule = _rule(run, case)
    if failed:
        rule = f"no answer came: {cause}"
    elif told is not None:
        rule = f"{rule}: {told.rule}"
    counted = verdict is not None and counts(verdict.outcome)
    return CaseRow(
        model=run.model,
        id=case.id,
        prompt=case.prompt,
        expected="\n".join(targets_of(case)),
        response=case.response,
        extracted=_extracted(told),
        rule=rule,
        steps=() if told is None else _steps(told),
        category=given(case.category, ""),
        outcome=PENDING if verdict is None else verdict.outcome,
        score=verdict.score if verdict is not None and counted else None,
    )


def _rule(run: Recorded, case: Case) -> str:
    """Name what judged a case, as signatures write it."""
    if not run.asked:
        return run.scorer
    metric = _metric(run, case)
    return f"{metric}@{scorer(metric).version}"


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
