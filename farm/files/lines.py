"""Cut a stream of blocks into blocks of whole lines, and count records without parsing them.

A line longer than its bound is never held: its bytes pass by until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from farm.core.case import Breach

_NEWLINE: Final = 0x0A
_BRACE: Final = 0x7B
BLANK: Final = b" \t\r"  # a line of nothing else holds no record


@dataclass(frozen=True, kw_only=True)  # no slots: `starts` is worked out once, when asked for
class LineBlock:
    """Whole lines of an input, the first of them with its number in the file."""

    first: int
    data: bytes  # each line ended by a newline, but for the last one of an open block
    open: bool  # the file ended before the last line did

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each line begins."""
        starts = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _NEWLINE) + 1
        return np.concatenate(([0], starts if self.open else starts[:-1]))

    def longest(self) -> int:
        """Return the size of the longest line in bytes, at most one too many."""
        return int(np.diff(self.starts, append=len(self.data)).max())

    def each_begins_with(self, byte: int) -> bool:
        """Return whether the first byte of every line is `byte`; a blank line's is not."""
        return bool((np.frombuffer(self.data, dtype=np.uint8)[self.starts] == byte).all())

    def lines(self) -> list[bytes]:
        """Return the lines without their newlines."""
        lines = self.data.split(b"\n")
        if not self.open:
            lines.pop()  # what follows the last newline
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLine:
    """A line that was passed over because it is longer than the bound."""

    number: int
    size: int

    def breach(self, limit: int) -> Breach:
        """Say so."""
        return line_too_long(self.size, limit=limit)


def line_too_long(size: int, *, limit: int) -> Breach:
    """Say that a record of `size` bytes was not parsed."""
    return Breach(
        field="",
        rule="line_too_long",
        detail=f"has {size} bytes, the limit is {limit}: shorten it or raise --max-text-bytes",
    )


def line_blocks(blocks: Iterable[bytes], *, limit: int) -> Iterator[LineBlock | LongLine]:
    """Yield the same bytes cut at newlines; a line that spans blocks is held up to `limit`.

    A line over the limit inside one block is left to the reader of the block; one that would
    have to be held is passed over and yielded as a LongLine. Memory stays below the limit
    plus two blocks.
    """
    number, held, passed = 1, b"", 0
    for block in blocks:
        if passed:
            end = block.find(b"\n")
            if end < 0:
                passed += len(block)
                continue
            yield LongLine(number=number, size=passed + end)
            number, passed, block = number + 1, 0, block[end + 1 :]
        data = held + block
        end = data.rfind(b"\n") + 1
        if end:
            lines = LineBlock(first=number, data=data[:end], open=False)
            yield lines
            number += len(lines.starts)
        held = data[end:]
        if len(held) > limit:
            passed, held = len(held), b""
    if passed:
        yield LongLine(number=number, size=passed)
    elif held:
        yield LineBlock(first=number, data=held, open=True)


def count_records(block: LineBlock) -> int:
    """Return the number of lines of a block that are not blank."""
    # a line that begins with a brace is not blank, and telling so is cheap
    if block.each_begins_with(_BRACE):
        return len(block.starts)
    return sum(1 for line in block.lines() if line.strip(BLANK))
