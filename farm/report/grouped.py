"""The share and the mean of a run whose cases are no independent evidence, with their intervals.

Samples of one task are averaged first, so that each task weighs the same however often it was
sampled; tasks of one cluster get clustered standard errors. The same figures as those of the
leaderboard; apart from `farm.report.build` because it brings numpy along, which most runs can do
without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from farm.stats.intervals import Interval
from farm.stats.means import mean_interval


class Sample(Struct, frozen=True, kw_only=True, gc=False):
    """One case as these figures see it; `score` is None where it was not scored, or not yet."""

    task: str
    score: float | None
    correct: bool


class GroupedFigures(Struct, frozen=True, kw_only=True):
    """What a report says of a run by tasks; `lowest` and `highest` bound the share.

    The two means are None without a scored case.
    """

    accuracy: float | None
    accuracy_interval: Interval
    lowest: float
    highest: float
    mean: float | None
    mean_interval: Interval


def clusters_of(tasks: Iterable[str], named: Mapping[str, str]) -> dict[str, str] | None:
    """Give each task's cluster, None where none is named; `named` are those of tasks that do.

    A task that names no cluster is one of its own; the marks keep the two kinds apart.
    """
    if not named:
        return None
    return {task: named.get(task, f"task {task}") for task in tasks}


def grouped_figures(
    samples: Iterable[Sample], *, clusters: Mapping[str, str] | None
) -> GroupedFigures:
    """Return the figures of the samples, of which there is one at least, in any order.

    `clusters` gives every task's; None where no case names one.
    """
    tasks: dict[str, list[Sample]] = {}
    for sample in samples:
        tasks.setdefault(sample.task, []).append(sample)
    shares: list[float] = []
    means: list[float] = []
    keys: list[str] = []
    lowest: list[float] = []
    highest: list[float] = []
    for task, own in sorted(tasks.items()):
        scored = [one for one in own if one.score is not None]
        right = sum(one.correct for one in scored)
        lowest.append(right / len(own))
        highest.append((right + len(own) - len(scored)) / len(own))
        if scored:
            shares.append(right / len(scored))
            means.append(math.fsum(one.score or 0.0 for one in scored) / len(scored))
            keys.append("" if clusters is None else clusters[task])
    of_clusters = None if clusters is None else keys
    return GroupedFigures(
        accuracy=_share(shares) if shares else None,
        accuracy_interval=mean_interval(shares, clusters=of_clusters),
        lowest=_share(lowest),
        highest=_share(highest),
        mean=float(np.array(means).mean()) if means else None,
        mean_interval=mean_interval(means, clusters=of_clusters),
    )


def _share(values: list[float]) -> float:
    return math.fsum(values) / len(values)
