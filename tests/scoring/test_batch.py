"""Judging a shard at once is judging each of its cases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from farm.core.case import ScoredInput, targets_of
from farm.scoring.batch import judge_cases
from farm.scoring.registry import BatchFunction, Scorer, scorer
from farm.scoring.score import case_judge

texts = st.one_of(
    st.sampled_from(
        ["", " ", "yes", "Yes ", "YES", "no", "ye s", "\u0130", "i\u0307", "A", "(A)", "12"]
    ),
    st.text(max_size=6),
)
filled = texts.filter(bool)
cases = st.builds(
    ScoredInput,
    id=st.just("a"),
    response=texts,
    expected=st.one_of(filled, st.just(UNSET)),
    targets=st.one_of(st.just(UNSET), st.lists(filled, min_size=1, max_size=2).map(tuple)),
).filter(targets_of)  # a record without any right answer is refused when it is read


@pytest.mark.parametrize("name", ["normalized_match", "exact_match", "f1", "letter", "number"])
@given(some=st.lists(cases, max_size=4))
def test_a_batch_is_judged_as_its_cases_are(name: str, some: list[ScoredInput]) -> None:
    metric = scorer(name)
    judge = case_judge(metric)
    one_by_one = [judge(case.id, case.response, targets_of(case)) for case in some]
    assert judge_cases(some, metric) == one_by_one


def test_a_batch_that_fails_loses_only_the_case_that_failed() -> None:
    def function(prediction: str, _targets: Sequence[str]) -> float:
        if prediction == "bad":
            raise OSError(prediction)
        return 1.0

    def many(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
        return list(map(function, predictions, targets))

    metric = Scorer(name="x", version="1", function=function, many=many)
    some = [ScoredInput(id=text, response=text, expected="y") for text in ("good", "bad")]
    assert [verdict.outcome for verdict in judge_cases(some, metric)] == ["correct", "unscorable"]


HALF = {"half": 0.5, "out": 7.0, "none": float("nan")}  # any other text is right


def half(prediction: str, _targets: Sequence[str]) -> float:
    return HALF.get(prediction, 1.0)


def half_many(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
    return list(map(half, predictions, targets))


def too_few(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
    return [1.0]


@pytest.mark.parametrize("many", [None, half_many, too_few], ids=["none", "equal", "too few"])
@pytest.mark.parametrize("less", [False, True], ids=["more", "less is better"])
def test_what_a_plugin_says_of_a_batch_changes_no_verdict(
    many: BatchFunction | None, less: bool
) -> None:
    """A plugin's scores may lie between 0 and 1, leave both, or be of the wrong number.

    The outcomes are those of a case by itself: a score in [0, 1] stands, one outside of it or
    none at all is unscorable.
    """
    metric = Scorer(name="x", version="1", function=half, many=many, higher_is_better=not less)
    some = [
        ScoredInput(id=text, response=text, expected="y")
        for text in ("half", "out", "none", "good")
    ]
    told = [(verdict.outcome, verdict.score) for verdict in judge_cases(some, metric)]
    unscorable = ("unscorable", 0.0)
    last = ("wrong" if less else "correct", 1.0)
    assert told == [("wrong", 0.5), unscorable, unscorable, last]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (Scorer(name="x", version="1", function=half), list(range(1, 1031))),
        (scorer("contains"), [*range(8, 1030, 8), 1030]),
        (scorer("exact_match"), [512, 1024, 1030]),
    ],
    ids=["plugin", "one by one", "at once"],
)
def test_a_slow_scorer_is_heard_of_case_by_case(metric: Scorer, words: list[int]) -> None:
    """A plugin may take its time over each case; what farm judges is told of in passing."""
    told: list[int] = []
    cases = [ScoredInput(id="a", response="y", expected="y")] * 1030
    assert len(judge_cases(cases, metric, on_case=told.append)) == 1030
    assert told == words
