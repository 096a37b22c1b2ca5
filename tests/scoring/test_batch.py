"""Judging a shard at once is judging each of its cases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from farm.core.case import ScoredInput, targets_of
from farm.scoring.batch import judge_cases
from farm.scoring.registry import Scorer, scorer
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
