"""What the comparisons of whole texts may overlook, and what not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.scoring.lenient import LENIENT
from farm.scoring.score import score
from farm.scoring.steps import normalised


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        ("The Beatles", "beatles"),
        ("the answer is a dog", "answer is dog"),
        ("**Paris**.", "paris"),
        ("\u201cParis\u201d", '"Paris"'),
        ("don\u2019t", "don't"),
        ("Stra\u00dfe", "STRASSE"),
        ("cafe\u0301", "caf\u00e9"),
        ("\ufb01ne", "fine"),
        ("\uff21\uff22", "ab"),
        ("\u2212.5", "-.5"),
        ("co\u00adop", "coop"),
        ("a\u200db", "ab"),
        ("  a   b ", "a b"),
        ("\u6771\u4eac\u3002", "\u6771\u4eac"),
        ("an 8", "8"),
        # marks and articles in any order and number
        ('the "Paris"', "Paris"),
        ("a **dog**", "dog"),
        ('"a (the dog)".', "dog"),
        ("the a dog", "dog"),
        ("* the\n* Paris", "the * paris"),
        ('yes, it is the "Paris"', 'yes, it is "paris'),
    ],
    ids=ascii,
)
def test_lenient_match_overlooks_how_it_was_typed(prediction: str, target: str) -> None:
    assert score("lenient_match", prediction, [target]) == 1.0


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        ("-5", "5"), ("\u22125", "5"), (".5", "5"), ("3.14", "314"), ("C#", "C"), ("C++", "C"),
        ("5%", "5"), ("$5", "5"), ("<5", "5"), ("plan A", "plan"), ("A or B", "or B"), ("A B", "B"),
        ("the", "a"), ("a", ""), ("?", "!"), ("?", ""), ("\u200b", ""), ("b a", "a b"),
        ("\U0001f44d", "\U0001f44e"), ("1,000", "1.000"), ("yes, no", "yes no"), ('"a"', '"the"'),
        ('the "a"', "the"), ('plan "A"', "plan"), ('the ".5"', "5"), ('"the"', ""),
    ],
    ids=ascii,
)  # fmt: skip
def test_lenient_match_keeps_what_carries_meaning(prediction: str, target: str) -> None:
    assert score("lenient_match", prediction, [target]) == 0.0
    assert score("lenient_match", target, [prediction]) == 0.0


@given(st.lists(st.sampled_from(["the", "a", "an", "or", "dog", "x", '"', "*", ".", ".5", " "])))
def test_lenient_match_leaves_nothing_more_to_drop(parts: list[str]) -> None:
    """A text and what is left of it are equal to the same answers."""
    left = normalised("".join(parts), LENIENT)
    assert normalised(left, LENIENT) == left


def test_marks_and_articles_of_100_kb_are_dropped_in_linear_time() -> None:
    """CPU time, generous for a busy machine: peeling one a pass would take minutes."""
    start = time.process_time()
    assert score("lenient_match", 'the "' * 20_000 + "dog", ["dog"]) == 1.0
    score("lenient_match", "the " + "(" * 100_000, ["dog"])
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("prediction", "target", "right"),
    [
        ("It is Paris, I think.", "paris", 1), ("Paris", "Paris, France", 0), ("party", "art", 0),
        ("711", "11", 0), ("3.5", "5", 0), ("5.3", "5", 0), ("1,000", "000", 0), ("is 5.", "5", 1),
        ("11th", "11", 0), ("snake_case", "case", 0), ("11, then 711", "11", 1),
        ("711 and 11", "11", 1), ("\u6211\u5728\u5317\u4eac\u5de5\u4f5c", "\u5317\u4eac", 1),
        ("new   york", "New York", 1), ("x", "", 0), ("", "", 0), ("x", " ", 0),
    ],
    ids=ascii,
)  # fmt: skip
def test_contains_looks_for_words_of_their_own(prediction: str, target: str, right: int) -> None:
    assert score("contains", prediction, [target]) == right


@pytest.mark.parametrize(
    ("prediction", "target", "em", "f1"),
    [
        ("The Cat.", "cat", 1, 1.0),
        ("A", "the", 0, 0.0),
        ("A.", "a", 1, 1.0),
        ("!!!", "???", 0, 0.0),
        ("", "", 1, 1.0),
        ("x", "", 0, 0.0),
        ("", "x", 0, 0.0),
        ("a cat sat", "the cat", 0, 2 / 3),
    ],
)
def test_squad_metrics_are_those_of_the_published_rules_but_for_emptied_answers(
    prediction: str, target: str, em: int, f1: float
) -> None:
    """F1 2/3: one of two words predicted, all of one wanted."""
    assert score("squad_em", prediction, [target]) == em
    assert score("squad_f1", prediction, [target]) == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize("tail", ["", " end"])
def test_contains_is_linear_in_texts_that_repeat(tail: str) -> None:
    """CPU time, generous for a busy machine: comparing at each place takes minutes."""
    start = time.process_time()
    assert score("contains", "a" * 200_000 + tail, ["a" * 100_000]) == 0.0
    assert score("contains", "ab" * 100_000 + " " + "a" * 50_000, ["a" * 50_000]) == 1.0
    assert score("contains", "a" * 100_000 + " " + "a" * 50_000 + tail, ["a" * 50_000]) == 1.0
    assert time.process_time() - start < 5


def test_a_combining_mark_belongs_to_its_word() -> None:
    assert score("contains", "cafe\u0301 noir", ["cafe"]) == 0.0
    assert score("contains", "e\u0301tat", ["tat"]) == 0.0
    assert score("contains", "cafe\u0301 noir", ["cafe\u0301"]) == 1.0


def test_a_trailing_nul_is_a_difference() -> None:
    for metric in ("exact_match", "accuracy", "normalized_match", "lenient_match", "squad_em"):
        assert score(metric, "a\x00", ["a"]) == 0.0
