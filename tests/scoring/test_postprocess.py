"""Each post-process has one behaviour, and says what it took from where."""

from __future__ import annotations

import pytest

from farm.core.vocabulary import POST_PROCESSES
from farm.errors import SpecError
from farm.scoring import postprocess
from farm.scoring.postprocess import post_process


@pytest.mark.parametrize(
    ("rule", "text", "taken", "start", "end"),
    [
        ("none", " A\n", " A\n", 0, 3),
        ("strip_whitespace", " \tA b\r\n", "A b", 2, 5),
        ("strip_whitespace", "  ", "", 0, 0),
        ("lower", " Aß", " aß", 0, 3),
        ("extract_letter", "**B**", "B", 2, 3),
        ("extract_first_line", "\n  one \r\ntwo", "one", 3, 6),
        ("extract_first_line", "one\u2028two", "one", 0, 3),
        ("extract_code_block", "~~~\nx = 1\n~~~", "x = 1\n", 4, 10),
    ],
)
def test_a_rule_takes_this_from_there(
    rule: str, text: str, taken: str, start: int, end: int
) -> None:
    found = post_process(rule, text)
    assert (found.text, found.start, found.end, found.found) == (taken, start, end, True)
    assert found.rule


@pytest.mark.parametrize("rule", ["extract_letter", "extract_first_line", "extract_code_block"])
def test_a_rule_that_extracts_says_when_there_is_nothing(rule: str) -> None:
    assert not post_process(rule, " \n").found


def test_the_rules_are_those_a_task_may_name() -> None:
    assert tuple(postprocess._RULES) == POST_PROCESSES


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    for rule, text in (("none", None), ("lower", b"A"), ("none", 3), (["none"], "a"), (None, "a")):
        with pytest.raises(SpecError):
            post_process(rule, text)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"'strip' is not known; the rules are none, strip_white"):
        post_process("strip", "x")
