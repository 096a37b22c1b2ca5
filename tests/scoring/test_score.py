"""A case ends as one outcome, by one order of rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from farm.core.case import ScoredInput
from farm.core.result import CaseResult
from farm.errors import SpecError
from farm.scoring.batch import judge_cases
from farm.scoring.registry import Scorer, scorer
from farm.scoring.score import case_judge, is_correct, score, score_many


def outcome(metric: str, response: str, targets: Sequence[str], finish: str = "") -> str:
    return case_judge(scorer(metric))("x", response, targets, finish).outcome


@pytest.mark.parametrize(
    ("metric", "response", "targets", "finish", "expected"),
    [
        ("normalized_match", "Paris", ["paris"], "", "correct"),
        ("normalized_match", "Rome", ["paris"], "", "wrong"),
        ("normalized_match", " \n", ["paris"], "", "empty"),
        ("exact_match", "", [""], "", "correct"),
        ("exact_match", "x", [], "", "unscorable"),
        ("f1", "!!!", ["cat"], "", "wrong"),
        ("f1", "\U0001f44d", ["\U0001f44d"], "", "unscorable"),
        ("f1", "cat", ["\u2026", "cat"], "", "correct"),
        ("f1", "a cat", ["a dog"], "", "correct"),
        ("f1", "a cat sat", ["a dog"], "", "wrong"),
        ("bleu_4", "cat", [""], "", "unscorable"),
        ("rouge_l", "cat", ["!"], "", "unscorable"),
        ("squad_f1", "", [""], "", "correct"),
        ("contains", "x", [" "], "", "unscorable"),
        ("letter", "It depends.", ["A"], "", "unparsed"),
        ("letter", "Answer: A or B", ["A"], "", "unparsed"),
        ("letter", "Answer: B", ["A"], "", "wrong"),
        ("letter", "Answer: B", ["Paris"], "", "unscorable"),
        ("number", "no idea", ["4"], "", "unparsed"),
        ("number", "5", ["four"], "", "unscorable"),
        ("exact_match", "x", ["y"], "refused", "refused"),
        ("exact_match", "y", ["y"], "refused", "refused"),
        ("exact_match", "y", ["y"], "truncated", "correct"),
        ("exact_match", "x", ["y"], "truncated", "truncated"),
        ("exact_match", "", ["y"], "truncated", "truncated"),
        ("letter", "I think", ["A"], "truncated", "truncated"),
        ("f1", "x", ["!"], "refused", "unscorable"),
    ],
)
def test_a_case_ends_as(
    metric: str, response: str, targets: list[str], finish: str, expected: str
) -> None:
    assert outcome(metric, response, targets, finish) == expected


def test_a_reply_that_only_sounds_like_a_refusal_is_wrong() -> None:
    """`refused` comes from the adapter's finish reason alone."""
    assert outcome("exact_match", "I'm sorry, I can't help with that.", ["Paris"]) == "wrong"


def test_an_extraction_that_finds_nothing_is_unparsed_even_if_nothing_was_wanted() -> None:
    judge = case_judge(scorer("exact_match"), post_process_rule="extract_letter")
    assert judge("x", "dunno", [""]) == CaseResult(
        id="x", correct=False, score=0.0, outcome="unparsed"
    )
    assert judge("x", "Answer: A", ["A"]).outcome == "correct"


def test_half_right_is_correct_for_graded_metrics_only() -> None:
    graded = {"f1", "bleu_4", "rouge_l", "squad_f1"}
    for name in ("exact_match", "accuracy", "code_exec", "f1", "bleu_4", "rouge_l", "squad_f1",
                 "normalized_match", "lenient_match", "squad_em", "number", "letter",
                 "contains"):  # fmt: skip
        metric = scorer(name)
        assert is_correct(metric, 1.0)
        assert is_correct(metric, 0.5) == (name in graded)
        assert not is_correct(metric, 0.4999999)


def test_a_metric_of_which_less_is_better_is_turned_round() -> None:
    metric = Scorer(name="x", version="1", function=lambda _p, _t: 0.0, higher_is_better=False)
    assert is_correct(metric, 0.0)
    assert not is_correct(metric, 0.1)


class OwnError(Exception):
    """Of a plugin: no class of farm or of the standard library."""


