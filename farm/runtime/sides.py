"""A recorded run as one side of a comparison."""

from __future__ import annotations

from farm.core.case import Group, group_of
from farm.core.result import counts
from farm.report.side import Judged, RunSide
from farm.runtime.trials import Recorded, facts
from farm.scoring.registry import check_more_is_better


def side_of(run: Recorded) -> RunSide:
    """Return the verdicts of a run by case id, and what cases share with others.

    Raises `SpecError` for a scorer of which less is better.
    """
    if not run.asked:
        check_more_is_better(run.plan.identity.scorer.name)
    cases: dict[str, Judged] = {}
    groups: dict[str, Group] = {}
    pending = 0
    for case, verdict in facts(run):
        if group := group_of(case):
            groups[case.id] = group
        if verdict is None:
            pending += 1
        else:
            cases[case.id] = Judged(
                correct=verdict.correct,
                score=verdict.score if counts(verdict.outcome) else None,
                outcome=verdict.outcome,
            )
    return RunSide(
        label=run.model,
        tasks_sha256=run.plan.tasks_sha256,
        scorer=run.scorer,
        complete=run.ledger.complete,
        cases=cases,
        groups=groups,
        pending=pending,
        post_process="+".join(sorted({task.post_process for task in run.tasks.values()})) or "none",
    )
