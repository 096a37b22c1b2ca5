"""Calibration and perplexity: known values, the identities, refusals."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.errors import BadNumbers
from farm.stats.calibration import BrierTerms, CalibrationReport, calibrate
from farm.stats.perplexity import PerplexityResult, measure_perplexity
from tests.vectors.load import rows

KNOWN = [row for row in rows("statistics", "calibration") if "lower_closed" in row]
REFUSED = [row for row in rows("statistics", "calibration") if row.get("reject")]
PAIRS = st.lists(
    st.tuples(
        st.one_of(st.floats(0.0, 1.0), st.sampled_from([i / 10 for i in range(11)])), st.booleans()
    ),
    min_size=1,
    max_size=80,
)


@pytest.mark.parametrize("row", KNOWN, ids=lambda r: r["id"])
def test_calibration_has_the_known_values(row):
    """Exact rationals rounded once; bins closed below, the last one on both sides."""
    expected = row["lower_closed"]
    report = CalibrationReport.from_predictions(row["confidence"], row["correct"])
    assert report.ece == pytest.approx(expected["ece"], abs=1e-12)
    assert report.mce == pytest.approx(expected["mce"], abs=1e-12)
    assert report.brier == pytest.approx(expected["brier"], abs=1e-12)
    for term in BrierTerms.__struct_fields__:
        assert getattr(report.brier_terms, term) == pytest.approx(expected[term], abs=1e-12), term
    assert report.n_samples == len(row["confidence"])
    assert report.populated_bins == len(expected["bins"])
    for mine, theirs in zip(report.bins, expected["bins"], strict=True):
        assert (mine.index, mine.count) == (theirs["bin"], theirs["count"])
        assert mine.mean_confidence == pytest.approx(theirs["mean_conf"], abs=1e-12)
        assert mine.accuracy == pytest.approx(theirs["accuracy"], abs=1e-12)


@pytest.mark.parametrize("row", REFUSED, ids=lambda r: r["id"])
def test_impossible_predictions_are_refused(row):
    with pytest.raises(BadNumbers):
        CalibrationReport.from_predictions(row["confidence"], row["correct"])


def test_a_verdict_is_right_or_wrong():
    with pytest.raises(BadNumbers, match=r"0\.5 at index 1 must be 0 or 1"):
        CalibrationReport.from_predictions([0.9, 0.8], [1, 0.5])


@given(PAIRS)
def test_the_five_brier_terms_add_up(pairs):
    report = CalibrationReport.from_predictions(*zip(*pairs, strict=True))
    terms = report.brier_terms
    assert terms is not None
    total = terms.reliability - terms.resolution + terms.uncertainty
    total += terms.within_bin_variance - terms.within_bin_covariance
    assert report.brier == pytest.approx(total, abs=1e-12)


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_predictions_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    first = CalibrationReport.from_predictions(*zip(*pairs, strict=True))
    second = CalibrationReport.from_predictions(*zip(*shuffled, strict=True))
    for name in ("ece", "adaptive_ece", "null_ece", "brier"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-12), name


def test_no_predictions_are_undefined():
    report = CalibrationReport.from_predictions([], [])
    assert (report.ece, report.brier, report.n_samples, report.bins) == (None, None, 0, ())


def test_reports_leave_out_and_count_what_they_cannot_use():
    report = calibrate([0.9, None, 1.2, math.nan, 0.8], [True, True, False, False, True])
    assert (report.n_samples, report.excluded) == (2, 3)
    assert report.ece == pytest.approx(0.15, abs=1e-12)  # (0.1 + 0.2) / 2


def test_the_null_ece_of_one_case_is_twice_c_times_one_minus_c():
    """E|y - c| = c (1 - c) + (1 - c) c; for c = 0.9 that is 0.18."""
    report = CalibrationReport.from_predictions([0.9], [1])
    assert report.null_ece == pytest.approx(0.18, abs=1e-12)


def test_the_null_ece_is_what_calibrated_models_show_on_average():
    """2,000 simulated calibrated models of 100 and of 5,000 cases; their mean ECE within 2 %."""
    rng = np.random.default_rng(4)
    for n, runs in ((100, 2000), (5000, 200)):
        confidence = rng.random(n)
        simulated = [
            CalibrationReport.from_predictions(confidence, rng.random(n) < confidence).ece
            for _ in range(runs)
        ]
        report = CalibrationReport.from_predictions(confidence, np.ones(n))
        assert report.null_ece == pytest.approx(np.mean(np.array(simulated)), rel=0.03)


def test_equal_confidences_share_one_adaptive_bin():
    """All 0.8, half right: the gap is 0.3, not zero bins and 0."""
    report = CalibrationReport.from_predictions([0.8] * 20, [1, 0] * 10)
    assert report.adaptive_ece == pytest.approx(0.3, abs=1e-12)


def test_adaptive_bins_hold_equal_counts():
    """Twenty distinct confidences, two a bin: the mean of ten gaps, worked out plainly here."""
    confidence = [i / 20 for i in range(20)]
    right = [0, 1] * 10
    gaps = [abs((confidence[i] + confidence[i + 1]) / 2 - 0.5) for i in range(0, 20, 2)]
    report = CalibrationReport.from_predictions(confidence, right)
    assert report.adaptive_ece == pytest.approx(sum(gaps) / 10, abs=1e-12)


@pytest.mark.parametrize("row", rows("statistics", "perplexity"), ids=lambda r: r["id"])
def test_perplexity_has_the_known_value(row):
    """Weighted by tokens; never the mean of per-text perplexities."""
    sequences = row["nll_per_sequence"]
    result = PerplexityResult.from_token_nll(
        [math.fsum(sequence) for sequence in sequences], [len(sequence) for sequence in sequences]
    )
    expected = row["expected_token_weighted"]
    assert result.perplexity == (None if expected is None else pytest.approx(expected, rel=1e-12))
    assert result.total_tokens == sum(map(len, sequences))


def test_perplexity_without_tokens_or_beyond_floats_is_null_with_a_reason():
    assert PerplexityResult.from_token_nll([], []).reason == "no tokens"
    huge = PerplexityResult.from_token_nll([10_000.0], [1])
    assert (huge.perplexity, huge.avg_neg_log_likelihood) == (None, 10_000.0)
    assert "too large" in huge.reason


def test_token_figures_whose_sum_is_beyond_floats_still_have_an_average():
    """Each is finite, as records may say; the average is no more than the largest."""
    largest = sys.float_info.max
    for nll in ([1e308, 1e308], [largest] * 7):
        result = PerplexityResult.from_token_nll(nll, [1] * len(nll))
        assert result.avg_neg_log_likelihood == pytest.approx(nll[0], rel=1e-12)
        assert (result.perplexity, result.total_tokens) == (None, len(nll))
        assert "too large" in result.reason
    assert PerplexityResult.from_token_nll([1.0], [2**63 - 1]).perplexity == 1.0


@pytest.mark.parametrize(
    ("nll", "counts", "message"),
    [
        ([-0.1], [3], "finite and >= 0"),
        ([math.nan], [3], "finite and >= 0"),
        ([1.0], [-1], "whole number"),
        ([1.0], [1.5], "whole number"),
        ([1.0, 1.0], [1e308, 1e308], "2\\*\\*63 at most"),
        ([1.0, 2.0], [1], "differ"),
        ([1.0, 2.0], [0, 4], "no token"),
    ],
)
def test_token_figures_that_break_the_contract_are_refused(nll, counts, message):
    with pytest.raises(BadNumbers, match=message):
        PerplexityResult.from_token_nll(nll, counts)


def test_reports_leave_out_and_count_token_figures_they_cannot_use():
    """Only 2 ln 2 over two tokens is usable: perplexity 2, five left out."""
    result = measure_perplexity(
        [2 * math.log(2.0), None, -1.0, math.nan, 3.0, 1.0], [2, 3, 3, 3, None, 0]
    )
    assert result.perplexity == pytest.approx(2.0, abs=1e-12)
    assert (result.total_tokens, result.excluded) == (2, 5)
