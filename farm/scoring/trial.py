"""From what a model answered to a task to the verdict: the one path that decides `correct`.

A run in a store and one in process both go through here. Asking is somebody else's business,
and so is what stands around programs.
"""

from __future__ import annotations

from farm.core.case import ProgramInput
from farm.core.generation import Generation, forced_outcome
from farm.core.isolation import Isolation
from farm.core.result import ERROR, REFUSED, TRUNCATED, CaseResult, counts
from farm.core.task import TaskSpec
from farm.errors import SpecError
from farm.scoring.programs import ProgramRunner, judge_program
from farm.scoring.registry import scorer
from farm.scoring.score import CaseJudge, case_judge

Verdict = tuple[CaseResult, Isolation | None]  # the isolation, where a program was run


class TrialJudge:
    """Judges answers by the metrics of their tasks.

    `programs` runs those that are programs; without it such a task raises `SpecError`. Where it
    may be called from several threads, so may this.
    """

    def __init__(self, programs: ProgramRunner | None = None) -> None:
        self._programs = programs
        self._judges: dict[tuple[str, str], CaseJudge] = {}

    def __call__(self, id: str, task: TaskSpec, answer: Generation) -> Verdict:
        """Return the verdict on one answer.

        A failure is an error and never looked at. A refusal is one whatever it says; an answer
        that was cut off is truncated unless it is right. Else it is post-processed as the task
        says and scored by its metric.
        """
        forced = forced_outcome(answer) or ""
        if forced == ERROR:
            return CaseResult(id=id, correct=False, score=0.0, outcome=ERROR), None
        judge = self._judges.get((task.metric_name, task.post_process))
        if judge is None:
            if scorer(task.metric_name).runs_programs:
                return self._judge_program(id, task, answer, forced)
            judge = self._judge_of(task)
        return judge(id, answer.text, task.targets, forced), None

    def _judge_of(self, task: TaskSpec) -> CaseJudge:
        judge = case_judge(scorer(task.metric_name), post_process_rule=task.post_process)
        self._judges[task.metric_name, task.post_process] = judge
        return judge

    def _judge_program(self, id: str, task: TaskSpec, answer: Generation, forced: str) -> Verdict:
        if self._programs is None:
            raise SpecError(f"task {task.task_id!r} needs a sandbox, and there is none here")
        if forced == REFUSED:
            return CaseResult(id=id, correct=False, score=0.0, outcome=REFUSED), None
        limit = task.metadata.get("timeout_s")
        judged = judge_program(
            ProgramInput(id=id, response=answer.text, targets=task.targets, prompt=task.prompt),
            self._programs,
            timeout_s=float(limit) if isinstance(limit, int | float) else None,
        )
        result = judged.result
        if forced == TRUNCATED and not result.correct and counts(result.outcome):
            result = CaseResult(
                id=id, correct=False, score=result.score, outcome=TRUNCATED, trust=result.trust
            )
        return result, judged.isolation


def runs_programs(task: TaskSpec) -> bool:
    """Say whether answers to a task are run as programs."""
    return scorer(task.metric_name).runs_programs
