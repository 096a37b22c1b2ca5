"""The envelope: its published shape, its figures, and that order and workers do not show."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.errors import BadNumbers
from farm.report.envelope import build_envelope, count_outcomes, failed, to_json
from farm.stats.evalrun import EvalRun
from farm.stats.intervals import wilson
from tests.report.trials import runs


@pytest.fixture(scope="module")
def printed():
    return json.loads(to_json(build_envelope(runs(), identity={"run_id": "x"}, wall_seconds=1.5)))


def test_the_published_fields_are_there(printed):
    """The contract of the envelope, field by field; more may stand beside."""
    assert {
        "leaderboard", "pairwise", "calibration", "perplexity", "summary", "outcomes",
        "signature", "identity",
    } <= printed.keys()  # fmt: skip
    assert "error" not in printed
    assert {
        "rank", "model_id", "mean_score", "ci_lo", "ci_hi", "ci_method", "mean_ci_lo",
        "mean_ci_hi", "win_rate", "mean_win_rate", "tasks_completed", "n_missing", "categories",
    } <= printed["leaderboard"][0].keys()  # fmt: skip
    assert {
        "model_a", "model_b", "n", "diff_mean", "ci_lo", "ci_hi", "test", "p_value", "p_holm",
        "significant", "detectable",
    } <= printed["pairwise"][0].keys()  # fmt: skip
    assert {
        "ece", "null_ece", "adaptive_ece", "brier", "brier_terms", "populated_bins", "n_samples",
        "excluded", "bins",
    } <= printed["calibration"]["alpha"].keys()  # fmt: skip
    assert {"perplexity", "avg_neg_log_likelihood", "total_tokens"} <= (
        printed["perplexity"]["alpha"].keys()
    )
    assert printed["summary"] == {"tasks": 12, "models": 3, "task_runs": 36, "wall_seconds": 1.5}
    assert printed["identity"] == {"run_id": "x"}


def test_the_board_and_the_outcomes_are_those_of_the_trials(printed):
    """alpha 11 of 12; gamma 6 of 12; beta has 6 of 11 and an error, so it stands last."""
    assert [(row["rank"], row["model_id"][:5]) for row in printed["leaderboard"]] == [
        (1, "alpha"), (2, "gamma"), (3, "beta|"),
    ]  # fmt: skip
    beta = next(model for model in printed["outcomes"] if model.startswith("beta"))
    assert printed["outcomes"][beta] == {
        "correct": 6, "wrong": 3, "empty": 1, "unparsed": 1, "refused": 0, "truncated": 0,
        "timeout": 0, "error": 1, "unscorable": 0,
    }  # fmt: skip
    assert printed["calibration"][beta]["n_samples"] == 11


def test_accuracy_is_over_scored_trials_with_the_range_of_the_rest(printed):
    """beta: 6 of 11 scored; 6 / 12 were the error wrong, 7 / 12 were it right."""
    (beta,) = (v for model, v in printed["accuracy"].items() if model.startswith("beta"))
    assert (beta["correct"], beta["scored"], beta["not_scored"]) == (6, 11, 1)
    assert beta["accuracy"] == pytest.approx(6 / 11)
    assert (beta["ci_lo"], beta["ci_hi"]) == pytest.approx(wilson(6, 11).bounds)
    assert (beta["range_lo"], beta["range_hi"]) == (0.5, pytest.approx(7 / 12))


def test_accuracy_lies_in_its_interval_however_often_tasks_were_asked():
    """100 right samples of one task and one wrong one of each of four: 1 of 5, not 100 of 104."""
    rows = [
        EvalRun(model_id="m", task_id="A", sample=place, score=1.0, correct=True)
        for place in range(100)
    ]
    rows += [EvalRun(model_id="m", task_id=task, score=0.0, correct=False) for task in "BCDE"]
    found = build_envelope(rows).accuracy["m"]
    assert (found.accuracy, found.correct, found.scored) == (0.2, 100, 104)
    assert (found.ci_lo, found.ci_hi) == wilson(1, 5).bounds
    assert (found.range_lo, found.range_hi) == (0.2, 0.2)
    # two more without a score: one of two samples of B, and all of F
    rows.append(EvalRun(model_id="m", task_id="B", sample=1, score=None))
    rows.append(EvalRun(model_id="m", task_id="F", score=None))
    wider = build_envelope(rows).accuracy["m"]
    assert (wider.accuracy, wider.not_scored) == (0.2, 2)
    assert wider.range_lo == pytest.approx(1 / 6)
    assert wider.range_hi == pytest.approx(2.5 / 6)


@given(st.lists(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4), min_size=1))
@settings(max_examples=50, deadline=None)
def test_the_range_of_an_accuracy_holds_the_accuracy_and_so_does_its_interval(tasks):
    rows = [
        EvalRun(
            model_id="m",
            task_id=f"t{task:02}",
            sample=sample,
            score=None if right is None else float(right),
            correct=right,
        )
        for task, own in enumerate(tasks)
        for sample, right in enumerate(own)
    ]
    found = build_envelope(rows, resamples=500).accuracy["m"]
    assert found.range_lo is not None
    assert found.range_hi is not None
    assert found.range_lo <= found.range_hi
    if found.accuracy is not None:
        assert found.range_lo - 1e-12 <= found.accuracy <= found.range_hi + 1e-12
        if found.ci_lo is not None and found.ci_hi is not None:
            assert found.ci_lo - 1e-12 <= found.accuracy <= found.ci_hi + 1e-12


def test_perplexity_uses_the_trials_that_have_token_figures(printed):
    """alpha: 11 correct trials of 2.0 nats over 4 tokens each: exp(0.5)."""
    assert printed["perplexity"]["alpha"]["total_tokens"] == 44
    assert printed["perplexity"]["alpha"]["perplexity"] == pytest.approx(1.6487212707001282)


def test_the_signature_says_how_each_mean_was_made(printed):
    assert printed["signature"]["lines"]["alpha"] == (
        "metric:exact_match@1|post:first_line|n:12|missing:0|ci:wilson|level:0.95|seed:0"
    )


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_the_bytes_do_not_depend_on_the_order_of_the_trials(seed):
    """Workers finish in any order; the report may not show it."""
    shuffled = runs()
    random.Random(seed).shuffle(shuffled)
    assert to_json(build_envelope(shuffled, resamples=500)) == (
        to_json(build_envelope(runs(), resamples=500))
    )


def test_no_trials_give_an_empty_report_and_no_error():
    printed = json.loads(to_json(build_envelope([])))
    assert printed["leaderboard"] == []
    assert printed["summary"] == {"tasks": 0, "models": 0, "task_runs": 0, "wall_seconds": None}


def test_a_model_that_only_failed_is_reported_with_nulls():
    lost = [EvalRun(model_id="A", task_id="t", score=None, outcome="timeout")]
    printed = json.loads(to_json(build_envelope(lost)))
    assert printed["accuracy"]["A"]["accuracy"] is None
    assert printed["accuracy"]["A"]["range_hi"] == 1.0
    assert printed["calibration"]["A"]["ece"] is None


def test_the_json_holds_no_number_that_is_not_one():
    """Strict JSON: NaN and Infinity would be refused by the reader on the other side."""
    odd = replace(runs()[0], token_nll=float("nan"), token_count=3, confidence=float("inf"))

    def refuse(word: str) -> float:
        raise AssertionError(word)

    printed = json.loads(to_json(build_envelope([odd])), parse_constant=refuse)
    assert printed["calibration"]["alpha"]["excluded"] == 1
    assert printed["perplexity"]["alpha"]["excluded"] == 1


def test_a_failure_is_a_code_and_a_sentence():
    printed = json.loads(to_json(failed(None, code="ranking", detail="noisy is not below")))
    assert printed["error"] == {"code": "ranking", "detail": "noisy is not below"}


def test_outcomes_that_no_one_knows_are_counted_at_the_end():
    one = replace(runs()[0], outcome="melted")
    assert list(count_outcomes([one]))[-1] == "melted"


def test_rows_that_break_the_contract_are_refused_by_name():
    with pytest.raises(BadNumbers, match="there twice"):
        build_envelope([*runs(), runs()[0]])
