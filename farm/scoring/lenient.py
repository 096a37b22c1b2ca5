"""lenient_match: equal but for how it was typed.

What may differ is spelling out of a keyboard's reach (compatibility forms, letter case,
invisible characters, minus signs, quotes) and what a sentence puts around an answer
(punctuation, articles, white space). What carries meaning stays: a sign, a decimal point,
the order of words, symbols such as ``%``, ``#`` and ``+``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from farm.scoring.steps import Step, collapse, normalised

_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufe0e\ufe0f]"
)
_PLAIN = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{SINGLE LOW-9 QUOTATION MARK}": "'",
        "\N{SINGLE HIGH-REVERSED-9 QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
        "\N{DOUBLE LOW-9 QUOTATION MARK}": '"',
        "\N{DOUBLE HIGH-REVERSED-9 QUOTATION MARK}": '"',
    }
)
# Brackets, quotes, stops and Markdown: what a sentence may put around an answer. Symbols
# are left (C# is not C, 5% is not 5, <5 is not 5), and so are hyphens, which may be signs.
_OUTER = frozenset(
    "()[]{}\"'`*.,;:!?"
    "\u00a1\u00bf\u00ab\u00bb\u2039\u203a\u2026\u060c\u061b\u061f\u0964"
    "\u3001\u3002\u3008\u3009\u300a\u300b\u300c\u300d\u300e\u300f\u3010\u3011"
)
# An article goes before a word or a number. A last "a", or one before a lone letter, is a
# label ("plan a", "a or b") and stays.
_ARTICLES = frozenset(("a", "an", "the"))
_NAMED = re.compile(
    rf"(?!(?:or|and)\b)[{re.escape(''.join(sorted(_OUTER)))}]*+(?:[^\W\d_]{{2}}|\d)"
)


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _visible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def _plain_marks(text: str) -> str:
    return text.translate(_PLAIN)


def _answer_alone(text: str) -> str:
    """Drop outer punctuation and articles, each as often as the other uncovers it.

    What follows decides whether a word is an article, so words are gone through from the right.
    """
    words: list[str] = []  # in reverse
    for word in reversed(_end_bare(text).split()):
        if not _is_article(word, words):
            words.append(word)
    while words:
        first = _start_bare(words.pop())
        if first and not _is_article(first, words):
            words.append(first)
            break
    return " ".join(reversed(words))


def _is_article(word: str, following: Sequence[str]) -> bool:
    return word in _ARTICLES and bool(following) and _NAMED.match(following[-1]) is not None


def _end_bare(text: str) -> str:
    # walked by hand: a pattern anchored at the end would be tried at every character
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] in _OUTER):
        end -= 1
    return text[:end]


def _start_bare(word: str) -> str:
    """Drop punctuation at the start, but not the point of ``.5``."""
    start = 0
    while start < len(word) and word[start] in _OUTER:
        if word[start] == "." and word[start + 1 : start + 2].isdecimal():
            break
        start += 1
    return word[start:]


LENIENT: Final = (
    Step("compatibility forms (NFKC)", _compatible),
    Step("fold case", str.casefold),
    Step("compatibility forms again", _compatible),  # folding can undo the first pass
    Step("drop invisible characters", _visible),
    Step("plain minus signs and quotes", _plain_marks),
    Step("collapse white space", collapse, may_empty=True),
    Step("drop outer punctuation and articles", _answer_alone),
)


def lenient_match(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if any target is equal once both went through every step of `LENIENT`."""
    answer = normalised(prediction, LENIENT)
    return float(any(normalised(target, LENIENT) == answer for target in targets))
