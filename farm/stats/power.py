"""What a comparison of this size could have seen, and how many cases another would need."""

from __future__ import annotations

import math

from farm.errors import BadNumbers
from farm.stats.intervals import normal_quantile

LEVEL = 0.95
POWER = 0.8


def detectable_difference(
    sd: float, n: int, *, level: float = LEVEL, power: float = POWER
) -> float | None:
    """Return the smallest true mean difference that n pairs would show with this power.

    `sd` is the standard deviation of the paired differences. None when there are no pairs or no
    spread was seen: a difference of zero is never "detectable". Normal approximation.
    """
    _check(sd, level=level, power=power)
    if n < 1 or sd == 0.0:
        return None
    return _sum_of_quantiles(level, power) * sd / math.sqrt(n)


def cases_needed(
    difference: float, sd: float, *, level: float = LEVEL, power: float = POWER
) -> int:
    """Return how many pairs show a true mean difference of this size with this power."""
    _check(sd, level=level, power=power)
    if not difference > 0.0:
        raise BadNumbers(f"difference {difference!r} must be positive: zero can never be shown")
    return max(2, math.ceil((_sum_of_quantiles(level, power) * sd / difference) ** 2))


def _sum_of_quantiles(level: float, power: float) -> float:
    return normal_quantile(0.5 + level / 2.0) + normal_quantile(power)


def _check(sd: float, *, level: float, power: float) -> None:
    if not sd >= 0.0:
        raise BadNumbers(f"standard deviation {sd!r} must not be negative")
    if not (0.0 < level < 1.0 and 0.0 < power < 1.0):
        raise BadNumbers(f"level {level!r} and power {power!r} must lie between 0 and 1")
