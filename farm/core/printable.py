"""Foreign text made harmless for a terminal: file names, case ids, model output, log lines.

A terminal obeys control characters, C1 codes and DEL included, and shows text in another order
after a bidirectional mark. Both functions take away every character that is not printable.
"""

from __future__ import annotations

import re

_SAFE = re.compile(rb"[\n\x20-\x7e]*")


def printable(text: str) -> str:
    r"""Give the text with every character that is not printable as an escape, a newline as \n."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def printable_json(data: bytes) -> bytes:
    r"""Give JSON text of the same value in which strings hold printable characters only.

    `data` is valid JSON; newlines between its tokens stay. What is not printable can only stand
    inside a string, so that it may be written as ``\uxxxx``.
    """
    if _SAFE.fullmatch(data):
        return data
    return "".join(
        char if char.isprintable() or char == "\n" else _escape(char) for char in data.decode()
    ).encode()


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
