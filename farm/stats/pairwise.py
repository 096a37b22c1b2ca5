"""Every pair of models on the tasks both have: difference, test, and what could have been seen.

One rule chooses the test: clustered tasks get a clustered t, 0/1 scores exact McNemar with the
Bonett-Price interval, other scores the paired t with a paired bootstrap beside it. Where all
differences are equal a t test has nothing to go by, and the exact sign test stands in. Holm is
taken over all pairs given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from farm.stats.arrays import Floats, Ints, only_zero_and_one
from farm.stats.bootstrap import percentile_interval
from farm.stats.evalrun import ScoreTable, TrialRow, as_table
from farm.stats.flips import detectable_by_mcnemar
from farm.stats.intervals import Flag, Interval, undefined
from farm.stats.means import clustered_error, standard_error
from farm.stats.paired import discordant_interval, holm, mcnemar_exact, t_test
from farm.stats.power import (
    Detectable,
    detectable_by_t,
    detectable_without_spread,
    nothing_detectable,
)

# The bootstrap beside the paired t: enough to see a skewed difference, cheap for 190 pairs.
# Above a hundred thousand pairs it would repeat the t interval to three digits.
_PAIR_RESAMPLES = 1000
_PAIR_GATHERED_UP_TO = 2_000
_PAIR_BOOTSTRAP_UP_TO = 100_000


class PairwiseDiff(Struct, frozen=True, kw_only=True):
    """Model a against model b: ``diff_mean`` is mean(a) - mean(b) over `n` common tasks.

    `only_a`, `only_b`: tasks one has and the other lacks, left out. `test`, `p_value`, `p_holm`:
    the two-sided test and its p adjusted over all pairs; None with a `reason` when there is no
    test. `significant` after Holm; not significant means tied, which is not proof of equality:
    `detectable` is the smallest true difference the test would have shown with 80 % power, were
    it the only one: it is before Holm. None where no difference up to 1 would have been shown, for
    `detectable_reason`. `ci_flags`: `degenerate` when all differences are equal, so that the
    interval has no width, which is not certainty. `boot_ci_lo`, `boot_ci_hi`: the paired bootstrap
    where one was taken.
    """

    model_a: str
    model_b: str
    n: int
    only_a: int
    only_b: int
    diff_mean: float | None
    ci_lo: float | None
    ci_hi: float | None
    ci_method: str
    ci_flags: tuple[Flag, ...] = ()
    boot_ci_lo: float | None = None
    boot_ci_hi: float | None = None
    test: str
    p_value: float | None
    p_holm: float | None = None
    significant: bool = False
    detectable: float | None
    detectable_reason: str = ""
    reason: str = ""


class Verdict(Struct, frozen=True, kw_only=True):
    """What one paired test says, before anyone adjusts for the number of tests."""

    test: str
    p_value: float | None
    interval: Interval
    bootstrap: Interval | None
    detectable: Detectable


def pairwise_diffs(
    runs: Iterable[TrialRow] | ScoreTable,
    *,
    level: float = 0.95,
    seed: int = 0,
    clusters: Mapping[str, str] | None = None,
) -> tuple[PairwiseDiff, ...]:
    """Compare every pair of models once, in the order of the table (by name from trials)."""
    table = as_table(runs, clusters=clusters)
    models = range(len(table.model_ids))
    # asked once a model and not once a pair: both read every score
    missing = [~there.all() for there in (~np.isnan(row) for row in table.scores)]
    binary = [only_zero_and_one(table.of_model(model)[0]) for model in models]
    pairs = [
        _pair(
            table,
            a,
            b,
            whole=not (missing[a] or missing[b]),
            binary=binary[a] and binary[b],
            level=level,
            seed=seed,
        )
        for a in models
        for b in models[a + 1 :]
    ]
    adjusted = holm([pair.p_value for pair in pairs])
    return tuple(
        replace(pair, p_holm=p, significant=p is not None and p < 1.0 - level)
        for pair, p in zip(pairs, adjusted, strict=True)
    )


def compare_scores(
    first: Floats,
    second: Floats,
    *,
    clusters: Ints | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Verdict:
    """Test two checked score arrays that pair up by place; the rule of the module."""
    binary = only_zero_and_one(first) and only_zero_and_one(second)
    return _verdict(first - second, clusters=clusters, binary=binary, level=level, seed=seed)


def _verdict(
    difference: Floats, *, clusters: Ints | None, binary: bool, level: float, seed: int
) -> Verdict:
    if clusters is not None:
        return _clustered(difference, clusters, level=level)
    if binary and difference.size:
        return _mcnemar(difference, level=level)
    return _t(difference, level=level, seed=seed)


def _mcnemar(difference: Floats, *, level: float) -> Verdict:
    n = difference.size
    first_only = int(np.count_nonzero(difference > 0.5))
    second_only = int(np.count_nonzero(difference < -0.5))
    return Verdict(
        test="mcnemar_exact",
        p_value=mcnemar_exact(first_only, second_only),
        interval=discordant_interval(first_only, second_only, n, level=level),
        bootstrap=None,
        detectable=detectable_by_mcnemar(first_only + second_only, n, level=level),
    )


def _t(difference: Floats, *, level: float, seed: int) -> Verdict:
    n = difference.size
    if n < 2:
        return _no_test("at least two common cases are needed", level=level, n=n)
    resampled = None
    if n <= _PAIR_BOOTSTRAP_UP_TO:
        resampled = percentile_interval(
            difference,
            level=level,
            resamples=_PAIR_RESAMPLES,
            seed=seed,
            gathered_up_to=_PAIR_GATHERED_UP_TO,
        )
    mean, error = float(difference.mean()), standard_error(difference)
    return _by_t(mean, error, n, method="paired_t", level=level, bootstrap=resampled)


def _clustered(difference: Floats, clusters: Ints, *, level: float) -> Verdict:
    codes = np.unique(clusters, return_inverse=True)[1]
    groups = int(codes.max()) + 1 if codes.size else 0
    if groups < 2:
        return _no_test("fewer than two clusters", level=level, n=groups)
    mean, error = float(difference.mean()), clustered_error(difference, codes)
    return _by_t(mean, error, groups, method="clustered_t", level=level, bootstrap=None)


def _by_t(
    mean: float, error: float, n: int, *, method: str, level: float, bootstrap: Interval | None
) -> Verdict:
    """Judge a mean difference over n units that are independent: cases, or clusters of them."""
    p_value, interval = t_test(mean, error, n, method=method, level=level)
    flat = interval.degenerate
    return Verdict(
        test="sign_exact" if flat and p_value < 1.0 else method,
        p_value=p_value,
        interval=interval,
        bootstrap=bootstrap,
        detectable=detectable_without_spread(n, level=level)
        if flat
        else detectable_by_t(error, n - 1, level=level),
    )


def _no_test(reason: str, *, level: float, n: int) -> Verdict:
    return Verdict(
        test="none",
        p_value=None,
        interval=undefined(reason, level=level, n=n),
        bootstrap=None,
        detectable=nothing_detectable(reason),
    )


def _pair(
    table: ScoreTable, a: int, b: int, *, whole: bool, binary: bool, level: float, seed: int
) -> PairwiseDiff:
    first, second, clusters = table.scores[a], table.scores[b], table.clusters
    only_a = only_b = 0
    if not whole:
        there_a, there_b = ~np.isnan(first), ~np.isnan(second)
        common = there_a & there_b
        only_a, only_b = int((there_a & ~there_b).sum()), int((there_b & ~there_a).sum())
        first, second = first[common], second[common]
        clusters = None if clusters is None else clusters[common]
        binary = only_zero_and_one(first) and only_zero_and_one(second)
    difference = first - second
    verdict = _verdict(difference, clusters=clusters, binary=binary, level=level, seed=seed)
    resampled = verdict.bootstrap
    return PairwiseDiff(
        model_a=table.model_ids[a],
        model_b=table.model_ids[b],
        n=first.size,
        only_a=only_a,
        only_b=only_b,
        diff_mean=float(difference.mean()) if difference.size else None,
        ci_lo=verdict.interval.lo,
        ci_hi=verdict.interval.hi,
        ci_method=verdict.interval.method,
        ci_flags=verdict.interval.flags,
        boot_ci_lo=None if resampled is None else resampled.lo,
        boot_ci_hi=None if resampled is None else resampled.hi,
        test=verdict.test,
        p_value=verdict.p_value,
        detectable=verdict.detectable.value,
        detectable_reason=verdict.detectable.reason,
        reason=verdict.interval.reason,
    )
