"""Numbers computed independently of this code: exact rationals, 50-digit logarithms, bug reports.

The files under tests/vectors say for each value where it comes from.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from farm.errors import SpecError
from farm.scoring.code import extract_code
from farm.scoring.corpus import bleu_counts, corpus_bleu, published
from farm.scoring.letter import read_letter
from farm.scoring.number import read_number
from farm.scoring.passk import mean_pass_at_k, pass_at_k, pass_hat_k
from farm.scoring.score import score, score_many

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
METRICS: dict[str, Any] = json.loads((VECTORS / "metrics.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = json.loads((VECTORS / "scoring_cases.json").read_text("utf-8"))
REPLIES: list[dict[str, Any]] = json.loads((VECTORS / "extraction_replies.json").read_text("utf-8"))
TOLERANCE = 1e-12

# judged by the rooms that compute them: calibration, leaderboards, perplexity
ELSEWHERE = {"ece", "mean_win_rate", "mean", "perplexity"}


def named(rows: list[dict[str, Any]], key: str = "id") -> list[Any]:
    return [pytest.param(row, id=row[key]) for row in rows]


@pytest.mark.parametrize("row", named(METRICS["text_metrics"]))
def test_a_text_metric_meets_its_vector(row: dict[str, Any]) -> None:
    value = score(row["metric"], row["pred"], row["targets"])
    assert value == pytest.approx(row["expected"], abs=TOLERANCE)


def test_a_batch_scores_as_its_pairs_do() -> None:
    for metric in {row["metric"] for row in METRICS["text_metrics"]}:
        rows = [row for row in METRICS["text_metrics"] if row["metric"] == metric]
        batch = score_many(metric, [r["pred"] for r in rows], [r["targets"] for r in rows])
        assert batch == [score(metric, row["pred"], row["targets"]) for row in rows]


@pytest.mark.parametrize("row", named(CASES))
def test_a_case_other_tools_get_wrong_is_right_here(row: dict[str, Any]) -> None:
    targets = row["expected"] if isinstance(row["expected"], list) else [row["expected"]]
    value = score(row["metric"], row["response"], targets)
    assert value == pytest.approx(row["right"], abs=TOLERANCE)


@pytest.mark.parametrize(
    "row", named([r for r in METRICS["extraction_and_scoring"] if r["kind"] not in ELSEWHERE])
)
def test_a_published_bug_is_not_ours(row: dict[str, Any]) -> None:
    kind, given = row["kind"], row["input"]
    if kind == "last_number":
        numeral = read_number(given).numeral
        assert numeral is not None
        assert numeral.value == Fraction(row["right"])
        if "gold" in row:
            assert score("number", given, [str(row["gold"])]) == row["score"]
    elif kind == "letter":
        assert (read_letter(given).text or None) == row["right"]
    elif kind == "pass_at_k" and "problems" in given:
        tasks = [(given["samples_per_problem"], 1)] * given["solved"]
        tasks += [(given["samples_per_problem"], 0)] * (given["problems"] - given["solved"])
        assert mean_pass_at_k(tasks, given["k"]) is row["right"]
    elif kind == "pass_at_k":
        assert pass_at_k(**given) is row["right"]
    else:
        value = score(kind, given["pred"], [given["gold"]])
        assert value == pytest.approx(row["right"], abs=TOLERANCE)


@pytest.mark.parametrize("row", named(METRICS["pass_at_k"]))
def test_pass_at_k_meets_its_vector(row: dict[str, Any]) -> None:
    if "tasks" in row:
        value = mean_pass_at_k([(n, c) for n, c in row["tasks"]], row["k"])
        assert value == pytest.approx(row["expected"], abs=TOLERANCE)
        return
    if row["expected"] == "error":
        with pytest.raises(SpecError):
            pass_at_k(row["n"], row["c"], row["k"])
        return
    found = pass_at_k(row["n"], row["c"], row["k"])
    if row["expected"] is None:
        assert found is None
        assert pass_hat_k(row["n"], row["c"], row["k"]) is None
        return
    assert found == pytest.approx(row["expected"], rel=TOLERANCE, abs=TOLERANCE)
    hat = pass_hat_k(row["n"], row["c"], row["k"])
    assert hat == pytest.approx(row["pass_hat_k"], rel=1e-9, abs=TOLERANCE)


@pytest.mark.parametrize("row", named(METRICS["corpus_bleu"]))
def test_corpus_bleu_meets_its_vector(row: dict[str, Any]) -> None:
    counts = bleu_counts(row["preds"], row["targets"])
    assert list(counts.matches) == row["matches"]
    assert list(counts.totals) == row["totals"]
    assert (counts.prediction_length, counts.target_length) == (row["sys_len"], row["ref_len"])
    plain = corpus_bleu(row["preds"], row["targets"])
    smoothed = corpus_bleu(row["preds"], row["targets"], add_one=True)
    assert plain == pytest.approx(row["expected_unsmoothed"], abs=TOLERANCE)
    assert smoothed == pytest.approx(row["add_one_all_orders"], abs=TOLERANCE)
    bleu = next(found for found in published(row["preds"], row["targets"]))
    assert bleu.score == pytest.approx(row["sacrebleu_exp_smoothing"], abs=TOLERANCE)


# What was decided where a definition can be read in two ways (`ambiguities` of the vectors).
@pytest.mark.parametrize(
    ("metric", "prediction", "targets", "decided"),
    [
        pytest.param("f1", "", [""], 1.0, id="A1-equal"),
        pytest.param("f1", "!!!", ["???"], 0.0, id="A1-unequal"),
        pytest.param("rouge_l", " ! ", ["!"], 1.0, id="A1-equal-stripped"),
        pytest.param("bleu_4", "", [""], 0.0, id="A2"),
        pytest.param("bleu_4", "cat", ["dog"], 0.5**0.25, id="A3"),
        # one-target values: "a b" vs "a x" (2/3 * 1/2)^(1/4), vs "x b" the same; clipping
        # against both targets at once would find both words
        pytest.param("bleu_4", "a b", ["a x", "x b"], (1 / 3) ** 0.25, id="A5"),
        pytest.param("f1", "a", [], 0.0, id="A10"),
    ],
)
def test_an_open_reading_is_settled(
    metric: str, prediction: str, targets: list[str], decided: float
) -> None:
    assert score(metric, prediction, targets) == pytest.approx(decided, abs=TOLERANCE)


@pytest.mark.parametrize("row", named(REPLIES, "name"))
def test_the_program_is_taken_out_of_a_reply(row: dict[str, Any]) -> None:
    assert extract_code(row["raw_reply"]) == row["code"]
    assert extract_code(row["raw_reply"], entry_point=row["entry_point"]) == row["code"]
