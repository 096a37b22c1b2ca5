"""A key: usable, never shown, and taken out of all that others say.

What is shown of foreign text is cut, and a part of a key is found by no search. So it is masked
whole, then cut: `shown` is the one place for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from farm.errors import SpecError

_MASK: Final = "[key]"
_PIECE: Final = 8  # characters of a key that say too much
# What is given where a server asks for no key. These are words of ordinary answers, and taken out
# of one they would change its score; so would the letters that nobody guards a server with.
_PLACEHOLDERS: Final = frozenset(
    {
        "anything", "api-key", "apikey", "default", "dummy", "empty", "fake", "key", "lm-studio",
        "local", "no-key", "none", "not-needed", "null", "ollama", "placeholder",
        "sk-no-key-required", "test", "token", "true", "unused",
    }
)  # fmt: skip
_SHORTEST: Final = 4
# Headers that say of themselves that they hold a secret, and values that look like one.
_TELLING: Final = re.compile(
    r"key|token|secret|auth|pass|credential|session|signature", re.IGNORECASE
)
_RANDOM: Final = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])\S{20,}")
# how JSON may write a character of a key
_ESCAPE: Final = re.compile(r"\\(?:u00([0-7][0-9a-fA-F])|([/\\\"]))")


class Secret:
    """A key: usable, never shown. Compares and prints as nothing.

    A word that stands for no key, and one of less than four characters, is a secret to nobody and
    is masked nowhere.
    """

    __slots__ = ("_hidden", "_text")

    def __init__(self, text: str, *, name: str) -> None:
        """Take the key that stands in the variable `name`; raises SpecError for an unusable one."""
        bare = text.strip()
        if not bare or not bare.isascii() or not bare.isprintable() or " " in bare:
            raise SpecError(
                f"the key in {name} is empty or holds characters no header can carry: set it again"
            )
        self._text = bare
        dummy = len(bare) < _SHORTEST or bare.lower() in _PLACEHOLDERS
        self._hidden = () if dummy else (bare,)

    def __repr__(self) -> str:
        return "Secret(...)"

    @classmethod
    def within(cls, key: Self | None, headers: Mapping[str, str]) -> Self | None:
        """Give what masks a key and the secrets among other headers, None where there is none.

        A header's value counts as secret when its name says so, or when it looks drawn by chance;
        of "Bearer x" the last word does. What identifies a client is left in answers.
        """
        words = [word for name, value in headers.items() if (word := _secret_in(name, value))]
        if not words:
            return key
        both = cls.__new__(cls)
        both._text = words[0] if key is None else key._text
        # the longest first: one may be a part of another
        hidden = {*words, *(() if key is None else key._hidden)}
        both._hidden = tuple(sorted(hidden, key=lambda word: (-len(word), word)))
        return both

    def reveal(self) -> str:
        """Give the key, for the header it is sent in."""
        return self._text

    def masked(self, text: str) -> str:
        """Take the key out of a text, also one that breaks off within it."""
        for hidden in self._hidden:
            text = _masked(text, hidden)
        return text

    def masked_raw(self, text: str) -> str:
        """Take the key out of a text that may be JSON and is shown undecoded.

        Where the key stands in it with escapes, the whole text is given without them.
        """
        text = self.masked(text)
        bare = _ESCAPE.sub(lambda m: m[2] or chr(int(m[1], 16)), text)
        masked = self.masked(bare)
        return text if masked == bare else masked

    def masked_json(self, value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
        """Take the key out of every text and every name within a JSON value.

        None for a value that is nested too deep to be searched.
        """
        try:
            return self._masked_json(value)
        except RecursionError:
            return None

    def _masked_json(self, value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, dict):
            return {self.masked(name): self._masked_json(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._masked_json(inner) for inner in value]
        return value


def _secret_in(name: str, value: str) -> str:
    """Give the last word of a header's value if it is a secret, else ""."""
    word = value.split()[-1] if value.split() else ""
    told = _TELLING.search(name) and len(word) >= _PIECE and word.lower() not in _PLACEHOLDERS
    return word if told or _RANDOM.fullmatch(word) else ""


def _masked(text: str, hidden: str) -> str:
    if hidden in text:
        text = text.replace(hidden, _MASK)
    piece, tail = hidden[:_PIECE], text[1 - len(hidden) :]
    if piece in tail:
        at = tail.rindex(piece)
        if hidden.startswith(tail[at:]):
            text = text[: len(text) - len(tail) + at] + _MASK
    return text


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
