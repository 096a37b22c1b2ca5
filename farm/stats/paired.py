"""Is one model better than another on the same cases? Paired tests, and Holm over many of them.

Every test here pairs by case. Whether two intervals overlap is never asked: that rule misses
most true differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from farm.errors import BadNumbers
from farm.stats.arrays import Floats
from farm.stats.intervals import Interval, check_level, normal_quantile, undefined
from farm.stats.means import FLAT, standard_error
from farm.stats.student import critical_t, two_sided_p


def mcnemar_exact(first_only: int, second_only: int) -> float:
    """Return the exact two-sided McNemar p-value.

    `first_only` counts cases only the first model got right, `second_only` the reverse; the rest
    says nothing about the difference. Twice the smaller binomial(1/2) tail, at most 1.
    """
    if first_only < 0 or second_only < 0:
        raise BadNumbers(f"counts {first_only!r} and {second_only!r} must not be negative")
    n, k = first_only + second_only, min(first_only, second_only)
    if 2 * k >= n:
        return 1.0
    return min(1.0, 2.0 * _half_tail(n, k))


def _half_tail(n: int, k: int) -> float:
    """Return P(X <= k) for X binomial(n, 1/2) with k < n / 2."""
    if n <= 1000:
        return float(sum(math.comb(n, i) for i in range(k + 1)) / (1 << n))
    # from the largest term down: whole numbers of thousands of digits would take seconds
    log_term = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2.0)
    total = term = 1.0
    for i in range(k, 0, -1):
        term *= i / (n - i + 1)
        total += term
        if term < 1e-17 * total:
            break
    return math.exp(log_term) * total


def discordant_interval(
    first_only: int, second_only: int, n: int, *, level: float = 0.95
) -> Interval:
    """Return the Bonett-Price interval of a difference of two paired shares.

    Wald with one case added to each discordant count, so that no discordance at all still leaves
    a width. Source: D. Bonett and R. Price, J. Educ. Behav. Stat. 37 (2012).
    """
    check_level(level)
    if n == 0:
        return undefined("no common cases", level=level)
    difference = (first_only - second_only) / (n + 2)
    half = normal_quantile(0.5 + level / 2.0) * discordant_sd(first_only, second_only, n)
    half /= math.sqrt(n + 2)
    return Interval(
        lo=max(-1.0, difference - half),
        hi=min(1.0, difference + half),
        method="bonett_price",
        level=level,
        n=n,
    )


def discordant_sd(first_only: int, second_only: int, n: int) -> float:
    """Return the standard deviation of paired 0/1 differences, a case added to each side."""
    p, q = (first_only + 1) / (n + 2), (second_only + 1) / (n + 2)
    return math.sqrt(p + q - (p - q) ** 2)


def paired_t(differences: Floats, *, level: float = 0.95) -> tuple[float | None, Interval]:
    """Return the p-value and interval of a mean difference, by the paired t test.

    Both undefined under two pairs. Equal differences have no spread to judge by: all zero gives
    p = 1 and (0, 0); all the same other value c gives (c, c) and the exact sign test's p.
    """
    if differences.size < 2:
        reason = "at least two common cases are needed"
        return None, undefined(reason, level=level, n=differences.size)
    return t_test(
        float(differences.mean()), standard_error(differences), differences.size, level=level
    )


def t_test(
    mean: float, error: float, n: int, *, method: str = "paired_t", level: float
) -> tuple[float, Interval]:
    """Return what `paired_t` does, from the mean, its standard error and n >= 2.

    `n` counts what is independent: where cases come in clusters, the clusters.
    """
    check_level(level)
    # differences such as 0.8 - 0.5 and 0.7 - 0.4 are equal but for the last bit
    if error * math.sqrt(n) <= FLAT:
        p = 1.0 if abs(mean) <= FLAT else math.ldexp(1.0, 1 - n)
        return p, Interval(lo=mean, hi=mean, method=method, level=level, n=n, flags=("degenerate",))
    half = critical_t(level, n - 1) * error
    interval = Interval(
        lo=max(-1.0, mean - half), hi=min(1.0, mean + half), method=method, level=level, n=n
    )
    return two_sided_p(mean / error, n - 1), interval


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values in the order given.

    The chance of even one false "better" among all pairs shown stays below the level. None stays
    None and does not count as a test.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, place) in enumerate(known):
        if not 0.0 <= p <= 1.0:
            raise BadNumbers(f"p-value {p!r} at index {place} is outside [0, 1]")
        running = max(running, min(1.0, (len(known) - rank) * p))
        adjusted[place] = running
    return adjusted
