"""Who is ahead, by how much, and how sure that is: one row a model.

Means are over tasks, each task weighing the same however often it was sampled. Ranks compare
means; whether two neighbours really differ is for `farm.stats.pairwise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from farm.stats.arrays import Floats
from farm.stats.bootstrap import RESAMPLES, percentile_interval
from farm.stats.evalrun import ScoreTable, TrialRow, as_table
from farm.stats.intervals import Flag
from farm.stats.means import mean_interval

TIE = 1e-9  # scores closer than this are equal: sums of tenths differ in the last bit
_BLOCK = 4096  # tasks compared at a time, so that all models' scores stay in cache


class LeaderboardRow(Struct, frozen=True, kw_only=True):
    """One model's place.

    `rank`: competition rank (1, 1, 3). `mean_score`, `ci_lo`, `ci_hi`: the mean over tasks and
    its interval by `ci_method`. `mean_ci_lo`, `mean_ci_hi`: the seeded percentile bootstrap over
    tasks, `degenerate` when it has no width. `win_rate`: the share of the model's tasks on which
    no model scored higher. `mean_win_rate`: pairwise wins plus half the ties over the models met,
    averaged over tasks; None when none was met. `n_missing`: tasks of the board without a score;
    `complete` when there are none. `categories`: the mean in each, None where the model has none.
    """

    rank: int
    model_id: str
    mean_score: float | None
    ci_lo: float | None
    ci_hi: float | None
    ci_method: str
    ci_flags: tuple[Flag, ...] = ()
    ci_reason: str = ""
    mean_ci_lo: float | None
    mean_ci_hi: float | None
    degenerate: bool
    win_rate: float | None
    mean_win_rate: float | None
    tasks_completed: int
    n_missing: int
    complete: bool
    categories: dict[str, float | None]


def aggregate(
    runs: Iterable[TrialRow] | ScoreTable,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Mapping[str, str] | None = None,
) -> tuple[LeaderboardRow, ...]:
    """Return the leaderboard, best first; no models give no rows.

    An incomplete model stands below every complete one: its mean is over other tasks. Equal means
    share a rank and are listed by name. Every model is resampled from the same seed, so a row
    does not depend on who else is on the board (ranks and win rates apart).
    """
    table = as_table(runs, clusters=clusters)
    wins, mean_wins = win_rates(table.scores)
    rows = [
        _row(table, place, level=level, resamples=resamples, seed=seed,
             win_rate=wins[place], mean_win_rate=mean_wins[place])
        for place in range(len(table.model_ids))
    ]  # fmt: skip
    return _ranked(rows)


def win_rates(scores: Floats) -> tuple[list[float | None], list[float | None]]:
    """Return every model's `win_rate` and `mean_win_rate`; rows are models, NaN is missing."""
    models, tasks = scores.shape
    won = np.zeros(models)
    points = np.zeros(models)
    # the narrowest type that holds 2 * models: additions of bytes are eight times as fast
    narrow = np.int8 if models < 64 else np.int32
    met = np.zeros(models)  # tasks on which the model met another
    for start in range(0, tasks, _BLOCK):
        block = scores[:, start : start + _BLOCK]
        there = ~np.isnan(block)
        rivals = there.sum(axis=0) - 1
        best = np.where(there, block, -np.inf).max(axis=0)
        won += (block >= best - TIE).sum(axis=1)
        contested = rivals > 0
        share = 0.5 / np.where(contested, rivals, 1)
        for model in range(models):
            # NaN compares false both ways; a model against itself gives one point, taken off
            doubled = (block < block[model] + TIE).view(np.int8).sum(axis=0, dtype=narrow)
            doubled += (block < block[model] - TIE).view(np.int8).sum(axis=0, dtype=narrow)
            counts = there[model] & contested
            points[model] += float(((doubled - 1) * share)[counts].sum())
            met[model] += int(counts.sum())
    own = (~np.isnan(scores)).sum(axis=1)
    return (
        [float(w / n) if n else None for w, n in zip(won, own, strict=True)],
        [float(p / n) if n else None for p, n in zip(points, met, strict=True)],
    )


def _row(
    table: ScoreTable,
    place: int,
    *,
    level: float,
    resamples: int,
    seed: int,
    win_rate: float | None,
    mean_win_rate: float | None,
) -> LeaderboardRow:
    values, there = table.of_model(place)
    clusters = None if table.clusters is None else table.clusters[there].tolist()
    headline = mean_interval(values, clusters=clusters, level=level)
    resampled = percentile_interval(values, level=level, resamples=resamples, seed=seed)
    missing = int(there.size - values.size)
    return LeaderboardRow(
        rank=0,
        model_id=table.model_ids[place],
        mean_score=float(values.mean()) if values.size else None,
        ci_lo=headline.lo,
        ci_hi=headline.hi,
        ci_method=headline.method,
        ci_flags=headline.flags,
        ci_reason=headline.reason,
        mean_ci_lo=resampled.lo,
        mean_ci_hi=resampled.hi,
        degenerate=resampled.degenerate,
        win_rate=win_rate,
        mean_win_rate=mean_win_rate,
        tasks_completed=values.size,
        n_missing=missing,
        complete=missing == 0,
        categories=_category_means(table, place),
    )


def _category_means(table: ScoreTable, place: int) -> dict[str, float | None]:
    if table.categories is None:
        return {}
    values, there = table.of_model(place)
    codes = table.categories[there]
    width = len(table.category_names)
    sums = np.bincount(codes, weights=values, minlength=width)
    counts = np.bincount(codes, minlength=width)
    return {
        name: float(sums[code] / counts[code]) if counts[code] else None
        for code, name in enumerate(table.category_names)
    }


def _ranked(rows: list[LeaderboardRow]) -> tuple[LeaderboardRow, ...]:
    """Sort the rows and give competition ranks.

    A tie is measured from the first of its rank, so a chain of near-equal means cannot join two
    that differ.
    """

    def order(row: LeaderboardRow) -> tuple[bool, bool, float, str]:
        return (not row.complete, row.mean_score is None, -(row.mean_score or 0.0), row.model_id)

    ranked: list[LeaderboardRow] = []
    leader: LeaderboardRow | None = None
    for place, row in enumerate(sorted(rows, key=order), start=1):
        if leader is None or not _tied(leader, row):
            leader = replace(row, rank=place)
        ranked.append(replace(row, rank=leader.rank))
    # inside a rank the last bit of a mean must not decide who is listed first
    return tuple(sorted(ranked, key=lambda row: (row.rank, row.model_id)))


def _tied(leader: LeaderboardRow, row: LeaderboardRow) -> bool:
    if leader.complete != row.complete:
        return False
    if leader.mean_score is None or row.mean_score is None:
        return leader.mean_score is row.mean_score
    return leader.mean_score - row.mean_score <= TIE
