"""What holds for every text: range, symmetry, identity, the best target, and no crash."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from farm.core.result import OUTCOMES
from farm.core.vocabulary import METRICS, POST_PROCESSES
from farm.scoring.code import read_code
from farm.scoring.explain import explain
from farm.scoring.letter import read_letter
from farm.scoring.match import normalized_match
from farm.scoring.number import read_number
from farm.scoring.numeral import numerals
from farm.scoring.postprocess import post_process
from farm.scoring.registry import scorer
from farm.scoring.score import case_judge, score
from farm.scoring.tokens import has_tokens, tokens

TEXT_METRICS = tuple(name for name in METRICS if not scorer(name).needs)
# the pieces that readers look for, so that random texts reach into them
PIECES = st.sampled_from(
    ["answer", "Answer: ", "is ", "A", "B", "(", ")", "**", "$", "\\boxed{", "}", "####", "1", "0",
     ",", ".", "/", "-", "−", "e3", "^", "%", "\\frac{1}{2}", "½", "{,}", " or ", "\n", "\r\n",
     "```", "~~~", "python", "def f():\n", "    return 1", ">>> ", "<think>", "</think>", "the ",
     "\ud800", "\x00", "\u200b", "İ", "ς", "Σ", "ﬁ", " "]
)  # fmt: skip
ANY_TEXT = st.text(st.characters(), max_size=60) | st.lists(PIECES, max_size=25).map("".join)
WORDY = st.lists(st.sampled_from(["a", "b", "the", "7", "é", "!"]), max_size=30).map(" ".join)
TEXTS = ANY_TEXT | WORDY


@pytest.mark.parametrize("metric", TEXT_METRICS)
@given(prediction=TEXTS, targets=st.lists(TEXTS, max_size=3))
@settings(max_examples=150, deadline=None)
def test_a_score_is_in_range_and_that_of_the_best_target(
    metric: str, prediction: str, targets: list[str]
) -> None:
    value = score(metric, prediction, targets)
    assert 0.0 <= value <= 1.0
    assert value == max((score(metric, prediction, [target]) for target in targets), default=0.0)


@pytest.mark.parametrize("metric", ["f1", "rouge_l", "squad_f1", "squad_em", "exact_match"])
@given(one=TEXTS, other=TEXTS)
@settings(max_examples=150, deadline=None)
def test_overlap_does_not_depend_on_which_text_is_the_target(
    metric: str, one: str, other: str
) -> None:
    assert score(metric, one, [other]) == score(metric, other, [one])


# bleu_4 is not here: no tokens give 0.0 by decision; nor are number and letter, which judge
# what a text claims, not the text
@pytest.mark.parametrize(
    "metric",
    ["exact_match", "accuracy", "f1", "rouge_l", "normalized_match", "lenient_match", "squad_em",
     "squad_f1"],
)  # fmt: skip
@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_a_text_is_fully_right_against_itself(metric: str, text: str) -> None:
    assert score(metric, text, [text]) == 1.0


@given(text=TEXTS)
def test_bleu_is_one_against_itself_exactly_where_there_are_tokens(text: str) -> None:
    assert score("bleu_4", text, [text]) == float(has_tokens(text))


@given(text=TEXTS)
@settings(max_examples=500)
def test_tokens_are_those_of_the_contract(text: str) -> None:
    """``re.findall(r"\\w+", text.lower())``; the short cut for ASCII must not show."""
    assert tokens(text) == re.findall(r"\w+", text.lower())
    assert has_tokens(text) == bool(tokens(text))


def test_no_character_gains_or_loses_its_token_in_lower_case() -> None:
    """`has_tokens` does not lower the text, which needs this of all of Unicode."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        assert has_tokens(character) == bool(tokens(character)), hex(code)


@given(one=TEXTS, other=TEXTS)
@example(one="ΑΣ Β", other="ας β")
@example(one="a\u00a0b", other="A B")
@example(one="stra\u00dfe", other="STRASSE")
@settings(max_examples=500)
def test_normalized_match_is_equality_in_lower_case_with_single_spaces(
    one: str, other: str
) -> None:
    expected = " ".join(one.lower().split()) == " ".join(other.lower().split())
    assert normalized_match(one, [other]) == float(expected)


@pytest.mark.parametrize("metric", TEXT_METRICS)
@given(
    response=TEXTS,
    targets=st.lists(TEXTS, max_size=2),
    rule=st.sampled_from(POST_PROCESSES),
    finish=st.sampled_from(["", "refused", "truncated"]),
)
@settings(max_examples=100, deadline=None)
def test_a_verdict_is_consistent_and_its_explanation_agrees(
    metric: str, response: str, targets: list[str], rule: str, finish: str
) -> None:
    result = case_judge(scorer(metric), post_process_rule=rule)("x", response, targets, finish)
    assert result.outcome in OUTCOMES
    assert result.correct == (result.outcome == "correct")
    told = explain(metric, response, targets, post_process_rule=rule, finish=finish)
    assert (told.score, told.correct, told.outcome) == (
        result.score, result.correct, result.outcome,
    )  # fmt: skip


@given(text=ANY_TEXT)
@settings(max_examples=500, deadline=None)
def test_an_extraction_tells_the_place_it_took_from(text: str) -> None:
    letter = read_letter(text)
    if letter.found:
        source = text[letter.start : letter.end]
        assert len(source) == 1
        wide = {chr(code + 0xFEE0): chr(code) for code in range(0x41, 0x7B)}
        assert wide.get(source, source).upper() == letter.text
    number = read_number(text).extracted
    assert number.text == text[number.start : number.end]
    program = read_code(text)
    assert 0 <= program.start <= program.end <= len(text)
    assert program.found == bool(program.text)
    for rule in POST_PROCESSES:
        taken = post_process(rule, text)
        assert 0 <= taken.start <= taken.end <= len(text)
        assert taken == post_process(rule, text)


@given(text=ANY_TEXT)
@example("0$0")
@settings(max_examples=300, deadline=None)
def test_numerals_come_in_order_and_do_not_overlap(text: str) -> None:
    end = 0
    for numeral in numerals(text):
        assert end <= numeral.start < numeral.end <= len(text)
        end = numeral.end
