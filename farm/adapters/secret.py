"""A key: usable, never shown, and taken out of all that others say.

What is shown of foreign text is cut, and a part of a key is found by no search. So it is masked
whole, then cut: `shown` is the one place for both.
"""

from __future__ import annotations

import re
from typing import Final

from farm.errors import SpecError

_MASK: Final = "[key]"
_PIECE: Final = 8  # characters of a key that say too much
# how JSON may write a character of a key
_ESCAPE: Final = re.compile(r"\\(?:u00([0-7][0-9a-fA-F])|([/\\\"]))")


class Secret:
    """A key: usable, never shown. Compares and prints as nothing."""

    __slots__ = ("_piece", "_text")

    def __init__(self, text: str, *, name: str) -> None:
        """Take the key that stands in the variable `name`; raises SpecError for an unusable one."""
        bare = text.strip()
        if not bare or not bare.isascii() or not bare.isprintable() or " " in bare:
            raise SpecError(
                f"the key in {name} is empty or holds characters no header can carry: set it again"
            )
        self._text = bare
        self._piece = bare[:_PIECE]

    def __repr__(self) -> str:
        return "Secret(...)"

    def reveal(self) -> str:
        """Give the key, for the header it is sent in."""
        return self._text

    def masked(self, text: str) -> str:
        """Take the key out of a text, also one that breaks off within it."""
        if self._text in text:
            text = text.replace(self._text, _MASK)
        tail = text[1 - len(self._text) :] if len(self._text) > 1 else ""
        if self._piece in tail:
            at = tail.rindex(self._piece)
            if self._text.startswith(tail[at:]):
                text = text[: len(text) - len(tail) + at] + _MASK
        return text

    def masked_raw(self, text: str) -> str:
        """Take the key out of a text that may be JSON and is shown undecoded.

        Where the key stands in it with escapes, the whole text is given without them.
        """
        text = self.masked(text)
        bare = _ESCAPE.sub(lambda m: m[2] or chr(int(m[1], 16)), text)
        masked = self.masked(bare)
        return text if masked == bare else masked


def shown(text: str, key: Secret | None, *, most: int) -> str:
    """Give the beginning of what somebody else said, without the key."""
    return (text if key is None else key.masked(text))[:most]


def variable_shown(name: str) -> str:
    """Give the name of a variable that is not set, unless it may be a key itself.

    Keys are pasted where the name of their variable belongs; few are all in upper case.
    """
    return name if name == name.upper() else "named there (not shown: it may be the key itself)"


def quoted(data: bytes, key: Secret | None, *, most: int) -> str:
    """Give the beginning of bytes that could not be read, as a text between quotes."""
    text = data.decode("utf-8", "replace")
    return repr((text if key is None else key.masked_raw(text))[:most])
