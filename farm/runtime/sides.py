"""A recorded run as one side of a comparison."""

from __future__ import annotations

from farm.core.result import counts
from farm.report.compare import Judged, RunSide
from farm.runtime.trials import Recorded, facts


def side_of(run: Recorded) -> RunSide:
    """Return the verdicts of a run by case id, and which cases belong together.

    Cases are grouped by their cluster, else by the task they are samples of; a run without
    either has no groups.
    """
    cases: dict[str, Judged] = {}
    groups: dict[str, str] = {}
    pending = 0
    for case, verdict in facts(run):
        if case.cluster or case.task:
            groups[case.id] = f"cluster {case.cluster}" if case.cluster else f"task {case.task}"
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
