"""Decompress gzip and Zstandard streams in bounded pieces, refusing damage and bombs.

Only bytes in, bytes out; which file it was and what is in it are `farm.files.source`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from farm.core.case import Breach

PIECE_BYTES: Final = 1 << 20  # the most one step gives out
BOMB_BYTES: Final = 64 << 20  # below this much output any ratio is harmless
BOMB_RATIO: Final = 250  # records compress 3 to 30 times; gzip itself ends near 1,030
_MAGIC: Final = {"gz": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd"}
# how the two libraries say that content and checksum, or length, do not agree
_CHECKS: Final = ("incorrect data check", "incorrect length check", "checksum")
_GZIP_WINDOW: Final = 31  # a gzip header, the largest window


class Damaged(Exception):
    """The stream cannot be decompressed; carries the rule it breaks, for the door to report."""

    def __init__(self, rule: str, detail: str) -> None:
        self.breach = Breach(field="", rule=rule, detail=detail)
        super().__init__(detail)


class Inflater(Protocol):
    """One member of a compressed stream, as the standard library's decompressors are."""

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more output needs more input."""

    @property
    def unused_data(self) -> bytes:
        """What was given beyond the member's end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take `data` and give at most `max_length` bytes."""


class _Gunzip:
    """zlib's object in the shape of the newer decompressors."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(_GZIP_WINDOW)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._engine.decompress(self._engine.unconsumed_tail + data, max_length)
        self.needs_input = not self._engine.unconsumed_tail
        return out


def inflate(raw: Iterable[bytes], compression: str) -> Iterator[bytes]:
    """Yield the content of a "gz" or "zst" stream in pieces of at most `PIECE_BYTES`.

    Members may follow each other, and zeros may follow the last of a gzip. Raises Damaged:
    `bad_compression` for what is no such stream, `truncated` for one cut short, `bomb` when
    the output passes `BOMB_BYTES` at over `BOMB_RATIO` times the input.
    """
    start, errors = _engine_of(compression)
    engine: Inflater | None = None
    taken = given = members = 0
    head = b""
    for data in raw:
        head = head or data
        taken += len(data)
        rest = _unpadded(data) if compression == "gz" and members and engine is None else data
        while rest or (engine is not None and not engine.needs_input):
            engine = engine or start()
            try:
                out = engine.decompress(rest, PIECE_BYTES)
            except errors as error:
                known = head.startswith(_MAGIC[compression])
                detail = _why(error, compression, given=given, known=known)
                raise Damaged("bad_compression", detail) from error
            rest = b""
            given += len(out)
            if given > BOMB_BYTES and given > BOMB_RATIO * taken:
                raise Damaged("bomb", _bomb(taken, given))
            if out:
                yield out
            if engine.eof:
                rest, engine, members = engine.unused_data, None, members + 1
                if compression == "gz":
                    rest = _unpadded(rest)
    if engine is not None:
        raise Damaged(
            "truncated",
            f"the {compression} stream is cut short after {taken} bytes: fetch the file again",
        )


def _unpadded(data: bytes) -> bytes:
    return data.lstrip(b"\0")  # tapes and block devices fill up after the last member


def _engine_of(compression: str) -> tuple[type[Inflater], type[Exception]]:
    if compression == "gz":
        return _Gunzip, zlib.error
    # loaded here: most inputs are not .zst, and the library costs every start-up
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    return zstd.ZstdDecompressor, zstd.ZstdError


def _why(error: Exception, compression: str, *, given: int, known: bool) -> str:
    """Say what is wrong with a stream; `known` is whether it begins as its kind does."""
    if any(words in str(error) for words in _CHECKS):
        return f"the {compression} stream is damaged, its checksum is wrong: fetch it again"
    if not known:
        return f"is no {compression} stream: rename it, or compress it again"
    return f"the {compression} stream is damaged after {given} bytes of content: fetch it again"


def _bomb(taken: int, given: int) -> str:
    return (
        f"grows from {taken} to more than {given} bytes, over {BOMB_RATIO} times its size: "
        "decompress it first if that is meant"
    )
