"""The interval of a mean score: one rule chooses the method from the data.

0/1 scores get Wilson, other bounded scores Student's t, clustered scores a clustered standard
error. The rule looks at the scores alone, so two people with the same scores print the same
interval. Resampling is in `farm.stats.bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from farm.errors import BadNumbers
from farm.stats.arrays import Floats, Ints, Numbers, only_zero_and_one, shares
from farm.stats.intervals import Flag, Interval, check_level, undefined, wilson
from farm.stats.student import critical_t

SMALL_N = 10  # below this Student's t covers 92 % instead of 95 % on scores such as F1
FLAT = 1e-12  # a spread below this is rounding
FEW_CLUSTERS = 20  # below this a clustered standard error is itself poorly known


def mean_interval(
    scores: Numbers, *, clusters: Sequence[object] | None = None, level: float = 0.95
) -> Interval:
    """Return the interval of the mean of independent scores in [0, 1].

    All scores 0 or 1: Wilson (n >= 1). Otherwise Student's t clipped to [0, 1] (n >= 2, under
    10 flagged `small_n`). With `clusters`, a key per score: clustered standard errors and t with
    one degree of freedom less than clusters. No scores, or one graded score: undefined.
    """
    values = shares(scores, what="scores")
    check_level(level)
    if clusters is not None:
        return clustered_interval(values, clusters, level=level)
    if only_zero_and_one(values):
        return wilson(int(values.sum()), values.size, level)
    return student_interval(values, level=level)


def student_interval(scores: Floats, *, level: float = 0.95) -> Interval:
    """Return Student's t interval of the mean, clipped to [0, 1]."""
    n = scores.size
    if n < 2:
        reason = "no scored cases" if n == 0 else "one graded score has no spread to measure"
        return undefined(reason, level=level, n=n)
    flags: tuple[Flag, ...] = ("small_n",) if n < SMALL_N else ()
    error = standard_error(scores)
    return _clipped(
        float(scores.mean()), error, df=n - 1, method="student_t", level=level, flags=flags
    )


def standard_error(scores: Floats) -> float:
    """Return the standard error of the mean (n - 1 in the variance); exactly 0.0 if all equal."""
    # the mean of equal numbers can be off by one bit, which would look like spread
    if scores[0] == scores[-1] and scores.min() == scores.max():
        return 0.0
    return float(scores.std(ddof=1)) / math.sqrt(scores.size)


def clustered_error(scores: Floats, codes: Ints) -> float:
    """Return the clustered standard error of the mean, with the G / (G - 1) correction.

    `codes` gives each score's cluster as 0 .. G - 1. Source: E. Miller, "Adding error bars to
    evals" (2024), equation for clustered errors, times the usual small-G correction.
    """
    groups = int(codes.max()) + 1
    totals = np.bincount(codes, weights=scores - scores.mean(), minlength=groups)
    return math.sqrt(float(totals @ totals) * groups / (groups - 1)) / scores.size


def clustered_interval(
    scores: Floats, clusters: Sequence[object], *, level: float = 0.95
) -> Interval:
    """Return the t interval of the mean of scores that come in clusters, clipped to [0, 1].

    Under two clusters it is undefined; under twenty flagged `few_clusters`. When every score is
    0, or every score is 1, no spread can be seen and Wilson over the clusters stands in.
    """
    if len(clusters) != scores.size:
        raise BadNumbers(f"{scores.size} scores and {len(clusters)} cluster keys do not pair up")
    codes = cluster_codes(clusters)
    groups = int(codes.max()) + 1 if codes.size else 0
    if groups < 2:
        return undefined("clusters: at least two are needed", level=level, n=groups)
    flags: tuple[Flag, ...] = ("few_clusters",) if groups < FEW_CLUSTERS else ()
    if only_zero_and_one(scores) and scores.min() == scores.max():
        # equal cases of a cluster may be one fact seen many times: clusters are what is counted
        plain = wilson(groups * int(scores[0]), groups, level)
        return Interval(
            lo=plain.lo, hi=plain.hi, method="wilson_clusters", level=level, n=groups, flags=flags
        )
    error = clustered_error(scores, codes)
    return _clipped(
        float(scores.mean()), error, df=groups - 1, method="clustered_t", level=level, flags=flags
    )


def cluster_codes(
    clusters: Sequence[object],
) -> Ints:
    """Return the cluster keys as numbers 0, 1, ... in order of first appearance."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in clusters], dtype=np.int64)


def _clipped(
    mean: float, error: float, *, df: int, method: str, level: float, flags: tuple[Flag, ...]
) -> Interval:
    # shares of thirds are equal but for the last bit, and so are the sums of a cluster
    if error * math.sqrt(df + 1) <= FLAT:
        error, flags = 0.0, (*flags, "degenerate")
    half = critical_t(level, df) * error
    return Interval(
        lo=max(0.0, mean - half),
        hi=min(1.0, mean + half),
        method=method,
        level=level,
        n=df + 1,
        flags=flags,
    )