def broken(answer: Any) -> Scorer:
    def function(prediction: str, targets: Sequence[str]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Scorer(name="broken", version="1", function=function)


@pytest.mark.parametrize(
    "answer",
    [ZeroDivisionError(), KeyError(), RecursionError(), ValueError(), OSError(), OwnError(), None,
     "x", float("nan"), 1.5, -0.1],
    ids=repr,
)  # fmt: skip
def test_a_scorer_that_fails_or_leaves_its_range_makes_the_case_unscorable(answer: object) -> None:
    assert case_judge(broken(answer))("x", "a", ["b"]) == CaseResult(
        id="x", correct=False, score=0.0, outcome="unscorable"
    )


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=repr)
def test_what_is_no_verdict_on_a_case_is_passed_on(error: BaseException) -> None:
    with pytest.raises(type(error)):
        case_judge(broken(error))("x", "a", ["b"])


def test_a_plugin_that_exits_loses_its_case_and_not_the_worker() -> None:
    """In its function and its questions, one by one and in a batch; an exit of ours passes."""

    def leaves(*_given: object) -> Any:
        raise SystemExit(3)

    plugin = Scorer(name="leaving", version="1", function=leaves)
    lost = CaseResult(id="x", correct=False, score=0.0, outcome="unscorable")
    asked = Scorer(name="leaving", version="1", function=lambda _p, _t: 0.0, reads=leaves)
    judged = Scorer(name="leaving", version="1", function=lambda _p, _t: 1.0, judges=leaves)
    for metric in (plugin, asked, judged):
        assert case_judge(metric)("x", "a", ["b"]) == lost
    cases = [ScoredInput(id="x", response="a", targets=("b",))]
    assert judge_cases(cases, replace(plugin, many=leaves)) == [lost]
    # a signal's handler may exit while a metric of farm's own is at work
    for own in (replace(plugin, name="f1"), replace(judged, name="f1"), replace(asked, name="f1")):
        with pytest.raises(SystemExit):
            case_judge(own)("x", "a", ["b"])
    with pytest.raises(SystemExit):
        judge_cases(cases, replace(plugin, name="f1", many=leaves))


@pytest.mark.parametrize("error", [OSError(), OwnError(), ValueError()], ids=repr)
def test_a_scorer_that_fails_to_judge_or_to_read_makes_the_case_unscorable(
    error: Exception,
) -> None:
    def fails(_text: str) -> bool:
        raise error

    for metric in (
        Scorer(name="x", version="1", function=lambda _p, _t: 0.0, judges=fails),
        Scorer(name="x", version="1", function=lambda _p, _t: 0.0, reads=fails),
    ):
        assert case_judge(metric)("x", "a", ["b"]).outcome == "unscorable"


def test_a_single_text_counts_as_a_list_of_one_target() -> None:
    """Taken as a sequence of letters, "a" would be a target of "abc"."""
    assert score("exact_match", "a", "abc") == 0.0
    assert score("f1", "abc", "abc") == 1.0
    assert score_many("exact_match", ["a", "abc"], ["abc", "abc"]) == [0.0, 1.0]
    assert score_many("f1", ["a", "abc"], ["abc", "abc"]) == [0.0, 1.0]


def test_a_batch_may_have_several_targets_or_none() -> None:
    targets = [["a", "b"], [], ["b"], ["a"]]
    assert score_many("exact_match", ["b", "b", "b", "b"], targets) == [1.0, 0.0, 1.0, 0.0]
    assert score_many("accuracy", [" b\n"], [["b"]]) == [1.0]
    assert score_many("rouge_l", [], []) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rouge", "a", ["a"]), "the metrics are exact_match, accuracy, f1"),
        (("", "a", ["a"]), "'' is not known"),
        ((None, "a", ["a"]), "the metric is None"),
        ((["f1"], "a", ["a"]), r"the metric is \['f1'\]"),
        (("f1", None, ["a"]), "the prediction is None"),
        (("normalized_match", 1, [1]), "the prediction is 1"),
        (("f1", "a", None), "the targets are None"),
        (("f1", "a", [None]), "a target is None"),
        (("exact_match", "a", [b"a"]), "a target is b'a'"),
        (("code_exec", "a", ["assert a"]), "cannot be computed from texts alone"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        score(*arguments)
    with pytest.raises(SpecError, match=message):
        score(*arguments)  # the second call takes the short way


def test_a_batch_names_bad_arguments_too() -> None:
    with pytest.raises(SpecError, match="2 predictions and 1 lists"):
        score_many("f1", ["a", "b"], [["a"]])
    with pytest.raises(SpecError, match="the prediction is None"):
        score_many("f1", ["a", None], [["a"], ["a"]])  # type: ignore[list-item]
    with pytest.raises(SpecError, match="a target is 3"):
        score_many("exact_match", ["a", "b"], [["a"], [3]])  # type: ignore[list-item]
