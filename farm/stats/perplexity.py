"""Perplexity, weighted by tokens: exp of all negative log-likelihood over all tokens.

Never a mean of per-text perplexities, which lets one short odd text decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from farm.errors import BadNumbers
from farm.stats.arrays import Numbers, floats, same_length

_LARGEST_EXPONENT = 709.0  # exp of more is not a finite double
_MOST_TOKENS = 2.0**63  # what a record may say, so that a sum of them is a number


class PerplexityResult(Struct, frozen=True, kw_only=True):
    """Perplexity over `total_tokens` tokens; None with a reason when it is no finite number.

    `excluded` counts generations left out because their figures were missing or impossible.
    """

    perplexity: float | None
    avg_neg_log_likelihood: float | None
    total_tokens: int
    reason: str = ""
    excluded: int = 0

    @classmethod
    def from_token_nll(cls, neg_log_probs: Numbers, token_counts: Numbers) -> PerplexityResult:
        """Combine sequences: the summed NLL (natural log) and the token count of each.

        A negative or non-finite NLL, a count that is no whole number from 0 to 2**63, and an NLL
        over no tokens beside sequences that have some, break the contract: BadNumbers.
        """
        nll = floats(neg_log_probs, what="neg_log_probs")
        counts = floats(token_counts, what="token_counts")
        same_length(nll, counts, what="neg_log_probs and token_counts")
        _refuse(~((nll >= 0.0) & np.isfinite(nll)), nll, "neg_log_probs", "be finite and >= 0")
        whole = np.isfinite(counts) & (counts >= 0.0) & (counts == np.floor(counts))
        _refuse(~whole, counts, "token_counts", "be a whole number >= 0")
        _refuse(counts > _MOST_TOKENS, counts, "token_counts", "be 2**63 at most")
        tokens = int(counts.sum())
        if tokens == 0:
            return cls(
                perplexity=None, avg_neg_log_likelihood=None, total_tokens=0, reason="no tokens"
            )
        # it would be charged to the tokens of other sequences
        _refuse((counts == 0.0) & (nll > 0.0), nll, "neg_log_probs", "be 0 where there is no token")
        average = _average(nll.tolist(), tokens)
        if average > _LARGEST_EXPONENT:
            return cls(
                perplexity=None,
                avg_neg_log_likelihood=average,
                total_tokens=tokens,
                reason="too large for a floating-point number",
            )
        return cls(
            perplexity=math.exp(average), avg_neg_log_likelihood=average, total_tokens=tokens
        )


def measure_perplexity(
    token_nll: Sequence[float | None], token_counts: Sequence[int | None]
) -> PerplexityResult:
    """Combine generations as models gave them.

    One whose NLL or count is missing or breaks the contract is left out and counted: a report of
    a long run must not fail over one bad number of a server.
    """
    usable = [
        (nll, count)
        for nll, count in zip(token_nll, token_counts, strict=True)
        if nll is not None and count is not None and 0.0 <= nll < math.inf and count > 0
    ]
    result = PerplexityResult.from_token_nll(
        [nll for nll, _ in usable], [count for _, count in usable]
    )
    return replace(result, excluded=len(token_nll) - len(usable))


def _average(nll: Sequence[float], tokens: int) -> float:
    try:
        return math.fsum(nll) / tokens
    except OverflowError:  # the sum is no finite double, but the average is: at most the largest
        half = math.fsum(value / 2.0 / tokens for value in nll)
        return min(2.0 * half, max(nll))


def _refuse(
    bad: np.ndarray[tuple[int], np.dtype[np.bool_]],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    what: str,
    rule: str,
) -> None:
    places = np.flatnonzero(bad)
    if places.size:
        first = int(places[0])
        raise BadNumbers(f"{what}: value {float(values[first])!r} at index {first} must {rule}")
