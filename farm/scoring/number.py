r"""Judge whether a reply ends in the right number.

The final number is located first (a TeX box, a ``####`` line, an "answer is" cue, else the
last numeral), then compared as an exact rational. A numeral that cannot be understood where
the answer should be makes the case unparsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from farm.scoring.equation import answering, has_relation, in_sum
from farm.scoring.extract import Extracted, answer_start, nothing
from farm.scoring.numeral import Numeral, Spot, spots, valued
from farm.scoring.plain import plain

_CUE = re.compile(
    r"(?<![A-Za-z])(?:answers?|antwort|r\u00e9ponse|respuesta|resultado|ergebnis)"
    r"[*_ \t]{0,8}+(?:is|are|was|ist|est|es|:|=)(?![A-Za-z])|\u7b54\u6848[\u662f\u4e3a:]",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_HASHES = re.compile(r"####")
# a sentence ends at a stop that is followed by white space, or with its line; not at "5! = 120"
_SENTENCE_END = re.compile(r"[.!?;](?=\s)(?!\s{1,2}[=\u2248])|[\r\n]|\u3002|\Z")
_IN_BOX = "in the last box"
_DENIED = re.compile(
    r"(?<![A-Za-z])(?:not|never)(?![A-Za-z])|n['\u2019]t(?![A-Za-z])", re.IGNORECASE
)
_JOINS = frozenset(("or", "and", "&", "and/or"))
# the letters of a unit (but for a lone variable) and what leads to its power
_UNIT = re.compile(
    r"(?:\\[,; ]|[\s~])*+(?:\\(?:text|mathrm|rm)\s?\{)?[\s~]*+(?![abefijknp-rt-z](?![A-Za-z]))"
    r"(?:[A-Za-z\u00b5/\u00b7. ]|\\cdot\s|\\,){1,16}+\}?\s?\^\s?\{?\s?[-\u2212]?"
)
# what may lead to a number in a box: words, a mark of a choice, how it is set; no unknown
_LEAD_IN_BOX = re.compile(
    r"(?:[\s$~*_\"'\u201c\u2018(){}\[\]:,.#=]|\\left(?![A-Za-z])|\\q?quad(?![A-Za-z])"
    r"|\\[(\[,;:{!$ ]|\\(?:text|math)[a-z]*+|\\(?:displaystyle|rm|bf|mbox|f?box(?:ed)?|color|large"
    r"|approx|simeq|cong|pounds|euro|yen)(?![A-Za-z])|[^\W\d_]{2,}+|[A-Ja-j][).:]|a(?=\s[a-z]{2}))*+"
)
# an unknown behind a number, which in prose is a unit
_UNKNOWN_IN_BOX = re.compile(r"(?:\s|~|\\[,;: ]){0,4}[pt](?![A-Za-z])")
# one amount in two units: "5 ft 6 in", "5 hours and 30 minutes"
_TWO_UNITS = tuple(
    (
        re.compile(rf"\s?(?:{large})(?![A-Za-z])[\s,]*+(?:and\s)?"),
        re.compile(rf"\s?(?:{small})(?![A-Za-z])"),
    )
    for large, small in (
        (r"ft\.?|feet|foot|['\u2032]", r"in|inch|inches|[\"\u2033]"),
        (r"years?|yrs?", r"months?|weeks?|days?"),
        (r"months?|weeks?", r"days?"),
        (r"days?", r"hours?|hrs?|h"),
        (r"hours?|hrs?|h", r"minutes?|mins?|m"),
        (r"minutes?|mins?|m|['\u2032]", r"seconds?|secs?|s|[\"\u2033]"),
        (r"pounds?|lbs?", r"ounces?|oz|pence"),
        (r"dollars?|euros?", r"cents?"),
        (r"kilograms?|kg", r"grams?|g"),
        (r"kilomet(?:er|re)s?|km", r"met(?:er|re)s?|m"),
        (r"met(?:er|re)s?|m", r"centimet(?:er|re)s?|cm"),
        (r"degrees?|\u00b0", r"minutes?|['\u2032]"),
    )
)
_MAX_UNIT = 40
_MAX_SENTENCE = 1000
_MAX_BOX = 2000  # characters looked through for the brace that closes a box


class Reading(NamedTuple):
    """The final number of a text, and how it was found."""

    extracted: Extracted
    numeral: Numeral | None


def read_number(reply: str) -> Reading:
    """Locate the final number of a reply; nothing is found if its value cannot be told.

    Thinking blocks before the answer are not read.
    """
    begin = answer_start(reply)
    if begin is None:
        return Reading(nothing("the thinking never ends"), None)
    bare = plain(reply[begin:])
    text = bare.text
    start, end, rule, last = _located(text, 0)
    found: Sequence[Spot] = _without_units(text, list(spots(text, start, end)))
    if not found:
        return Reading(nothing(f"no number {rule}"), None)
    if last and _is_part(text, found):
        start = _sentence_start(text, found[-1].start)
        found = [one for one in found if one.start >= start]
        last = False
    if not last:
        found, fault = answering(text, start, end, found)
        if fault:
            return Reading(nothing(f"{fault} {rule}"), None)
    chosen = found[-1] if last else found[0]
    if rule == _IN_BOX and len(found) > 1 and not has_relation(text, start, end):
        return Reading(nothing(f"several numbers {rule}"), None)
    if rule == _IN_BOX and text.startswith("!", chosen.end):
        return Reading(nothing(f"a factorial {rule}"), None)
    if rule == _IN_BOX and _is_term(text, start, end, chosen):
        return Reading(nothing(f"only parts of an expression {rule}"), None)
    if _is_shared(text, found, last=last):
        return Reading(nothing(f"two numbers {rule}"), None)
    if not last and _DENIED.search(text, start, chosen.start):
        return Reading(nothing(f"a number that is denied {rule}"), None)
    numeral = valued(chosen)  # of this one alone: a value can be long to compute
    span = (begin + bare.place(chosen.start), begin + bare.place(chosen.end - 1) + 1)
    shown = reply[span[0] : span[1]]
    if numeral.value is None:
        shown = shown[:40]
        return Reading(nothing(f"the number {shown!r} {rule} can be read in several ways"), None)
    return Reading(Extracted(text=shown, start=span[0], end=span[1], rule=rule), numeral)


def _without_units(text: str, found: list[Spot]) -> list[Spot]:
    while len(found) > 1 and found[-1].raised and _is_unit(text, found[-2], found[-1]):
        found.pop()  # the 2 of "72 cm^2" belongs to the unit
    return found


def _is_part(text: str, found: Sequence[Spot]) -> bool:
    """Say whether the last number of a text is only a part of an expression.

    A dash is one of an expression if something is equated: it may stand between two phrases.
    """
    if len(found) < 2:
        return False
    sign = in_sum(text, found[-2], found[-1])
    start = _sentence_start(text, found[-1].start)
    return sign == "sign" or (sign == "dash" and has_relation(text, start, found[-1].start))


def _is_term(text: str, start: int, end: int, chosen: Spot) -> bool:
    """Say whether the number of a box stands in it beside an unknown or a comparison."""
    if _UNKNOWN_IN_BOX.match(text, chosen.end, end):
        return True
    if has_relation(text, start, end):
        return False
    return _LEAD_IN_BOX.fullmatch(text, start, chosen.start) is None


def _is_unit(text: str, amount: Spot, raised: Spot) -> bool:
    between = text[amount.end : raised.start]
    return len(between) < _MAX_UNIT and _UNIT.fullmatch(between) is not None


def _is_shared(text: str, found: Sequence[Spot], *, last: bool) -> bool:
    """Say whether the chosen number is only one of two that are given side by side."""
    if len(found) < 2:
        return False
    left, right = found[-2:] if last else found[:2]
    between = text[left.end : right.start]
    if len(between) < _MAX_UNIT and any(
        large.fullmatch(between) and small.match(text, right.end) for large, small in _TWO_UNITS
    ):
        return True
    joins = _JOINS if last else {*_JOINS, ",", ", and", ", or"}
    return len(between) < _MAX_UNIT and between.strip().lower() in joins


def _located(text: str, begin: int) -> tuple[int, int, str, bool]:
    """Return where the answer stands, by which rule, and whether its last number counts."""
    for box in reversed(list(_BOX.finditer(text, begin))):
        return box.end(), _closing_brace(text, box.end()), _IN_BOX, False
    for hashes in reversed(list(_HASHES.finditer(text, begin))):
        return hashes.end(), _sentence_end(text, hashes.end(), len(text)), "behind ####", False
    until = len(text)
    for cue in reversed(list(_CUE.finditer(text, begin))):
        start = cue.end()
        # a colon may be followed by a line break before the answer itself
        start += len(text[start : start + 80]) - len(text[start : start + 80].lstrip(" \t\r\n*"))
        # no cue looks into what belongs to the next, so that all of them together read once
        start = min(start, until)
        end = _sentence_end(text, start, until)
        until = cue.start()
        if next(spots(text, start, end), None) is None:
            continue  # "the answer is obvious": no number is claimed here
        return start, end, f"behind {cue.group()!r}", False
    return begin, len(text), "last in the text", True


def _sentence_end(text: str, start: int, until: int) -> int:
    found = _SENTENCE_END.search(text, start, until)
    return found.start() if found else until


def _sentence_start(text: str, until: int) -> int:
    """Return where the sentence of a place begins, looking back as far as a sentence is long."""
    begin = max(0, until - _MAX_SENTENCE)
    start = begin
    for border in _SENTENCE_END.finditer(text, begin, until):
        if border.start() < until:
            start = border.end()
    return start


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    limit = min(len(text), start + _MAX_BOX)
    for place in range(start, limit):
        if text[place] in "{}":
            depth += 1 if text[place] == "{" else -1
            if not depth:
                return place
    return limit


def same_number(left: Numeral, right: Numeral, *, rel_tol: Fraction = Fraction(0)) -> bool:
    """Compare two numerals exactly, `right` being the target.

    Different currency symbols, or a currency and a percentage, are never the same. A
    percentage and a bare number are the same if the bare one is its ratio (50% and 0.5) or,
    being over 1, its face (50% and 50). `rel_tol` is relative to the target.
    """
    if left.value is None or right.value is None:
        return False
    if left.currency and right.currency and left.currency != right.currency:
        return False
    if (left.percent and right.currency) or (right.percent and left.currency):
        return False
    mine, gold = left.value, right.value
    near = [(mine, gold)]
    if left.percent and not right.percent:
        near = [(mine / 100, gold), *([(mine, gold)] if abs(gold) > 1 else [])]
    elif right.percent and not left.percent:
        near = [(mine, gold / 100), *([(mine, gold)] if abs(mine) > 1 else [])]
    return any(abs(one - other) <= rel_tol * abs(other) for one, other in near)


def has_number(text: str) -> bool:
    """Say whether a text ends in a number whose value can be told."""
    return read_number(text).numeral is not None


def within(tolerance: Fraction) -> Callable[[str, Sequence[str]], float]:
    """Return `number` with a relative tolerance."""

    def number_within(prediction: str, targets: Sequence[str]) -> float:
        return number(prediction, targets, rel_tol=tolerance)

    return number_within


def number(prediction: str, targets: Sequence[str], *, rel_tol: Fraction = Fraction(0)) -> float:
    """Return 1.0 if the prediction's final number equals that of any target, else 0.0."""
    mine = read_number(prediction).numeral
    if mine is None:
        return 0.0
    for target in targets:
        gold = read_number(target).numeral
        if gold is not None and same_number(mine, gold, rel_tol=rel_tol):
            return 1.0
    return 0.0
