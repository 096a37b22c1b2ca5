"""Percentile bootstrap of a mean, seeded, in bounded memory, exact where it can be.

Three ways to the same distribution, chosen by the data alone. Few distinct scores: a resample is
a multinomial draw over the values, exact and independent of n. Otherwise indices are drawn and
gathered in blocks, up to 10,000 scores. Beyond, scores are put into 32 bins and the
spread inside the bins, a sum of many small parts, is added as a normal draw: the replicates' mean
and variance stay exact, and with so many scores the shape differs by less than the Monte Carlo
noise of any affordable number of replicates.
"""

from __future__ import annotations

import math

import numpy as np

from farm.errors import BadNumbers
from farm.stats.arrays import Floats, Ints, Numbers, only_zero_and_one, same_length, shares
from farm.stats.intervals import Flag, Interval, check_level, undefined
from farm.stats.means import FLAT

RESAMPLES = 10_000
_DISTINCT = 256  # up to here the multinomial beats gathering
_GATHERED_UP_TO = 10_000
_BLOCK_DRAWS = 200_000  # stays in cache; a constant, so the stream never depends on memory
_BINS = 32


def bootstrap_mean_ci(
    scores: Numbers,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int | np.random.Generator = 0,
) -> Interval:
    """Return the percentile bootstrap interval of the mean of scores in [0, 1].

    `seed` is a number or a generator; the same seed and scores give the same bits. Under two
    scores it is undefined. Equal scores give a zero width, flagged `degenerate`: that is what
    resampling does, not certainty.
    """
    return percentile_interval(
        shares(scores, what="scores"), level=level, resamples=resamples, seed=seed
    )


def bootstrap_pairwise_diff(
    first: Numbers,
    second: Numbers,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int | np.random.Generator = 0,
) -> Interval:
    """Return the percentile bootstrap interval of mean(first) - mean(second), paired by place.

    Cases are resampled in pairs, so what both models find hard cancels out.
    """
    a, b = shares(first, what="first scores"), shares(second, what="second scores")
    same_length(a, b, what="paired scores")
    return percentile_interval(a - b, level=level, resamples=resamples, seed=seed)


def bootstrap_means(
    values: Floats,
    *,
    resamples: int,
    seed: int | np.random.Generator = 0,
    gathered_up_to: int = _GATHERED_UP_TO,
) -> Floats:
    """Return the means of `resamples` resamples of at least one value, each of full size.

    Every mean lies in [min, max] of the values. More than `gathered_up_to` values are binned
    (see the module); a leaderboard with many pairs lowers it.
    """
    rng = np.random.default_rng(seed)
    grouped = _distinct(values)
    if grouped is not None:
        levels, counts = grouped
        means = _multinomial_means(levels, counts, resamples=resamples, rng=rng)
    elif values.size <= gathered_up_to:
        means = _gathered_means(values, resamples=resamples, rng=rng)
    else:
        means = _binned_means(values, resamples=resamples, rng=rng)
    return np.clip(means, values.min(), values.max(), out=means)


def percentile_interval(
    values: Floats,
    *,
    level: float,
    resamples: int,
    seed: int | np.random.Generator,
    gathered_up_to: int = _GATHERED_UP_TO,
) -> Interval:
    """Return the percentile bootstrap interval of the mean of any finite values."""
    check_level(level)
    _check_draws(resamples, seed)
    if values.size < 2:
        reason = "no scored cases" if values.size == 0 else "one score cannot be resampled"
        return undefined(reason, level=level, n=values.size)
    flags: tuple[Flag, ...] = ()
    # under 20 replicates beyond each end, the end is mostly chance
    if resamples < 20.0 / (1.0 - level):
        flags = ("few_resamples",)
    if values.max() - values.min() <= FLAT:
        lo = hi = float(values[0])
        flags = (*flags, "degenerate")
    else:
        tail = (1.0 - level) / 2.0
        means = bootstrap_means(
            values, resamples=resamples, seed=seed, gathered_up_to=gathered_up_to
        )
        lo, hi = (float(end) for end in np.quantile(means, [tail, 1.0 - tail]))
    return Interval(
        lo=lo, hi=hi, method="bootstrap_percentile", level=level, n=values.size, flags=flags
    )


def _check_draws(resamples: object, seed: object) -> None:
    for name, value, least, example in (
        ("resamples", resamples, 1, RESAMPLES),
        ("seed", seed, 0, 7),
    ):
        if name == "seed" and isinstance(value, np.random.Generator):
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise BadNumbers(
                f"{name} {value!r} must be a whole number of at least {least}, such as {example}"
            )


def _distinct(values: Floats) -> tuple[Floats, Ints] | None:
    """Return distinct values in order of first appearance and their counts, if they are few.

    Order of appearance and not of size, so that reflected scores draw the same resamples.
    """
    if only_zero_and_one(values):
        ones = int(np.count_nonzero(values))
        pairs = [(1.0, ones), (0.0, values.size - ones)]
        if values[0] == 0.0:
            pairs.reverse()
        return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    # looking at a few first saves sorting a million distinct scores
    if values.size > 65_536 or np.unique(values[:4096]).size > _DISTINCT:
        return None
    levels, first, counts = np.unique(values, return_index=True, return_counts=True)
    if levels.size > min(_DISTINCT, values.size // 2):
        return None
    order = np.argsort(first)
    return levels[order], counts[order]


def _multinomial_means(
    levels: Floats,
    counts: Ints,
    *,
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    n = int(counts.sum())
    draws = rng.multinomial(n, counts / n, size=resamples)
    return np.asarray(draws @ levels / n, dtype=np.float64)


def _gathered_means(values: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    n = values.size
    rows = max(1, _BLOCK_DRAWS // n)
    rows += rows * n % 2  # an even number of 32-bit draws fills whole 64-bit words
    means = np.empty(resamples, dtype=np.float64)
    scaled = np.empty(rows * n, dtype=np.uint64)
    for start in range(0, resamples, rows):
        words = rng.integers(0, 2**64, size=rows * n // 2, dtype=np.uint64).view(np.uint32)
        # index = floor(word * n / 2^32): three times as fast as bounded integers, and no index
        # is more than n / 2^32 likelier than another
        np.multiply(words, np.uint64(n), out=scaled)
        np.right_shift(scaled, np.uint64(32), out=scaled)
        block = values.take(scaled.view(np.int64).reshape(rows, n)).mean(axis=1)
        means[start : start + rows] = block[: resamples - start]
    return means


def _binned_means(values: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    n, low, high = values.size, float(values.min()), float(values.max())
    codes = np.minimum((values - low) * (_BINS / (high - low)), _BINS - 1).astype(np.int64)
    counts = np.bincount(codes, minlength=_BINS)
    kept = counts > 0
    middles = np.bincount(codes, weights=values, minlength=_BINS)[kept] / counts[kept]
    total = float(values.var())
    between = float(counts[kept] / n @ (middles - float(values.mean())) ** 2)
    means = _multinomial_means(middles, counts[kept], resamples=resamples, rng=rng)
    lost = math.sqrt(max(0.0, total - between) / n)
    return means + rng.normal(0.0, lost, size=resamples) if lost > 0.0 else means
