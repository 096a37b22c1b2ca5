"""What the words and marks behind a numeral multiply it by: ``5 hundred thousand``, ``5\u2030``.

Only what has one meaning is here; ``5 dozen`` may count dozens or be sixty, and is told to be
no number in farm.scoring.operand.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_WORDS = {
    "hundred": 10**2,
    "thousand": 10**3,
    "lakh": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}
_WORD = re.compile("|".join(_WORDS), re.IGNORECASE)
# up to three in a row; not "5 hundred-dollar bills"
_IN_A_ROW = rf"(?:[\s~-]?(?:{'|'.join(_WORDS)})s?(?![\w-])){{1,3}}+"
_SPACE = r"(?:\\[,;: ]|[\s~]){0,2}"
_MARKS = "\u2030\u2031"  # per thousand, per ten thousand: parts of a percent

SCALE: Final = re.compile(
    rf"{_SPACE}\\(?:text|textrm|mathrm|mbox)\s?\{{[\s~]{{0,2}}{_IN_A_ROW}\s?\}}?"
    rf"|{_SPACE}{_IN_A_ROW}",
    re.IGNORECASE,
)
# "5 thousand 200": what comes then belongs to it
SCALE_GOES_ON: Final = re.compile(r"\s(?:and\s)?\d++(?:[.,]\d++)*+")
PERCENT: Final = re.compile(rf"\s?(?:\\?%|\uff05|\uff0c?percent\b|per\s?cent\b|[{_MARKS}])")


def factor(scale: str) -> Fraction:
    """Return what a text that SCALE and PERCENT matched multiplies by; a percent by 1."""
    whole = Fraction(1)
    for word in _WORD.findall(scale):
        whole *= _WORDS[word.lower()]
    return whole / 10 ** (_MARKS.find(scale[-1]) + 1) if scale else whole
