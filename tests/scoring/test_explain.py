"""An explanation names the span, the steps and the rule; that it agrees with the score is a law."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from farm.errors import SpecError
from farm.scoring import registry
from farm.scoring.explain import Explanation, explain
from farm.scoring.registry import Scorer


def steps(told: Explanation) -> list[tuple[str, str]]:
    return [(seen.step, seen.text) for seen in told.prediction_steps]


def test_each_step_of_a_comparison_is_shown() -> None:
    told = explain("squad_em", "The  Cat.", ["dog", "cat"])
    assert steps(told) == [
        ("lower case", "the  cat."),
        ("drop punctuation", "the  cat"),
        ("drop articles", "   cat"),
        ("collapse white space", "cat"),
    ]
    assert (told.best_target, told.rule) == (1, "target 2 is equal after the last step")
    assert (told.metric, told.version, told.score, told.outcome) == (
        "squad_em",
        "1",
        1.0,
        "correct",
    )


def test_the_span_a_metric_reads_is_shown_with_its_place() -> None:
    told = explain("number", "It is 1,000 in all", ["1e3"])
    assert told.read is not None
    assert (told.read.text, told.read.start, told.read.end) == ("1,000", 6, 11)
    assert steps(told) == [("number (last in the text)", "1,000"), ("exact value", "1000")]
    assert told.rule == "target 1 is the same number"
    letter = explain("letter", "Answer: (b)", ["B"])
    assert letter.read is not None
    assert (letter.read.text, letter.read.start) == ("B", 9)


def test_what_post_processing_took_is_shown() -> None:
    told = explain("exact_match", "The answer is B.", ["B"], post_process_rule="extract_letter")
    assert (told.extracted.text, told.extracted.start, told.extracted.rule) == (
        "B", 14, "behind 'answer'",
    )  # fmt: skip
    none = explain("exact_match", "dunno", ["B"], post_process_rule="extract_letter")
    assert none.rule == "nothing was extracted: no claim of a letter"
    assert none.outcome == "unparsed"


@pytest.mark.parametrize(
    ("metric", "prediction", "target", "rule"),
    [
        ("f1", "the cat sat", "the dog", "1 word shared, 3 predicted, 2 wanted"),
        ("rouge_l", "a c b", "a b c d", "2 words in the same order, 3 predicted, 4 wanted"),
        ("bleu_4", "a b c", "a b d", "n-grams shared 2/3, 1/2, 0/1, 0/0, 3 predicted, 3 wanted"),
    ],
)
def test_counts_behind_a_graded_score_are_shown(
    metric: str, prediction: str, target: str, rule: str
) -> None:
    assert explain(metric, prediction, [target]).rule == f"target 1: {rule}"


def test_a_zero_names_its_outcome() -> None:
    assert explain("exact_match", "a", ["b"]).rule == "no target gives a score (wrong)"


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        (explain("f1", "a", ["!"]), "no target is one that f1 can judge"),
        (explain("f1", "a", []), "there is no target"),
        (explain("f1", "", ["a"]), "the response is empty"),
        (explain("letter", "Answer: A or B", ["A"]), "nothing was read: two letters in one claim"),
        (explain("f1", "a b", ["c"], finish="refused", cause="x"), "refused: x"),
        (explain("f1", "b", ["c"], finish="truncated", cause="x"), "truncated: x"),
        (
            explain("f1", "a b", ["a c d"], finish="truncated", cause="x"),
            "target 1: 1 word shared, 2 predicted, 3 wanted; truncated: x",
        ),
    ],
)
def test_what_gives_no_score_is_told_by_its_cause(told: Explanation, rule: str) -> None:
    assert told.rule == rule


def test_a_metric_that_needs_the_sandbox_is_refused() -> None:
    with pytest.raises(SpecError, match="needs the sandbox"):
        explain("code_exec", "x", ["assert x"])


def test_a_value_of_thousands_of_digits_is_described_not_written() -> None:
    told = explain("number", "7^9999", ["7^9999"])
    assert told.score == 1.0
    assert told.prediction_steps[-1].text == "a number of 28071 bits"


def test_the_best_target_of_a_plugin_is_the_nearest_and_one_that_fails_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its function gives tenths of a distance here, and knows no numbers."""

    def distance(prediction: str, targets: Sequence[str]) -> float:
        return min(abs(int(prediction) - int(target)) / 10 for target in targets)

    less = Scorer(
        name="distance", version="1", function=distance, graded=True, higher_is_better=False
    )
    monkeypatch.setitem(registry._LOADED, "distance", less)
    told = explain("distance", "4", ["9", "5", "0"])
    assert (told.score, told.best_target, told.outcome) == (0.1, 1, "correct")
    assert explain("distance", "4", ["4"]).best_target == 0
    lost = explain("distance", "four", ["9"])
    assert (lost.best_target, lost.outcome) == (None, "unscorable")
