"""pass@k and pass^k: what k of n samples of a task would have shown.

With n samples of which c are right, pass@k is the chance that k drawn without putting back
hold a right one, 1 - C(n-c, k) / C(n, k); pass^k is the chance that all k are right,
C(c, k) / C(n, k). Both are unbiased; (c/n)^k is not. Where k is over n they are undefined,
and None: no n samples say anything about more than n.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterable
from typing import SupportsIndex

from farm.errors import SpecError


def pass_at_k(n: SupportsIndex, c: SupportsIndex, k: SupportsIndex) -> float | None:
    """Return the chance that k of n samples, c of them right, hold a right one.

    None where k > n. Raises SpecError unless 0 <= c <= n, n >= 1 and k >= 1, all integers.
    """
    of, right, drawn = _checked(n, c, k)
    if drawn > of:
        return None
    return 1.0 if of - right < drawn else -math.expm1(_log_none(of, right, drawn))


def pass_hat_k(n: SupportsIndex, c: SupportsIndex, k: SupportsIndex) -> float | None:
    """Return the chance that k of n samples, c of them right, are all right.

    None where k > n. Raises SpecError as `pass_at_k` does.
    """
    of, right, drawn = _checked(n, c, k)
    if drawn > of:
        return None
    return 0.0 if right < drawn else math.exp(_log_none(of, of - right, drawn))


def mean_pass_at_k(tasks: Iterable[tuple[int, int]], k: int) -> float | None:
    """Return the mean pass@k over tasks, each given as its own (n, c).

    None if there is no task, or if it is undefined for any: leaving such tasks out would
    answer for other tasks than were asked.
    """
    values = [pass_at_k(n, c, k) for n, c in tasks]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _log_none(n: int, marked: int, k: int) -> float:
    """Return the log of the chance that k drawn of n hold none of the marked ones.

    C(n - m, k) / C(n, k) is a product over the smaller of m and k; in logarithms it keeps
    its last digits also when it is close to 1.
    """
    few, many = sorted((marked, k))
    return math.fsum(math.log1p(-many / (n - taken)) for taken in range(few))


def _checked(n: SupportsIndex, c: SupportsIndex, k: SupportsIndex) -> tuple[int, int, int]:
    of, right, drawn = _count("n", n), _count("c", c), _count("k", k)
    if of < 1:
        raise SpecError(f"n is {of}; give the samples of one task, at least 1")
    if not 0 <= right <= of:
        raise SpecError(f"c is {right}; give how many of the {of} samples are right")
    if drawn < 1:
        raise SpecError(f"k is {drawn}; give a number of draws, at least 1")
    return of, right, drawn


def _count(name: str, value: SupportsIndex) -> int:
    """Return a count as Python's own integer, whichever kind a table of counts holds."""
    # a boolean counts as an integer to Python, and is a task's verdict put in wrongly
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise SpecError(f"{name} is {value!r}; give a count of samples, an integer")
