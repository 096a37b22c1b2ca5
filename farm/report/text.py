"""Foreign text made safe to show: figures, control characters, Markdown.

Names of models and tasks, and everything a model wrote, are hostile: they may hold markup,
mentions, direction overrides and line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

# C0 and C1 controls, zero-width and direction marks: they hide or reorder what stands beside them
_INVISIBLE = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
# an underscore inside a word is text to Markdown, and names are full of them
_MARKDOWN = re.compile(r"([\\`*\[\]|~]|(?<!\w)_|_(?!\w)|^[-+])")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?= |\Z)")  # what Markdown takes for the item of a list
_ESCAPED = re.compile(r"\\([\\`*\[\]|~_+.)-])")
_DASH = "\u2013"
MINUS = "\u2212"


def visible(text: str) -> str:
    """Return the text with line breaks as spaces and every other invisible character by name."""
    flat = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").replace("\t", " ")
    return _INVISIBLE.sub(lambda found: f"[U+{ord(found[0]):04X}]", flat)


def markdown(text: str) -> str:
    """Return text that Markdown shows as it is, in a table cell too: nothing links or mentions."""
    escaped = _NUMBERED.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", visible(text)))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # entities, since a backslash does not stop a mention, an issue link or a bare link
    escaped = re.sub(r"(?<!&)#", "&#35;", escaped)
    escaped = escaped.replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")
    blanks = len(escaped) - len(escaped.lstrip(" "))
    return "&#32;" * blanks + escaped[blanks:]  # blanks would make code of what stands in a list


def unmarked(text: str) -> str:
    """Return what `markdown` wrote as it reads, for where no Markdown is shown."""
    return unescape(_ESCAPED.sub(r"\1", text))


def share(value: float | None, digits: int = 3) -> str:
    """Return a figure in [0, 1] with fixed digits; a dash where there is none.

    Never rounded onto a bound it has not reached: 0.9999 is 0.999, not 1.000.
    """
    if value is None:
        return _DASH
    scale = 10**digits
    scaled = round(value * scale)
    if scaled >= scale and value < 1.0:
        scaled = scale - 1
    if scaled == 0 and value > 0.0:
        return f"<{1 / scale:.{digits}f}"
    return f"{scaled / scale:.{digits}f}"


def share_apart(value: float, bound: float) -> str:
    """Return a figure in [0, 1] with as many digits as tell it from a bound, three at least."""
    return _apart(value, bound, lambda digits: share(value, digits))


def span(lo: float | None, hi: float | None) -> str:
    """Return an interval as ``[0.301, 0.954]``; a dash where there is none."""
    if lo is None or hi is None:
        return _DASH
    return f"[{share(lo)}, {share(hi)}]"


def signed_span(lo: float | None, hi: float | None) -> str:
    """Return an interval of a difference as ``[-0.120, +0.310]``; a dash where there is none."""
    if lo is None or hi is None:
        return _DASH
    return f"[{signed(lo)}, {signed(hi)}]"


def signed(value: float | None, digits: int = 3) -> str:
    """Return a difference with its sign; a dash where there is none."""
    if value is None:
        return _DASH
    text = f"{value:+.{digits}f}"
    # -0.0004 would print as -0.000
    return text if float(text) else f"{0.0:.{digits}f}"


def signed_apart(value: float, bound: float) -> str:
    """Return a difference with as many digits as tell it from a bound, three at least."""
    return _apart(value, bound, lambda digits: signed(value, digits))


def exact(value: float) -> str:
    """Return a figure that somebody gave as it was given, or the like: 0.9 is 0.9."""
    return f"{value:.12g}"


def _apart(value: float, bound: float, show: Callable[[int], str]) -> str:
    for digits in range(3, 16):
        text = show(digits)
        # "<0.001" is apart from what is not under 0.001
        shown = float(text.removeprefix("<"))
        if (shown <= bound) if text.startswith("<") else (shown < bound) == (value < bound):
            return text
    return show(16)


def chance(p: float | None) -> str:
    """Return a p-value; small ones as a bound, since their digits mean nothing."""
    if p is None:
        return _DASH
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def count(number: int, noun: str) -> str:
    """Return ``1 case`` or ``1,200 cases``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
