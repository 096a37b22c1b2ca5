"""One run as comparisons and gates see it: its verdicts, and how they make tasks and clusters.

A task is what was asked; a run may have asked it often, another run as often or not. So what is
compared, and what an accuracy is averaged over, are tasks: never single samples, of which any
number may be copies of one answer. The figures are those of `farm run` and `farm report`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from farm.core.case import Group
from farm.errors import SpecError
from farm.report.grouped import GroupedFigures, Sample, clusters_of, grouped_figures

NUMBER_SAMPLES = "number repeated answers by `sample`, or name groups of tasks by `category`"


class Judged(Struct, frozen=True, kw_only=True):
    """How one case ended; `score` is None where it could not be scored."""

    correct: bool
    score: float | None
    outcome: str


class RunSide(Struct, frozen=True, kw_only=True):
    """One run as a comparison sees it: what it measured, with what, and every case by id.

    `groups` says of which task a case is a sample and in which cluster it is, for those that name
    one, also where they have no verdict yet. `pending` counts the cases that have none and are not
    in `cases`, `post_process` names what was done to answers before they were scored.
    """

    label: str
    tasks_sha256: str
    scorer: str  # name and version, such as "exact_match@1"
    complete: bool
    cases: Mapping[str, Judged]
    groups: Mapping[str, Group] = msgspec.field(default_factory=dict)
    pending: int = 0
    post_process: str = "none"

    @property
    def planned(self) -> int:
        """How many cases there are, with a verdict or without."""
        return len(self.cases) + self.pending

    def task_of(self, case_id: str) -> str:
        """Give the task a case is a sample of; one that names none is a task of its own."""
        group = self.groups.get(case_id)
        return (group.task if group else "") or case_id


def aligned(side: RunSide, other: RunSide) -> RunSide:
    """Return the side with the tasks that only the other run names for cases of both.

    What a case is a sample of is no part of what makes two runs' cases the same.
    """
    groups = dict(side.groups)
    for case_id, group in other.groups.items():
        known = groups.get(case_id, Group())
        if group.task and not known.task and case_id in side.cases:
            groups[case_id] = replace(known, task=group.task, sample=group.sample)
    return replace(side, groups=groups)


def check_samples(side: RunSide) -> None:
    """Refuse two cases that are the same sample of one task, as a leaderboard does: `SpecError`.

    Else cases that name by `task` what they have in common would be taken for one task.
    """
    first: dict[tuple[str, int], str] = {}
    for case_id in {**side.cases, **side.groups} if side.groups else ():
        group = side.groups.get(case_id, Group())
        task = group.task or case_id
        other = first.setdefault((task, group.sample), case_id)
        if other != case_id:
            raise SpecError(
                f"{side.label!r}: cases {other!r} and {case_id!r} are both sample {group.sample} "
                f"of task {task!r}: {NUMBER_SAMPLES}"
            )


def clusters_by_task(*sides: RunSide) -> dict[str, str]:
    """Give the clusters that any run names, by task; raises `SpecError` on a task in two.

    As `clusters_of` takes them.
    """
    found: dict[str, str] = {}
    for side in sides:
        for case_id, group in side.groups.items():
            if not group.cluster:
                continue
            task = side.task_of(case_id)
            named = f"cluster {group.cluster}"
            if found.setdefault(task, named) != named:
                raise SpecError(
                    f"task {task!r} is in {named!r} by case {case_id!r} of {side.label!r}, "
                    f"elsewhere in {found[task]!r}: give it one cluster"
                )
    return found


def scores_by_task(side: RunSide) -> dict[str, float]:
    """Give the mean score of each task over its scored cases; none of a task without one."""
    scores: dict[str, list[float]] = {}
    for case_id, judged in side.cases.items():
        if judged.score is not None:
            scores.setdefault(side.task_of(case_id), []).append(judged.score)
    # fsum: the mean of samples must not depend on the order they came in
    return {task: math.fsum(own) / len(own) for task, own in scores.items()}


def figures_of(side: RunSide) -> GroupedFigures | None:
    """Return a run's accuracy over tasks, its interval and its range; None without any case.

    Raises `SpecError` on a sample that is there twice and on a task in two clusters.
    """
    if not side.planned:
        return None
    check_samples(side)
    samples = [
        Sample(task=side.task_of(one), score=judged.score, correct=judged.correct)
        for one, judged in side.cases.items()
    ]
    samples += [Sample(task=task, score=None, correct=False) for task in _pending_tasks(side)]
    clusters = clusters_of((one.task for one in samples), clusters_by_task(side))
    return grouped_figures(samples, clusters=clusters)


def _pending_tasks(side: RunSide) -> list[str]:
    """Name the task of each case without a verdict; one of which nothing is known has its own."""
    known = [side.task_of(one) for one in side.groups if one not in side.cases][: side.pending]
    rest = side.pending - len(known)
    # what is longer than every name is none of them
    longest = max((*side.cases, *map(side.task_of, side.groups)), key=len, default="")
    return [*known, *(f"{longest} {place}" for place in range(rest))]
