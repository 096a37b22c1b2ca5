"""Cut a JSON array into its elements, each still the bytes it was written in.

A sound array takes one pass of the fast decoder. For a broken one a slow walk finds the
element that breaks it, so that those before it can still be examined.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from farm.core.case import Breach

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
# Read as latin-1 a character is a byte, so positions are byte offsets. Numbers stay text: an
# integer of a million digits must cost nothing here.
_WALKER: Final = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The elements of an array up to its end, or up to where it breaks."""

    items: list[msgspec.Raw]
    breach: Breach | None = None
    broken_at: int | None = None  # the index of the broken element; None: the array as a whole


def split_array(data: bytes | bytearray) -> Elements:
    """Return the elements of a JSON array; they share the memory of `data`.

    The elements are only known to be well formed as far as the fast decoder looks when it
    skips; whoever decodes them must check each in full.
    """
    try:
        raws = _RAWS.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _walk(data)
    return Elements(items=raws)


def _walk(data: bytes | bytearray) -> Elements:
    view, text = memoryview(data), data.decode("latin-1")
    items: list[msgspec.Raw] = []

    def skip(position: int) -> int:
        blanks = _BLANKS.match(text, position)
        return blanks.end() if blanks else position

    def broken(breach: Breach, *, whole: bool = False) -> Elements:
        return Elements(items=items, breach=breach, broken_at=None if whole else len(items))

    position = skip(skip(0) + 1)  # the caller saw the bracket
    while text[position : position + 1] != "]" or items:
        try:
            _, end = _WALKER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            return broken(_unreadable(error, len(text.rstrip())))
        items.append(msgspec.Raw(view[position:end]))
        position = skip(end)
        separator = text[position : position + 1]
        if separator == "]":
            break
        if separator != ",":
            return broken(_no_separator(position, separator), whole=not separator)
        position = skip(position + 1)
    rest = skip(position + 1)
    if rest < len(text):
        return broken(trailing(f"byte {rest + 1}"), whole=True)
    return Elements(items=items)


def trailing(where: str) -> Breach:
    """Say that something follows what should have been all."""
    return Breach(
        field="",
        rule="trailing_document",
        detail=f"more text follows the end of the JSON value at {where}: remove it",
    )


def too_deep() -> Breach:
    """Say that a value is nested beyond what any record needs."""
    return Breach(field="", rule="bad_json", detail="is nested too deep: flatten it")


def _no_separator(position: int, found: str) -> Breach:
    if not found:
        return _cut()
    detail = f"a comma or ] is expected at byte {position + 1}, found {found!r}: mend the array"
    return Breach(field="", rule="bad_json", detail=detail)


def _unreadable(error: ValueError | RecursionError, end: int) -> Breach:
    if not isinstance(error, json.JSONDecodeError):
        return too_deep()
    if error.pos >= end or error.msg.startswith("Unterminated string"):
        return _cut()
    detail = f"is not JSON at byte {error.pos + 1}, {error.msg.lower()}: mend the record"
    return Breach(field="", rule="bad_json", detail=detail)


def _cut() -> Breach:
    return Breach(
        field="", rule="truncated", detail="the array ends before its ]: fetch the file again"
    )
