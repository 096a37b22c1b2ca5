r"""Tell which number of an equation is the answer, or that there is none to tell.

``7 = 3 + 4`` and ``3 + 4 = 7`` answer alike: a side that is one whole number is the answer, a
part of a sum is not. Where several unknowns are given, or no side is a whole number, any number
taken would be a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from farm.scoring.numeral import Spot
from farm.scoring.operand import POWER

_RELATION = re.compile(r"(?<![<>!=:])==?(?![=>])|[\u2248\u2243\u2245]|\\(?:approx|simeq|cong)\b")
# what may stand between a cue and the number that is directly behind it
_LEAD = re.compile(
    r"(?:[\s$*_\"'\u201c\u2018({\[:=>]|\\[(\[]|\\(?:text|mathrm|mathbf)\s?\{"
    r"|(?:about|approximately|approx\.?|around|roughly|nearly|exactly|simply|just|only|now|indeed"
    r"|so|thus|hence|therefore|then|clearly|equal\s+to|equals)(?![A-Za-z]),?)*+",
    re.IGNORECASE,
)
_SIGN = (
    r"(?:[+*/\u00d7\u00f7\u00b7\u22c5]|\*\*|\\(?:times|cdot|div|pm)(?![a-z])"
    r"|(?<![A-Za-z])x(?=\s?(?:[($\u00a3\u20ac]?\d|\Z)))"
)
_DASH = r"[-\u2212\u2010-\u2014\ufe63]"
_OPENS = r"(?:\s|\\left|\\\(|[({$\u00a3\u20ac\[]){0,6}"
_CLOSES = r"(?:\s|\\[)\],; ]|[)\]}$]){0,6}"
# up to three words that begin no clause of their own
_UNIT = (
    r"(?:(?:\\(?:text|mathrm)\s?\{)?\s?"
    r"(?!(?:since|because|as|so|where|which|when|while|if|and|or|but|for|given|thus|hence|then"
    r"|therefore|with|by|from)(?![A-Za-z]))[A-Za-z\u00b0\u00b5]{1,16}\}?\s{1,4}){0,3}"
)
_FIGURE = r"(?:[-\u2212+]?\s?\.?\d|[\u00bc-\u00be\u221a]|\\(?:[dt]?frac|sqrt|pi)(?![a-z]))"
# behind a dash, "a" and "I" are words
_OPERATION = (
    rf"(?:{_SIGN}{_OPENS}(?:{_FIGURE}|[A-Za-z](?![A-Za-z]))"
    rf"|{_DASH}{_OPENS}(?:{_FIGURE}|[b-zA-HJ-Z](?![A-Za-z])))"
)
_SUM_AFTER = re.compile(rf"{_CLOSES}{_OPERATION}|{POWER}")
# before an equals sign also words make an expression, and units may stand inside it
_SIDE_AFTER = re.compile(
    rf"{_CLOSES}{_UNIT}(?:{_OPERATION}"
    r"|(?:plus|minus|times|over|divided\s+by|multiplied\s+by|choose|mod|modulo|of|more\s+than"
    r"|less\s+than|to\s+the)\s{1,4}[$({]{0,2}[-\u2212.]?\d"
    r"|(?:squared|cubed|factorial|doubled|tripled|halved)(?![A-Za-z]))"
    r"|!|\(|\s{1,4}\([^()=]{0,40}\)\s?="
)
_SUM_BEFORE = re.compile(rf"(?:{_SIGN}|(?<=[\w)\]}}$])\s{{0,4}}{_DASH}){_OPENS}\Z|[A-Za-z]\(\s?\Z")
_JOINED = re.compile(rf"{_CLOSES}{_UNIT}(?:{_SIGN}|(?P<dash>{_DASH})){_OPENS}")
# the next unknown of a list: "x = 3, y = 4", "x = 3 or x = 4"
_NEXT_UNKNOWN = re.compile(
    r"(?:[\s$]|\\[ ,;]|\\q?quad){0,4}(?:[,;]|(?:and|or)(?![A-Za-z])|\\text\s?\{[^{}]{0,9}\})"
    r"(?:[\s$]|\\[ ,;]|\\q?quad|(?:and|or)(?![A-Za-z])){0,4}[A-Za-z](?:_\{?\w{1,4}\}?)?[\s$]{0,4}\Z"
)
_INDEX = re.compile(r"_\{[^{}]{0,10}\Z")
_MAX_JOIN = 60  # characters between two numbers of one sum
_BEFORE = 12  # characters looked back for a sign
_EXPRESSION = "only parts of an expression"


class Side(NamedTuple):
    """The numbers from the answer on, or none, and what is wrong then."""

    found: Sequence[Spot]
    fault: str = ""


def answering(text: str, start: int, end: int, found: Sequence[Spot]) -> Side:
    """Return the numbers of an answer's place from the one that answers on.

    `found` are the numbers of `text[start:end]` in order, at least one. A number that stands
    first and is not the first part of an expression answers; else the last side of an equation
    that is one whole number does.
    """
    relations = [one.span() for one in _relations(text, start, end)]
    first = found[0]
    lead = _LEAD.match(text, start, first.start)
    is_direct = lead is not None and lead.end() == first.start
    if relations and not is_direct:
        return _last_side(text, end, found, relations)
    equals = next((begins for begins, _ in relations if begins >= first.end), None)
    if equals is not None and _NEXT_UNKNOWN.match(text, first.end, equals):
        return Side((), "several unknowns")
    if not _goes_on(text, first, end, equated=equals is not None) and (
        first.found or equals is None
    ):
        return Side(found)
    if not relations:
        return Side((), _EXPRESSION)
    return _last_side(text, end, found, relations)


def in_sum(text: str, left: Spot, right: Spot) -> str:
    """Return what makes two neighbours parts of one expression: "sign", "dash", or "" for none."""
    between = text[left.end : right.start]
    if len(between) > _MAX_JOIN or "\n" in between or "\r" in between:
        return ""
    joined = _JOINED.fullmatch(between)
    return "" if joined is None else "dash" if joined.group("dash") else "sign"


def has_relation(text: str, start: int, end: int) -> bool:
    """Say whether a part of a text equates anything."""
    return next(_relations(text, start, end), None) is not None


def _relations(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield what equates two sides; not what stands in an index, as in a sum from i = 1."""
    for relation in _RELATION.finditer(text, start, end):
        if not _INDEX.search(text, max(start, relation.start() - _BEFORE), relation.start()):
            yield relation


def _last_side(
    text: str, end: int, found: Sequence[Spot], relations: Sequence[tuple[int, int]]
) -> Side:
    place, best, fault = 0, -1, ""
    for at, (_, begins) in enumerate(relations):
        is_last = at + 1 == len(relations)
        ends = end if is_last else relations[at + 1][0]
        while place < len(found) and found[place].start < begins:
            place += 1
        if place == len(found) or found[place].start >= ends:
            continue
        number = found[place]
        left = text[max(begins, number.start - _BEFORE) : number.start]
        if _SUM_BEFORE.search(left) or _goes_on(text, number, ends, equated=not is_last):
            fault = _EXPRESSION
            continue
        if not is_last and _NEXT_UNKNOWN.match(text, number.end, ends):
            return Side((), "several unknowns")
        best = place
    return Side(found[best:]) if best >= 0 else Side((), fault or "no number after an equals sign")


def _goes_on(text: str, number: Spot, end: int, *, equated: bool) -> bool:
    """Say whether a number is only the first part of an expression."""
    pattern = _SIDE_AFTER if equated else _SUM_AFTER
    return pattern.match(text, number.end, end) is not None
