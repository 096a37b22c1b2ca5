"""What exact McNemar could have seen: its power by binomial sums.

A pair of 0/1 scores that differ is a flip. The true difference is varied while flips stay as
frequent as they were; a difference larger than that is flips all one way. So where no flip was
seen, all are taken to go one way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from farm.errors import BadNumbers
from farm.stats.arrays import Floats, Ints
from farm.stats.intervals import normal_quantile
from farm.stats.power import (
    LEVEL,
    POWER,
    Detectable,
    nothing_detectable,
    share_that_reaches,
    smallest,
    too_few,
)

# Beyond this many flips sums take long, and the normal approximation is right to one in a thousand.
_SUMMED_UP_TO = 2_000
_MOST_FLIPS = 2_500  # ten standard deviations more


@lru_cache(maxsize=1024)  # pairs of a leaderboard often have the same counts
def detectable_by_mcnemar(
    flips: int, n: int, *, level: float = LEVEL, power: float = POWER
) -> Detectable:
    """Return the smallest difference of shares that exact McNemar shows with this power.

    `flips` of the `n` pairs differed. Up to 2,000 flips the power is exact: binomial sums over the
    number of flips and their direction. Beyond, the normal approximation with its continuity
    correction. None where no difference up to 1 is shown. Of the single test, before Holm.
    """
    if not 0 <= flips <= n:
        raise BadNumbers(f"{flips!r} flips among {n!r} pairs cannot be: give 0 <= flips <= n")
    least = _fewest_that_count(level)
    if n < least:
        return nothing_detectable(too_few(n, level=level))
    if flips > _SUMMED_UP_TO:
        return Detectable(value=_normal(flips / n, n, level=level, power=power))
    rate = flips / n
    shown = _power_at(rate, n, level=level) if flips else None
    if shown is None or shown(rate) < power:
        # all flips one way and still too few: more of them are needed, all one way
        return Detectable(value=share_that_reaches(least, n, power=power))
    return Detectable(value=smallest(lambda d: shown(d) >= power, 0.0, rate))


def _fewest_that_count(level: float) -> int:
    """Return how many flips, all one way, are significant: six at 0.05."""
    return 1 + next(k for k in range(1, 1100) if math.ldexp(1.0, -k) < 1.0 - level)


def _normal(rate: float, n: int, *, level: float, power: float) -> float:
    """Solve d = (z_a sqrt(rate) + z_b sqrt(rate - d^2)) / sqrt(n) + 1 / n.

    Source: R. J. Connor, Biometrics 43 (1987); 1 / n is the continuity correction.
    """
    alpha, beta = normal_quantile(0.5 + level / 2.0), normal_quantile(power)
    found = 0.0
    for _ in range(50):  # a contraction by about 1 / sqrt(n)
        spread = math.sqrt(max(0.0, rate - found * found))
        found = (alpha * math.sqrt(rate) + beta * spread) / math.sqrt(n) + 1.0 / n
    return min(rate, found)


def _power_at(rate: float, n: int, *, level: float) -> Callable[[float], float]:
    """Return the chance of p < 1 - level as a function of the difference, flips coming at `rate`.

    P(X <= edge) of X binomial(flips, p) is followed from one number of flips to the next: it loses
    p times its last term, and gains a term where the edge moves. What a number of flips changes
    counts for all larger ones, so each change is weighed by the chance of as many flips or more.
    """
    expected = n * rate
    most = min(n, _MOST_FLIPS, math.ceil(expected + 10.0 * math.sqrt(expected) + 20.0))
    edges, log_choose = (column[: most + 1] for column in _edges(level))
    as_many = np.cumsum(_binomial(most, n, rate)[::-1])[::-1]
    first = int(np.argmax(edges >= 0))  # fewer flips than this are never significant
    edges, log_choose, as_many = edges[first:], log_choose[first:], as_many[first:]
    others = np.arange(first, most + 1) - edges
    gained = as_many * (np.diff(edges, prepend=-1) > 0)
    lost = np.append(as_many[1:], 0.0)

    def tail(p: float) -> float:
        terms = np.exp(log_choose + edges * math.log(p) + others * math.log1p(-p))
        return float(gained @ terms - p * (lost @ terms))

    def shown(difference: float) -> float:
        down = 0.5 - difference / (2.0 * rate)  # the share of flips that go the rarer way
        if down <= 0.0:
            return float(as_many[0])
        return tail(down) + tail(1.0 - down)

    return shown


def _binomial(most: int, n: int, rate: float) -> Floats:
    """Return P(X = 0 .. most) for X binomial(n, rate)."""
    if rate >= 1.0:
        only = np.zeros(most + 1)
        only[-1] = 1.0
        return only
    k = np.arange(1, most + 1, dtype=np.float64)
    steps = np.log((n - k + 1.0) / k) + (math.log(rate) - math.log1p(-rate))
    start = n * math.log1p(-rate)
    return np.exp(np.concatenate(([start], start + np.cumsum(steps))))


@lru_cache(maxsize=8)
def _edges(level: float) -> tuple[Ints, Floats]:
    """Return for 0, 1, ... flips the largest rarer count with p < 1 - level, and log C(flips, it).

    The count is -1 where none is significant, and the logarithm of no use.
    """
    half = (1.0 - level) / 2.0
    edges = np.full(_MOST_FLIPS + 1, -1, dtype=np.int64)
    edge, tail, term = -1, 0.0, 0.0  # tail = P(X <= edge), term = P(X = edge), X binomial(n, 1/2)
    for n in range(1, _MOST_FLIPS + 1):
        if edge >= 0:
            tail -= term / 2.0
            term *= n / (2.0 * (n - edge))
        following = math.ldexp(1.0, -n) if edge < 0 else term * (n - edge) / (edge + 1)
        if tail + following < half:
            edge, tail, term = edge + 1, tail + following, following
        edges[n] = edge
    flips, inside = np.arange(_MOST_FLIPS + 1), np.maximum(edges, 0)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(flips[1:]))))
    return edges, factorials[flips] - factorials[inside] - factorials[flips - inside]
