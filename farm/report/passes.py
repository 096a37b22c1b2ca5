"""pass@k and pass^k over a model's tasks, where they were sampled more than once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from farm.scoring.passk import mean_pass_at_k, pass_hat_k
from farm.stats.evalrun import EvalRun


class Passes(Struct, frozen=True, kw_only=True):
    """What k samples of a task come to, averaged over `tasks` tasks.

    `pass_at_k`: at least one of them is right; `pass_hat_k`: all are.
    """

    k: int
    pass_at_k: float
    pass_hat_k: float
    tasks: int


def passes_of(runs: Sequence[EvalRun]) -> tuple[Passes, ...]:
    """Return the figures of one model for k of 1, 2, 4 and so on, and of all samples.

    Samples without a score are not counted. A k that some task has not as many samples for is
    left out: leaving out the task would answer for other tasks than were asked.
    """
    counts: dict[str, tuple[int, int]] = {}
    for run in runs:
        n, c = counts.get(run.task_id, (0, 0))
        if run.scored and run.correct is not None:
            n, c = n + 1, c + bool(run.correct)
        counts[run.task_id] = n, c
    most = min((n for n, _ in counts.values()), default=0)
    return tuple(_figures(list(counts.values()), k) for k in _sizes(most))


def _sizes(most: int) -> list[int]:
    powers = [1 << place for place in range(most.bit_length()) if 1 << place < most]
    return [*powers, most] if most else []


def _figures(counts: Sequence[tuple[int, int]], k: int) -> Passes:
    every = [pass_hat_k(n, c, k) or 0.0 for n, c in counts]
    return Passes(
        k=k,
        pass_at_k=mean_pass_at_k(counts, k) or 0.0,
        pass_hat_k=math.fsum(every) / len(counts),
        tasks=len(counts),
    )
