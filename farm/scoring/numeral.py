r"""Read the numerals in a text exactly, as rationals; never as floats.

A numeral whose meaning cannot be told is found but has no value: ``4,5`` is 4.5 to some and
a list to others, and there are ``3.1.4``, ``12:30``, ``1/0``. To take a part of it, or the
number before it, would be a guess.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, NamedTuple

from farm.scoring.operand import (
    CURRENCY,
    MINUS,
    MINUS_CLASS,
    changed_after,
    is_changed_before,
    is_end_of_range,
    is_share,
)
from farm.scoring.scale import PERCENT, SCALE, SCALE_GOES_ON, factor

MAX_DIGITS: Final = 4000  # below the interpreter's own limit; a longer numeral has no value
MAX_EXPONENT: Final = 10_000  # a power beyond this would only serve to fill the memory

_SIGN = rf"[+{MINUS_CLASS}]"
_GAP = r"(?:\{,\}|\\[,\x20]|[\u00a0\u2009\u202f'\u2019_~])"  # thousands gaps with no other use
_GROUPED = rf"\d{{1,3}}(?:(?:,\d{{3}})+|(?:{_GAP}\d{{3}})+|(?:,\d{{2}})+,\d{{3}})(?!\d)"
_UNSIGNED = rf"(?:(?:{_GROUPED}|\d+)(?:\.\d+)?|\.\d+)"
_WHOLE_EXPONENT = rf"(?:\{{\s?{_SIGN}?\d+\s?\}}|{_SIGN}?\d+)"
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
_TEX_PART = rf"(?:\{{\s?{_SIGN}?{_UNSIGNED}\s?\}}|\d)"
# a fraction of something else than numbers, with braces nested twice: one whole without a value
_TEX_ARGUMENT = (
    r"(?:\{(?:[^{}]|\{(?:[^{}]|\{[^{}]{0,60}+\}){0,60}+\}){0,80}+\}|\\[a-z]{1,10}|[^\s{}\\])"
)

_NUMERAL = re.compile(
    rf"""
    (?<![A-Za-z0-9_\u00c0-\u024f])(?<!\d)
    (?:
      (?P<unclear>\d{{4}}-\d\d-\d\d|\d{{1,3}}(?:\x20\d{{3}})+)(?!\d)
    | (?P<tex_whole>\d{{1,9}})?\s?\\[dt]?frac
      \s?(?P<tex_above>{_TEX_PART})\s?(?P<tex_below>{_TEX_PART})
    | (?P<tex_other>(?:\d{{1,9}})?\s?\\[dt]?frac(?:\s?{_TEX_ARGUMENT}){{0,2}}+)
    | (?P<vulgar_whole>\d{{1,9}})?\s?(?P<vulgar>[\u00bc-\u00be\u2150-\u215e\u2189])
    | (?P<mixed>\d{{1,3}})\s(?P<above>\d{{1,3}})[/\u2044](?P<below>\d{{1,3}})(?![\d/.,])
    | (?<!\.)(?P<number>{_UNSIGNED})
      (?:
        [eE](?P<e>{_SIGN}?\d+)(?![A-Za-z0-9_])
      | \s{{0,2}}(?:\\times|\\cdot|[\u00d7\u00b7x*])\s{{0,2}}10\s?
        (?:(?:\^|\*\*)\s?(?P<ten>{_WHOLE_EXPONENT})|(?P<ten_high>[{_SUPERSCRIPTS}]+))
      | (?:\^|\*\*)\s?(?P<power>{_WHOLE_EXPONENT})
      | (?P<power_high>[{_SUPERSCRIPTS}]+)
      )?
      (?:\s?[/\u2044]\s?(?P<under>{_UNSIGNED}))?
    )
    """,
    re.VERBOSE,
)
# What stands before an exponent or a TeX index, which is no number of its own.
_RAISED = re.compile(r"(?:\^\s?[{(]?|_\{)\s?\Z")
_NEGATED = re.compile(r"(?<![A-Za-z])(?:minus|negative)\s{1,2}\Z", re.IGNORECASE)
_HIGH = str.maketrans(_SUPERSCRIPTS, "0123456789-")


class Numeral(NamedTuple):
    """One numeral: its place with sign and unit, and its value, or None if it has none.

    The value is what is written: ``50%`` has the value 50, and `percent`. `currency` is the
    symbol beside it, or "".
    """

    start: int
    end: int
    value: Fraction | None
    percent: bool
    currency: str


class Spot(NamedTuple):
    """A numeral found but not yet computed; `found` is None where it has no value."""

    start: int
    end: int
    found: re.Match[str] | None
    negative: bool
    scale: str
    percent: bool
    currency: str
    raised: bool  # an exponent or an index


def spots(text: str, begin: int = 0, end: int | None = None) -> Iterator[Spot]:
    """Yield where the numerals of a text are, in order; digits inside words are none."""
    stop = len(text) if end is None else end
    place = begin
    while found := _NUMERAL.search(text, place, stop):
        spot = _completed(text, found, place, stop)
        yield spot
        place = spot.end


def numerals(text: str, begin: int = 0, end: int | None = None) -> Iterator[Numeral]:
    """Yield the numerals of a text in order, with their values."""
    return map(valued, spots(text, begin, end))


def valued(spot: Spot) -> Numeral:
    """Compute the value of what was found."""
    value = None if spot.found is None else _value(spot.found)
    if value is not None:
        value *= factor(spot.scale) * (-1 if spot.negative else 1)
    return Numeral(spot.start, spot.end, value, percent=spot.percent, currency=spot.currency)


def _completed(text: str, found: re.Match[str], floor: int, stop: int) -> Spot:
    """Add sign, currency, scale and percent to what the pattern found."""
    start, negative, currency = _prefix(text, found.start(), floor)
    end = found.end()
    left = text[max(0, start - 16) : start]
    raised = _RAISED.search(left) is not None
    spoilt = changed_after(text, end, stop)
    if spoilt or raised or is_changed_before(text, start, found.start(), end, stop):
        stopped = spoilt.end() if spoilt else end
        return Spot(start, stopped, None, False, "", False, currency, raised)
    if not negative and _NEGATED.search(left):
        negative = True
    scale = SCALE.match(text, end, stop)
    word = scale.group() if scale else ""
    end = scale.end() if scale else end
    percent = PERCENT.match(text, end, stop)
    if percent:
        end, currency = percent.end(), ""
        word += percent.group().strip()
    elif currency == "$" and text[end : end + 1] == "$":
        currency = ""  # "$42$" is TeX, not money
    elif not currency and text[end : end + 1] and text[end] in CURRENCY:
        currency, end = text[end], end + 1
    goes_on = _goes_on(text, found, end, stop, scaled=scale is not None, priced=currency != "")
    if goes_on:
        return Spot(start, goes_on, None, False, "", False, currency, raised=False)
    return Spot(start, end, found, negative, word, percent is not None, currency, raised=False)


def _goes_on(
    text: str, found: re.Match[str], end: int, stop: int, *, scaled: bool, priced: bool
) -> int:
    """Return the end of what a numeral with its unit is only a part of, or 0."""
    more = changed_after(text, end, stop) if end > found.end() else None
    if more is None and scaled:
        more = SCALE_GOES_ON.match(text, end, stop)
    if more is None and priced:
        more = is_end_of_range(text, end, stop)
    if more is not None:
        return more.end()
    of_another = end > found.end() or found["under"] or found["tex_above"] or found["vulgar"]
    return end if of_another and is_share(text, end, stop) else 0


def _prefix(text: str, start: int, floor: int) -> tuple[int, bool, str]:
    """Return where a numeral begins with its sign and currency, and whether it is negative.

    Nothing before `floor` is taken: it belongs to the numeral before.
    """
    currency = ""
    place = start
    before = place - 1 if text[place - 1 : place] != " " else place - 2
    if before >= floor and text[before] in CURRENCY:
        currency, place = text[before], before
        if place > floor and text[place - 1] == "\\":
            place -= 1  # a TeX dollar
    sign = place - 1
    if sign >= floor and text[sign] in MINUS + "+" and _is_unary(text, sign):
        if not currency and sign > floor and text[sign - 1] in CURRENCY:
            currency, sign_start = text[sign - 1], sign - 1  # "$-5"
        else:
            sign_start = sign
        return sign_start, text[sign] != "+", currency
    # "x = - 5": a spaced minus is a sign only behind something that awaits a value
    if sign > floor and text[sign] == " " and text[sign - 1] in MINUS:
        left = text[max(0, sign - 9) : sign - 1].rstrip()
        if left and left[-1] in "=([{:\u2248":
            return sign - 1, True, currency
    return place, False, currency


def _is_unary(text: str, sign: int) -> bool:
    """Say whether a minus has nothing before it to subtract from."""
    left = text[max(0, sign - 8) : sign].rstrip(" ")
    if not left or left[-1].isspace():
        return True
    if len(left) == sign - max(0, sign - 8):  # it touches what is before it
        return not (left[-1].isalnum() or left[-1] in ")]}%_")
    return not (left[-1].isdecimal() or left[-1] in ")]}%")


def _value(found: re.Match[str]) -> Fraction | None:
    part = found.groupdict()
    if part["unclear"] or part["tex_other"]:
        return None  # a date, or groups that may be thousands or a list
    if part["tex_above"]:
        return _tex_fraction(part["tex_whole"], part["tex_above"], part["tex_below"])
    if part["vulgar"]:
        # the tables hold these as floats; all are ratios of numbers up to ten
        value = Fraction(unicodedata.numeric(part["vulgar"])).limit_denominator(10)
        return value + int(part["vulgar_whole"] or 0)
    if part["mixed"]:
        return _mixed(part["mixed"], part["above"], part["below"])
    value_or_none = _scaled(part)
    if part["under"] is None or value_or_none is None:
        return value_or_none
    under = _decimal(part["under"])
    return value_or_none / under if under else None


def _mixed(whole: str | None, above: str, below: str) -> Fraction | None:
    top, bottom = _integer(above), _integer(below)
    if top is None or not bottom:
        return None
    return Fraction(top, bottom) + int(whole or 0)


def _tex_fraction(whole: str | None, above: str, below: str) -> Fraction | None:
    top, bottom = _signed(above), _signed(below)
    if top is None or not bottom:
        return None
    return top / bottom + int(whole or 0)


def _signed(text: str) -> Fraction | None:
    bare = text.strip("{} \t\r\n")
    value = _decimal(bare.lstrip("+" + MINUS))
    return -value if value is not None and bare[0] in MINUS else value


def _scaled(part: dict[str, str | None]) -> Fraction | None:
    """Apply an exponent of ten, or a power, to the decimal before it."""
    number = part["number"]
    value = _decimal(number) if number is not None else None
    ten = part["e"] or part["ten"] or part["ten_high"]
    power = part["power"] or part["power_high"]
    written = ten or power
    if value is None or written is None:
        return value
    exponent = _integer(written.translate(_HIGH))
    if exponent is None or abs(exponent) > MAX_EXPONENT:
        return None
    if ten is not None:
        return value * Fraction(10) ** exponent
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if bits * abs(exponent) > 4 * MAX_EXPONENT or (value == 0 and exponent < 0):
        return None
    return value**exponent


def _integer(text: str) -> int | None:
    bare = text.strip("{} \t\r\n")
    digits = bare.lstrip("+" + MINUS)
    if not digits.isdecimal() or len(digits) > MAX_DIGITS:
        return None
    return -int(digits) if bare[0] in MINUS else int(digits)


def _decimal(text: str) -> Fraction | None:
    """Return the value of digits with a decimal point and thousands gaps."""
    whole, _, part = text.partition(".")
    digits = "".join(character for character in whole if character.isdecimal())
    grouped = len(digits) != len(whole)
    if len(digits) + len(part) > MAX_DIGITS or (grouped and int(digits[0]) == 0):
        return None  # a group that begins with 0 is no thousands: "0,500"
    return Fraction(int(digits + part), 10 ** len(part))
