"""Undress a reply: what only decorates it is dropped, and each place is kept.

Emphasis, invisible characters and TeX's thin spaces stand inside and beside answers without
meaning anything. The readers of letters and numbers work on the plain text and report places
in the reply. What an answer is, they decide.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from farm.scoring.extract import narrow

_INVISIBLE = r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
# a thin space behind a digit may hold groups of thousands together and stays
_DROPPED = re.compile(rf"{_INVISIBLE}|\\!|(?<![0-9])\\[,;:](?![a-z])")
_MARK = re.compile(r"[\r\n]|\*{1,3}|_{1,3}")


class Plain(NamedTuple):
    """A plain text, and for each border of it the place in the reply (None: the same)."""

    text: str
    places: list[int] | None

    def place(self, border: int) -> int:
        """Return where in the reply a place of the plain text is."""
        return border if self.places is None else self.places[border]


def plain(reply: str) -> Plain:
    """Drop paired emphasis, invisible characters and thin spaces; narrow wide ASCII."""
    text = narrow(reply)
    gone = sorted([found.span() for found in _DROPPED.finditer(text)] + _emphasis(text))
    if not gone:
        return Plain(text, None)
    parts: list[str] = []
    places: list[int] = []
    place = 0
    for start, end in gone:
        parts.append(text[place:start])
        places.extend(range(place, start))
        place = end
    parts.append(text[place:])
    places.extend(range(place, len(text) + 1))
    return Plain("".join(parts), places)


def _emphasis(text: str) -> list[tuple[int, int]]:
    """Return the places of marks that open and close emphasis within one line."""
    pairs: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    for found in _MARK.finditer(text):
        mark, (start, end) = found.group(), found.span()
        if mark in "\r\n":
            opened.clear()
            continue
        before, after = text[start - 1 : start], text[end : end + 1]
        closes = before.strip() and not (after.isalnum() if "_" in mark else after.isdecimal())
        if closes and mark in opened:
            pairs += [opened.pop(mark), (start, end)]
        elif after.strip() and not (before.isalnum() or before in {")", "]", "}", "\\"}):
            opened[mark] = (start, end)
    return pairs
