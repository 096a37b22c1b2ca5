"""Seeded simulations that pin why each method was chosen; a worse method fails them."""

from __future__ import annotations

import math

import numpy as np

from farm.stats.intervals import wilson
from farm.stats.means import clustered_interval, mean_interval
from farm.stats.paired import holm, mcnemar_exact


def binomial_coverage(n: int, p: float, interval) -> float:
    """The exact chance that interval(x) holds p: a sum over all n + 1 outcomes."""
    total = 0.0
    for x in range(n + 1):
        lo, hi = interval(x)
        if lo <= p <= hi:
            total += math.comb(n, x) * p**x * (1.0 - p) ** (n - x)
    return total


def test_wilson_covers_where_the_normal_interval_does_not():
    """Twenty cases at p = 0.95: exactly 92.5 % against 63.9 % for mean +- z SE."""

    def normal(x):
        share = x / 20
        half = 1.959963984540054 * math.sqrt(share * (1 - share) / 19)
        return share - half, share + half

    assert round(binomial_coverage(20, 0.95, lambda x: wilson(x, 20).bounds), 3) == 0.925
    assert round(binomial_coverage(20, 0.95, normal), 3) < 0.65


def test_wilson_covers_on_average_over_all_shares():
    shares = np.linspace(0.02, 0.98, 49)
    mean = np.mean([binomial_coverage(50, p, lambda x: wilson(x, 50).bounds) for p in shares])
    assert 0.945 <= mean <= 0.96


def test_students_t_covers_graded_scores_of_ten_tasks():
    """Scores such as F1: 30 % zeros, 25 % ones, the rest between; nominal 95 %, at least 93 %."""
    rng = np.random.default_rng(10)
    truth = 0.25 + 0.45 * 0.5
    held = 0
    for _ in range(2000):
        kind = rng.random(10)
        scores = np.where(kind < 0.3, 0.0, np.where(kind < 0.55, 1.0, rng.random(10)))
        lo, hi = mean_interval(scores).bounds
        held += lo <= truth <= hi
    assert 0.93 <= held / 2000 <= 0.98


def test_clustered_intervals_cover_where_plain_ones_do_not():
    """Fifty clusters of ten: a shared difficulty; ignoring it covers under 80 %."""
    rng = np.random.default_rng(11)
    keys = np.repeat(np.arange(50), 10)
    plain = clustered = 0
    for _ in range(500):
        shared = np.repeat(rng.beta(1.2, 1.2, 50), 10)
        scores = (rng.random(500) < shared).astype(float)
        lo, hi = mean_interval(scores).bounds
        plain += lo <= 0.5 <= hi
        lo, hi = clustered_interval(scores, keys.tolist()).bounds
        clustered += lo <= 0.5 <= hi
    assert plain / 500 < 0.8
    assert 0.92 <= clustered / 500 <= 0.98


def test_holm_keeps_equal_models_from_being_called_different():
    """Ten equal models, 200 tasks: some raw p < 0.05 on most boards, after Holm on few."""
    rng = np.random.default_rng(12)
    raw_boards = holm_boards = 0
    for _ in range(200):
        scores = rng.random((10, 200)) < 0.6
        p_values = [
            mcnemar_exact(int((scores[a] & ~scores[b]).sum()), int((scores[b] & ~scores[a]).sum()))
            for a in range(10)
            for b in range(a + 1, 10)
        ]
        raw_boards += min(p_values) < 0.05
        holm_boards += min(p for p in holm(p_values) if p is not None) < 0.05
    assert raw_boards / 200 > 0.4
    assert holm_boards / 200 <= 0.06
