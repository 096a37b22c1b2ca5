"""The definitions of the figures, against answers worked out by hand (serving_metrics.json)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.reading import Reading
from farm.core.served import Served
from farm.qualify.audit import Output, audit_outputs
from farm.qualify.metrics import (
    aggregate_rate,
    cache_verified,
    client_is_late,
    measure,
    nearest_rank,
    pooled_acceptance,
    server_decode_rate,
    server_interval_rate,
)
from farm.qualify.summary import range_of
from tests.vectors.load import rows


def vector(name: str):
    (found,) = rows("serving_metrics", "cases", id=name)
    return found["input"], found["expected"]


def test_percentiles_are_nearest_rank() -> None:
    """P1: the 95th of 1..10 is 10, the 90th is 9 and not 10."""
    values, expected = vector("P1_percentiles")
    for name, answer in expected["nearest_rank"].items():
        assert nearest_rank(values, int(name[1:])) == answer


def test_the_rank_is_exact_where_floating_point_is_not() -> None:
    """0.95 * 20 is 19.000000000000004 in floating point; the 95th of 1..20 is 19."""
    assert nearest_rank(range(1, 21), 95) == 19
    assert nearest_rank(range(1, 21), 50) == 10


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_with_enough_at_or_below_it(
    values: list[float], percent: int
) -> None:
    """The definition itself, counted."""
    found = nearest_rank(values, percent)
    assert found is not None
    assert sum(v <= found for v in values) * 100 >= percent * len(values)
    below = [v for v in values if v < found]
    assert len(below) * 100 < percent * len(values)


def test_three_repeats_have_a_median_and_no_tail() -> None:
    """P2: min, median, max and n; a 95th percentile of three numbers is not given."""
    values, expected = vector("P2_small_n")
    found = range_of(values)
    assert (found.n, found.min, found.median, found.max) == (
        expected["n"],
        expected["min"],
        expected["median"],
        expected["max"],
    )
    assert not hasattr(found, "p95")


def test_aggregate_is_all_tokens_over_the_wall_not_a_sum_of_rates() -> None:
    """P3: 200 tokens in 20 s are 10 a second, not 15."""
    requests, expected = vector("P3_aggregate")
    wall = max(one["end"] for one in requests) - min(one["start"] for one in requests)
    found = aggregate_rate([one["tokens"] for one in requests], wall)
    assert found == expected["aggregate_tokens_s"]


def test_acceptance_is_pooled_and_silence_is_counted_apart() -> None:
    """P4: 13 of 22, one request without drafts."""
    timings, expected = vector("P4_draft_pooling")
    rate, told, silent = pooled_acceptance(timings)
    assert rate == pytest.approx(expected["draft_acceptance"], abs=1e-6)
    assert (told, silent) == (expected["requests_with_drafts"], expected["requests_without"])


def test_the_cache_is_verified_by_evidence_alone() -> None:
    """P5: an absent count verifies nothing, 0 verifies cold, 95 % verify primed."""
    cases, expected = vector("P5_cache_evidence")
    found = [
        cache_verified(one["mode"], cached=one["cached_tokens"], prompt=one.get("prompt_tokens"))
        for one in cases
    ]
    assert found == expected["cache_verified"]


@pytest.mark.parametrize(("cached", "verified"), [(7783, True), (7782, False)])
def test_primed_begins_at_95_percent_of_the_prompt(cached: int, verified: bool) -> None:
    """0.95 * 8192 = 7782.4."""
    assert cache_verified("primed", cached=cached, prompt=8192) is verified


def test_two_tokens_are_one_interval() -> None:
    """P10: the server's clock starts after the first token: 1 interval in 25 ms is 40 a second."""
    timings, _ = vector("P10_llamacpp_two_tokens")
    assert server_interval_rate(timings) == pytest.approx(40.0)
    assert server_decode_rate(timings) is None  # the server stated no rate


@pytest.mark.parametrize(
    ("rate", "took_ms", "stated"),
    [(40.0, 50.0, 40.0), (40.0, None, 40.0), (0.0, 0.0, None), (0.0, 5.0, None), (1e14, 0.0, None)],
)
def test_a_rate_over_no_time_is_not_a_rate(
    rate: float, took_ms: float | None, stated: float | None
) -> None:
    """A server whose clock did not move states 0 or 1e14; both are null here."""
    timings = {"predicted_n": 2, "predicted_per_second": rate, "predicted_ms": took_ms}
    assert server_decode_rate(timings) == stated


def test_a_client_later_than_half_a_gap_measures_itself() -> None:
    """P11: 35 ms late at gaps of 10 ms."""
    given_, expected = vector("P11_client_lag")
    lag, gap = given_["loop_lag_p99_ms"] / 1000, given_["chunk_gap_p50_ms"] / 1000
    assert client_is_late(lag, gap) is not expected["measurement_valid"]
    assert not client_is_late(gap / 2, gap)


def test_nothing_served_is_a_rate_of_zero_and_no_time_at_all() -> None:
    """P12: no exception, no 0 ms."""
    _, expected = vector("P12_goodput_all_failed")
    assert aggregate_rate([], 10.0) == expected["throughput"]
    assert measure(Served(reading=Reading(status="error"))).ttft_any_s is expected["ttft"]


def test_one_unknown_count_makes_the_aggregate_unknown() -> None:
    """Leaving it out would be a lower rate than was served, presented as the rate."""
    assert aggregate_rate([5, None], 1.0) is None


def test_a_baseline_that_differs_from_itself_blames_nobody() -> None:
    """P9: the baseline says A, then B; the other says B twice."""
    texts, expected = vector("P9_exactness_attribution")
    outputs = [
        Output(config=config, request_id="r", pass_=number, text=text)
        for config, said in texts.items()
        for number, text in enumerate(said)
    ]
    found = audit_outputs(outputs, baseline="baseline")
    assert found.baseline_repeat.verdict == expected["verdict"]
    assert found.against_baseline[0].attributable is expected["attributable"]


@pytest.mark.parametrize(
    "timings", [None, {}, {"draft_n": "4"}, {"draft_n": True, "draft_n_accepted": 1}]
)
def test_what_is_not_told_or_not_a_count_is_none(timings) -> None:
    """A server may send anything."""
    assert pooled_acceptance([timings]) == (None, 0, 1)
    assert server_decode_rate(timings) is None
    assert server_interval_rate(timings) is None


def test_more_taken_than_drafted_is_no_acceptance() -> None:
    """A rate above one would stand beside real ones; such counters are as good as none."""
    odd, sound = {"draft_n": 2, "draft_n_accepted": 9}, {"draft_n": 4, "draft_n_accepted": 3}
    assert pooled_acceptance([odd, sound]) == (0.75, 1, 1)
