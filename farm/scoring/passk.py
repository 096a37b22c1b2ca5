"""pass@k and pass^k: what k of n samples of a task would have shown.

With n samples of which c are right, pass@k is the chance that k drawn without putting back
hold a right one, 1 - C(n-c, k) / C(n, k); pass^k is the chance that all k are right,
C(c, k) / C(n, k). Both are unbiased; (c/n)^k is not. Where k is over n they are undefined,
and None: no n samples say anything about more than n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from farm.errors import SpecError


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return the chance that k of n samples, c of them right, hold a right one.

    None where k > n. Raises SpecError unless 0 <= c <= n, n >= 1 and k >= 1, all integers.
    """
    _check(n, c, k)
    if k > n:
        return None
    return 1.0 if n - c < k else -math.expm1(_log_none(n, c, k))


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Return the chance that k of n samples, c of them right, are all right.

    None where k > n. Raises SpecError as `pass_at_k` does.
    """
    _check(n, c, k)
    if k > n:
        return None
    return 0.0 if c < k else math.exp(_log_none(n, n - c, k))


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


def _check(n: int, c: int, k: int) -> None:
    for name, value in (("n", n), ("c", c), ("k", k)):
        # a boolean counts as an integer to Python, and is a task's verdict put in wrongly
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError(f"{name} is {value!r}; give a count of samples, an integer")
    if n < 1:
        raise SpecError(f"n is {n}; give the samples of one task, at least 1")
    if not 0 <= c <= n:
        raise SpecError(f"c is {c}; give how many of the {n} samples are right")
    if k < 1:
        raise SpecError(f"k is {k}; give a number of draws, at least 1")
