"""Dress is dropped, and places stay those of the reply."""

from __future__ import annotations

import pytest

from farm.scoring.number import read_number
from farm.scoring.plain import plain


@pytest.mark.parametrize(
    ("reply", "bare"),
    [
        ("**72**", "72"), ("__72__ _5_", "72 5"), ("2**3", "2**3"), ("3*4*5", "3*4*5"),
        ("* 5 * 6", "* 5 * 6"), ("a_1_b", "a_1_b"), ("-\u200b5", "-5"), ("1,\\!000", "1,000"),
        ("1\\,000", "1\\,000"), ("-\\,7", "-7"), ("**a\nb**", "**a\nb**"),
    ],
    ids=ascii,
)  # fmt: skip
def test_only_dress_is_dropped(reply: str, bare: str) -> None:
    assert plain(reply).text == bare


def test_a_number_in_bold_is_found_at_its_place() -> None:
    found = read_number("It is **$72**.").extracted
    assert (found.text, found.start, found.end) == ("$72", 8, 11)
