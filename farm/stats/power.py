"""What a comparison of this size could have seen.

All of it is of a single test, before Holm: among many pairs a difference must be larger. That
of exact McNemar is in `farm.stats.flips`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from farm.errors import BadNumbers
from farm.stats.intervals import normal_quantile
from farm.stats.student import critical_t

LEVEL = 0.95
POWER = 0.8

_HALVINGS = 40  # of a bracket of width one: twelve digits


class Detectable(Struct, frozen=True, kw_only=True):
    """The smallest true difference a test would show, or None and the reason why it shows none."""

    value: float | None
    reason: str = ""


def nothing_detectable(reason: str) -> Detectable:
    """Return that no difference could be shown, with its reason."""
    return Detectable(value=None, reason=reason)


def detectable_by_t(
    error: float, df: int, *, level: float = LEVEL, power: float = POWER
) -> Detectable:
    """Return the smallest mean difference a t test with this standard error shows with this power.

    The power is that of the noncentral t distribution. Scores lie in [0, 1]: where the difference
    would have to be above 1 there is none. Of the single test, before Holm.
    """
    _check(error, level=level, power=power)
    found = _noncentrality(df, level, power) * error
    if found > 1.0:
        return nothing_detectable("the differences vary too much for so few to show one up to 1")
    return Detectable(value=found)


def detectable_without_spread(
    units: int, *, level: float = LEVEL, power: float = POWER
) -> Detectable:
    """Return what the paired t would have shown where all differences were equal.

    There is no spread to go by, so those units that differ are taken to do so by a whole point,
    all one way: the value is the share of them. Equal differences are judged by the sign test, so
    under six units nothing can be shown at 0.05. Of the single test, before Holm.
    """
    _check(0.0, level=level, power=power)
    if units < 2 or math.ldexp(1.0, 1 - units) >= 1.0 - level:
        return nothing_detectable(too_few(units, level=level))
    # k of n units one point away give t = sqrt(k (n - 1) / (n - k))
    square = critical_t(level, units - 1) ** 2
    least = min(units, math.floor(square * units / (units - 1 + square)) + 1)
    return Detectable(value=share_that_reaches(least, units, power=power))


def too_few(units: int, *, level: float) -> str:
    """Return why so few units show nothing, however they differ."""
    return f"with n = {units} no difference reaches p < {1.0 - level:.3g}"


def share_that_reaches(least: int, n: int, *, power: float = POWER) -> float:
    """Return the smallest share p with P(X >= least) >= power for X binomial(n, p), least <= n."""
    log_choose = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(least)
    ]

    def enough(p: float) -> bool:
        log_p, log_q = math.log(p), math.log1p(-p)
        below = math.fsum(
            math.exp(c + k * log_p + (n - k) * log_q) for k, c in enumerate(log_choose)
        )
        return 1.0 - below >= power

    return smallest(enough, 0.0, 1.0)


def smallest(enough: Callable[[float], bool], lo: float, hi: float) -> float:
    """Return by bisection where `enough` turns true between `lo` and `hi`, from above."""
    for _ in range(_HALVINGS):
        middle = (lo + hi) / 2.0
        if enough(middle):
            hi = middle
        else:
            lo = middle
    return hi


@lru_cache(maxsize=1024)  # all pairs of a leaderboard mostly have one n
def _noncentrality(df: int, level: float, power: float) -> float:
    """Return the true mean in standard errors that a two-sided t test shows with this power.

    A noncentral t is (Z + d) / S with S^2 a chi-square over its degrees of freedom, so its tails
    are those of the normal distribution averaged over S: by the trapezoid rule over log S, which
    is exact to twelve digits here (tests hold it against scipy).
    """
    critical = critical_t(level, df)
    lo, hi = -(21.0 / df + 6.5 / math.sqrt(df)), min(6.5 / math.sqrt(df), 2.4)
    # fine enough for the width of S and for the edge where t is critical
    steps = math.ceil((hi - lo) / min(0.25 / critical, 0.35 / math.sqrt(2.0 * df)))
    logs = [lo + (hi - lo) * step / steps for step in range(steps + 1)]
    weights = [math.exp(df * (log + 0.5 - math.exp(2.0 * log) / 2.0)) for log in logs]
    whole = math.fsum(weights)
    edges = [critical * math.exp(log) / math.sqrt(2.0) for log in logs]

    def enough(mean: float) -> bool:
        shift = mean / math.sqrt(2.0)
        shown = math.fsum(
            weight * (math.erfc(edge - shift) + math.erfc(edge + shift))
            for edge, weight in zip(edges, weights, strict=True)
        )
        return shown / (2.0 * whole) >= power

    return smallest(enough, 0.0, 4.0 * (critical + 1.0 + abs(normal_quantile(power))))


def _check(sd: float, *, level: float, power: float) -> None:
    if not sd >= 0.0:
        raise BadNumbers(f"standard deviation {sd!r} must not be negative")
    if not (0.0 < level < 1.0 and 0.0 < power < 1.0):
        raise BadNumbers(f"level {level!r} and power {power!r} must lie between 0 and 1")
