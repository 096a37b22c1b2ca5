r"""Tell a number from a part of something that is worth something else.

``x + 5``, ``\ln 2``, ``5\alpha``, ``5 dozen`` and ``$5-$10`` hold a five, or a two, and are
worth neither. What stands directly beside a numeral shows it; units (``5 cm``, ``5\text{ kg}``)
leave its value as it is. Which numeral of a text answers is decided elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

MINUS: Final = "-\u2212\u2010\u2011\u2012\u2013\ufe63"
MINUS_CLASS: Final = re.escape(MINUS)  # a bare hyphen in a class would make a range
CURRENCY: Final = "$\u00a2\u00a3\u00a5\u20a9\u20aa\u20ac\u20b9\u20bd\u20ba"
# a power, but for a degree sign
POWER: Final = r"\^(?!\s?\{?\s?\\(?:circ|degree)(?![A-Za-z]))"

_MAX_LEFT = 64  # characters looked back for what a numeral belongs to
_SPACE = r"(?:\s|~|\\[,;: ]|\\q?quad(?![A-Za-z]))"
_TEXT = r"\\(?:text|textrm|mathrm|mbox|rm)(?![A-Za-z])\s?\{[\s~]{0,2}"
_SYMBOL = (
    r"(?:alpha|beta|gamma|delta|(?:var)?epsilon|zeta|eta|(?:var)?theta|iota|kappa|lambda|nu|xi|pi"
    r"|(?:var)?rho|(?:var)?sigma|tau|upsilon|(?:var)?phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi"
    r"|Pi|Sigma|Phi|Psi|infty|imath|jmath|ell|hbar)"
)
# a micro sign is a unit's; an Omega stands for ohms
_MICRO = r"mu(?!\s?(?:[A-Za-z{]|\\(?:text|mathrm|rm)))"
_FUNCTION = (
    r"(?:log|ln|lg|exp|sqrt|(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|gcd|lcm|max|min|det|arg|[dt]?binom"
    r"|lfloor|lceil|l?[vV]ert|operatorname|sum|prod|int|lim)"
)
_OPERATOR = (
    rf"(?:[+*/\u00d7\u00f7\u00b7\u22c5{MINUS_CLASS}]|\\(?:times|cdot|div|pm|mp)(?![A-Za-z]))"
)
_OPENS = rf"(?:[ \t~]|\\left|\\[,;: ({{\[$]|[({{\[$|{CURRENCY}]){{0,5}}"
_INDEX = r"(?:[_^](?:\{[^{}]{0,20}\}|\w)){0,2}"

_ROOT = r"(?:\\sqrt\s?(?:\[\d{1,3}\]\s?)?\{?|\u221a\s?\(?|(?:\\pm|\u00b1)\s?)"
_TEX_BEFORE = (
    rf"\\(?:{_SYMBOL}|mu|{_FUNCTION})(?![A-Za-z]){_INDEX}{_OPENS}(?:{_OPERATOR}{_OPENS})?"
    r"|\\(?:overline|bar|dot)\s?\{?|\\[dt]?binom\s?\{[^{}]{0,20}\}\s?\{"
    r"|\\(?:sum|prod|int|lim)_?\{?[^{}\n]{0,16}(?:\}\^\{?)?"
    rf"|[\u03b1-\u03c9\u221e]{_OPENS}(?:{_OPERATOR}{_OPENS})?|[\u230a\u2308]\s?[{MINUS_CLASS}]?"
)
_NAMED_BEFORE = (
    rf"(?<![A-Za-z\\])(?:log|ln|lg|sqrt|cbrt|(?:arc)?(?:sin|cos|tan))(?:_?\{{?\d{{1,3}}\}}?)?{_OPENS}"
    rf"[{MINUS_CLASS}]?"
    r"|(?<![A-Za-z\\])(?:exp|gcd|lcm|max|min|abs|floor|ceil|round|fact|factorial|sinh|cosh|tanh)"
    rf"\(\s?[{MINUS_CLASS}]?"
    rf"|(?<![A-Za-z\\])[A-Za-z]\(\s?[{MINUS_CLASS}]?"
    r"|(?<![A-Za-z\\])(?:gcd|lcm|max|min|mod|pow|log)\([^()\n]{0,40},\s?"
)
_SAID_BEFORE = (
    r"(?<![A-Za-z])(?:root|log|logarithm|half|third|quarter|reciprocal|inverse|opposite"
    r"|absolute\s{1,2}value|factorial|square|cube)\s{1,2}of\s{1,2}(?:the\s{1,2}number\s{1,2})?"
    rf"{_OPENS}|(?<![A-Za-z])(?:twice|double|triple)\s{{1,2}}{_OPENS}"
    rf"|(?:%|percent|\d/\d{{1,6}})\s{{1,2}}of\s{{1,2}}{_OPENS}"
)
# a lone letter is an unknown; before a spaced dash, "a", "A" and "I" may be words or names
_UNKNOWN_BEFORE = (
    rf"(?<![A-Za-z\\'\u2019])[A-Za-z]{_INDEX}[ \t$]?(?:[+*/\u00d7\u00f7\u00b7\u22c5]|\*\*"
    rf"|\\(?:times|cdot|div)(?![A-Za-z])){_OPENS}"
    rf"|(?<![A-Za-z\\'\u2019])(?:[A-Za-z]{_INDEX}|[b-hj-z]{_INDEX}[ \t$])[{MINUS_CLASS}]{_OPENS}"
    rf"|[)\]}}][ \t$]?(?:[+/\u00d7\u00f7\u22c5]|\\(?:times|cdot|div)(?![A-Za-z])){_OPENS}"
    rf"|(?:\S\([^()\n]{{0,40}}\)|\)(?=[{MINUS_CLASS}])"
    rf"|\\(?:[dt]?frac|sqrt)[^\n]{{0,40}}\}})[ \t$]?[{MINUS_CLASS}]{_OPENS}"
)
_BEFORE = re.compile(
    rf"(?:{_ROOT}|{_TEX_BEFORE}|{_NAMED_BEFORE}|{_SAID_BEFORE}|{_UNKNOWN_BEFORE})\Z"
)
_BESIDE = " \t~"
_NO_OPERAND = ".;:=!?\r\n\"'"  # behind these nothing is added to: most numerals
# a sum of numbers is for farm.scoring.equation to tell
_NUMBERS_ONLY = re.compile(rf"(?<![\d_^{{])\d{{1,9}}[ \t]?[+*{MINUS_CLASS}][ \t]?\Z")
_BAR_BEFORE = re.compile(rf"\|\s?[{MINUS_CLASS}]\s?\Z")
# "-(5)", a dash that may be a minus, and a lone minus that may be the mark of a list
_MAYBE_NEGATIVE = re.compile(rf"[{MINUS_CLASS}]\s?\(\s?\Z|(?:^|[\s({{=:])\u2014\s?\Z")
_LONE_MINUS = re.compile(rf"(?:^|[\r\n])[ \t]*[{MINUS_CLASS}][ \t]+\Z")
_LONE_END = re.compile(r"[ \t]*[.!]?[ \t]*(?:[\r\n]|\Z)")

_UNSURE_WORD = (
    r"(?:dozens?|tens|halves|thirds|fourths|fifths|sixths|sevenths|eighths|ninths|tenths|hundredths"
    r"|thousandths|millionths|billionths|cubed|factorial|squared(?!\s(?:units?|[ckm]?m\b|\w*met|inch|f))"
    r"|million(?:en|es)|mill\u00f3n|milh(?:\u00f5es|\u00e3o)|milliarden?|milliards?|mio|mrd|tsd|tausend"
    r"|hundert|mil(?:lones)|and\s(?:a|one|two|three)[\s-](?:hal(?:f|ves)|thirds?|quarters?|fourths?)"
    r")(?![A-Za-z-])"
)
# What may not follow. Possessive: what a failed part has read is not read again.
_AFTER = re.compile(
    rf"(?:[.,:/'_^{MINUS_CLASS}]*+[A-Za-z]{{0,3}}+[.,:/^]*+\d++)++|[kKMBT](?![A-Za-z])"
    # a variable, a factorial in a formula, a power
    rf"|[abefijnp-rt-z](?![A-Za-z])|!(?=\s?[}}$/*\\])|\s?{POWER}|\*\*(?=[\w({{\\+-])"
    r"|\s?(?:bn|mn|tn)\b|\s?[\u5341\u767e\u5343\u4e07\u842c\u4ebf\u5104\u5146]"
    rf"|{_SPACE}{{1,3}}[befijnqru-z](?![A-Za-z'\u2019]|\s?[({CURRENCY}]?\d|[.-][A-Za-z])"
    rf"|{_SPACE}{{0,3}}(?:(?:[+*/\u00d7\u00b7\u22c5{MINUS_CLASS}]|\\(?:times|cdot)(?![A-Za-z]))"
    rf"{_SPACE}{{0,2}})?(?:\\(?:{_SYMBOL}|{_MICRO}|{_FUNCTION}|pm|mp|choose|overline|bar)(?![A-Za-z])"
    r"|[\u03b1-\u03bb\u03bd-\u03c9\u221a\u00b1\u221e])"
    rf"|\s?(?:[+*\u00d7\u00b7\u22c5{MINUS_CLASS}]|\\(?:times|cdot)(?![A-Za-z]))\s?"
    r"[b-hj-z](?![A-Za-z'\u2019]|\.[A-Za-z])"
    # over an unknown, where a unit has other letters: "1/x", "1/(x + 1)"
    r"|\s?/\s?(?:[abefijknpqruvwxz](?![A-Za-z])|\([^()\n]{0,20}[+*/^-])"
    # "5-million-dollar"
    r"|-(?i:hundred|thousand|million|billion|trillion)(?=-)"
    # a product: "5(x + 1)"
    r"|\((?=\s?(?:\\|[a-z](?![A-Za-z])|\d{1,9}\s?[+*/-]))"
    # the other end of a range
    rf"|[A-Za-z%\\{CURRENCY}]{{0,4}}+[{MINUS_CLASS}\u2014][\\{CURRENCY}]{{0,2}}\d++(?:[.,]\d++)*+"
    rf"|{_SPACE}{{0,3}}(?:{_TEXT})?(?<![A-Za-z])(?i:{_UNSURE_WORD})"
)
_RANGE = re.compile(rf"\s?[{MINUS_CLASS}\u2014]\s?\\?[{CURRENCY}]\s?\d++(?:[.,]\d++)*+")
_OF = re.compile(r"\sof\s\\?[$\u00a3\u20ac]?\d")


def changed_after(text: str, end: int, stop: int) -> re.Match[str] | None:
    """Return what follows a numeral and makes it a part of something else, if anything does."""
    return _AFTER.match(text, end, stop)


def is_end_of_range(text: str, end: int, stop: int) -> re.Match[str] | None:
    """Return the other end of a range of prices that begins before `end`, if there is one."""
    return _RANGE.match(text, end, stop)


def is_share(text: str, end: int, stop: int) -> bool:
    """Say whether a fraction that ends here is taken of another number."""
    return _OF.match(text, end, stop) is not None


def is_changed_before(text: str, start: int, digits: int, end: int, stop: int) -> bool:
    """Say whether what stands before a numeral makes it worth something else.

    The numeral begins at `start` with its sign and currency, and its digits at `digits`.
    """
    left = text[max(0, start - 16) : start]
    if _MAYBE_NEGATIVE.search(left):
        return True
    if _LONE_MINUS.search(left) and _LONE_END.match(text, end, stop):
        return True
    left = text[max(0, digits - _MAX_LEFT) : digits]
    beside = left.rstrip(_BESIDE)
    if beside[-1:].isdecimal() and beside[-2:-1] not in ("_", "^"):
        return False
    if not beside or beside[-1] in _NO_OPERAND or _NUMBERS_ONLY.search(left[-16:]):
        return False
    if _BAR_BEFORE.search(left) and text[end : end + 1] in ("|", "\\"):
        return True
    return _BEFORE.search(left) is not None
