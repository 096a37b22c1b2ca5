"""What an interval is, and the one for shares of right answers.

Lean on purpose: no numpy, so that a report of recorded predictions needs none. Means of graded
scores are in `farm.stats.means`, resampled intervals in `farm.stats.bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from farm.errors import BadNumbers

Flag = Literal["small_n", "degenerate", "few_clusters", "few_resamples"]


class Interval(Struct, frozen=True, kw_only=True):
    """A two-sided confidence interval, or the reason why there is none.

    `lo` and `hi` are both numbers (then ``lo <= hi`` and `reason` is empty) or both None (then
    `reason` says why). `n` counts the independent units behind it: clusters, not cases, where
    cases are clustered. Flags: `small_n`, too few units to trust the method; `degenerate`, no
    spread in the data, so the width is not a measure of certainty; `few_clusters`, under 20;
    `few_resamples`, too few to place the ends.
    Unpacks as ``lo, hi = interval``.
    """

    lo: float | None
    hi: float | None
    method: str
    level: float
    n: int
    reason: str = ""
    flags: tuple[Flag, ...] = ()

    def __iter__(self) -> Iterator[float | None]:
        yield self.lo
        yield self.hi

    @property
    def bounds(self) -> tuple[float, float]:
        """The two ends as numbers, for code that knows there are some; else BadNumbers."""
        if self.lo is None or self.hi is None:
            raise BadNumbers(f"there is no interval: {self.reason}")
        return self.lo, self.hi

    @property
    def degenerate(self) -> bool:
        """True when the data had no spread."""
        return "degenerate" in self.flags

    @property
    def small_n(self) -> bool:
        """True when there are too few units to trust the method."""
        return "small_n" in self.flags


def undefined(reason: str, *, level: float = 0.95, n: int = 0) -> Interval:
    """Return the interval that does not exist, with its reason; null in JSON, never 0."""
    return Interval(lo=None, hi=None, method="none", level=level, n=n, reason=reason)


def check_level(level: float) -> None:
    """Refuse a confidence level outside the open interval (0, 1)."""
    if not 0.0 < level < 1.0:
        raise BadNumbers(f"confidence level {level!r} must lie between 0 and 1, such as 0.95")


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile of a probability in (0, 1); relative error 1e-15."""
    # here and not at the top: `statistics` loads fractions, decimal and random, a third of a
    # worker's start-up, and workers import this module through the report
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval for `successes` out of `n` independent yes/no cases.

    Inside [0, 1] and never of zero width, also at 0 and at `n` successes, where the end point is
    exactly 0.0 or 1.0. ``n == 0`` is undefined. Source: E. B. Wilson, JASA 22 (1927).
    """
    check_level(level)
    if not 0 <= successes <= n:
        raise BadNumbers(
            f"{successes!r} successes out of {n!r} cannot be: give 0 <= successes <= n"
        )
    if n == 0:
        return undefined("no scored cases", level=level)
    z = normal_quantile(0.5 + level / 2.0)
    share = successes / n
    spread = z * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    shrink = 1.0 + z * z / n
    middle = share + z * z / (2.0 * n)
    # at the ends the formula is exact in theory only: rounding leaves 1e-17 or 1 - 1e-16
    lo = 0.0 if successes == 0 else (middle - spread) / shrink
    hi = 1.0 if successes == n else (middle + spread) / shrink
    return Interval(lo=lo, hi=hi, method="wilson", level=level, n=n)
