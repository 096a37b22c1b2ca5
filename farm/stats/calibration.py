"""Does a model's confidence mean what it says? ECE, Brier score, reliability bins.

Bins are ten of equal width with edges i / 10, lower edge inside, the last bin closed on both
sides. The edges are divisions, not `linspace`, which puts 0.3, 0.6 and 0.7 (what models like to
say) one bin too low. ECE is biased upwards, so beside it stands the ECE a perfectly calibrated
model with these very confidences would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from farm.errors import BadNumbers
from farm.stats.arrays import Floats, Ints, Numbers, floats, only_zero_and_one, same_length, shares
from farm.stats.intervals import wilson

_EDGES = np.array([i / 10 for i in range(1, 10)])
_BINS = 10
_EXACT_BIN = 256  # larger bins: the normal approximation is good to four digits


class ReliabilityBin(Struct, frozen=True, kw_only=True):
    """The cases whose confidence fell into [lo, hi), and how many of them were right.

    `accuracy_lo` and `accuracy_hi` are Wilson's 95 % ends.
    """

    index: int
    lo: float
    hi: float
    count: int
    mean_confidence: float
    accuracy: float
    accuracy_lo: float
    accuracy_hi: float


class BrierTerms(Struct, frozen=True, kw_only=True):
    """The five terms of the Brier score over the ten bins.

    ``brier = reliability - resolution + uncertainty + within_bin_variance -
    within_bin_covariance`` exactly; the usual three terms alone do not add up when confidences
    differ inside a bin. Source: D. Stephenson et al., Weather and Forecasting 23 (2008).
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float


class CalibrationReport(Struct, frozen=True, kw_only=True):
    """Calibration of one model; every figure is None when no case could be used.

    `ece` and `mce`: mean (by count) and largest gap between confidence and accuracy over the
    populated bins. `null_ece`: what a perfectly calibrated model would show. `adaptive_ece`: over
    ten bins of equal count, equal confidences kept together. `excluded`: cases left out for a
    missing or impossible confidence. `bins` holds the populated bins only.
    """

    ece: float | None
    null_ece: float | None
    adaptive_ece: float | None
    mce: float | None
    brier: float | None
    brier_terms: BrierTerms | None
    populated_bins: int
    n_samples: int
    excluded: int
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def from_predictions(cls, confidences: Numbers, correct: Numbers) -> CalibrationReport:
        """Compute the report.

        BadNumbers on a confidence outside [0, 1], a verdict that is neither 0 nor 1, or lengths
        that differ.
        """
        return _measure(shares(confidences, what="confidences"), _verdicts(correct), excluded=0)


def calibrate(confidences: Sequence[float | None], correct: Sequence[bool]) -> CalibrationReport:
    """Compute the report of confidences as models gave them.

    A missing confidence, or one outside [0, 1], is left out and counted in `excluded`.
    """
    given = floats([math.nan if c is None else c for c in confidences], what="confidences")
    right = _verdicts(correct)
    same_length(given, right, what="confidences and correct")
    usable = (given >= 0.0) & (given <= 1.0)
    return _measure(given[usable], right[usable], excluded=int(usable.size - usable.sum()))


def _verdicts(correct: Numbers) -> Floats:
    right = floats(correct, what="correct")
    if not only_zero_and_one(right):
        odd = int(np.flatnonzero((right != 0.0) & (right != 1.0))[0])
        raise BadNumbers(f"correct: value {float(right[odd])!r} at index {odd} must be 0 or 1")
    return right


def _measure(confidence: Floats, right: Floats, *, excluded: int) -> CalibrationReport:
    same_length(confidence, right, what="confidences and correct")
    n = confidence.size
    if n == 0:
        return CalibrationReport(
            ece=None, null_ece=None, adaptive_ece=None, mce=None, brier=None, brier_terms=None,
            populated_bins=0, n_samples=0, excluded=excluded, bins=(),
        )  # fmt: skip
    codes = np.searchsorted(_EDGES, confidence, side="right")
    counts, mean_confidence, accuracy = _per_bin(codes, confidence, right)
    gaps = np.abs(mean_confidence - accuracy)
    filled = np.flatnonzero(counts)
    return CalibrationReport(
        ece=float(counts @ gaps) / n,
        null_ece=_null_ece(codes, confidence),
        adaptive_ece=_adaptive_ece(confidence, right),
        mce=float(gaps[filled].max()),
        brier=float(((confidence - right) ** 2).mean()),
        brier_terms=_brier_terms(codes, confidence, right),
        populated_bins=int(filled.size),
        n_samples=n,
        excluded=excluded,
        bins=tuple(
            _bin(int(i), int(counts[i]), float(mean_confidence[i]), float(accuracy[i]))
            for i in filled
        ),
    )


def _per_bin(codes: Ints, confidence: Floats, right: Floats) -> tuple[Ints, Floats, Floats]:
    """Return count, mean confidence and accuracy of every bin; zeros where a bin is empty."""
    counts = np.bincount(codes, minlength=_BINS)
    divisor = np.maximum(counts, 1)
    return (
        counts,
        np.bincount(codes, weights=confidence, minlength=_BINS) / divisor,
        np.bincount(codes, weights=right, minlength=_BINS) / divisor,
    )


def _bin(index: int, count: int, mean_confidence: float, accuracy: float) -> ReliabilityBin:
    lo, hi = wilson(round(accuracy * count), count).bounds
    return ReliabilityBin(
        index=index,
        lo=index / _BINS,
        hi=(index + 1) / _BINS,
        count=count,
        mean_confidence=mean_confidence,
        accuracy=accuracy,
        accuracy_lo=lo,
        accuracy_hi=hi,
    )


def _brier_terms(codes: Ints, confidence: Floats, right: Floats) -> BrierTerms:
    n = confidence.size
    counts, mean_confidence, accuracy = _per_bin(codes, confidence, right)
    base = float(right.mean())
    inner_confidence = confidence - mean_confidence[codes]
    inner_right = right - accuracy[codes]
    return BrierTerms(
        reliability=float(counts @ (mean_confidence - accuracy) ** 2) / n,
        resolution=float(counts @ (accuracy - base) ** 2) / n,
        uncertainty=base * (1.0 - base),
        within_bin_variance=float(inner_confidence @ inner_confidence) / n,
        within_bin_covariance=2.0 * float(inner_confidence @ inner_right) / n,
    )


def _adaptive_ece(confidence: Floats, right: Floats) -> float:
    """Return the ECE over ten bins of equal count; a tie goes whole to the bin it starts in."""
    n = confidence.size
    _, place, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)[:-1]])
    codes = (below * _BINS // n)[place]
    sizes, mean_confidence, accuracy = _per_bin(codes, confidence, right)
    return float(sizes @ np.abs(mean_confidence - accuracy)) / n


def _null_ece(codes: Ints, confidence: Floats) -> float:
    """Return the expected ECE if every case were right with exactly its confidence."""
    total = 0.0
    for index in range(_BINS):
        inside = confidence[codes == index]
        if inside.size > _EXACT_BIN:
            spread = math.sqrt(float((inside * (1.0 - inside)).sum()))
            total += spread * math.sqrt(2.0 / math.pi)
        elif inside.size:
            total += _expected_gap(inside)
    return total / confidence.size


def _expected_gap(chances: Floats) -> float:
    """Return E|K - sum(chances)| where K counts successes of independent trials; exact."""
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, [1.0 - chance, chance])
    return float(distribution @ np.abs(np.arange(distribution.size) - chances.sum()))
