"""Cut a stream of blocks into blocks of whole lines, and count records without parsing them.

A line longer than its bound is never held: its bytes pass by until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from farm.core.case import Breach

BLANK: Final = b" \t\r"  # a line of nothing else holds no record
# Where one of these is missing, no line of the block is blank.
_BLANK_SIGNS: Final = (b"\n\n", b"\n\r", b"\n ", b"\n\t")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines of an input, the first of them with its number in the file."""

    first: int
    data: bytes  # each line ended by a newline, but for the last one of an open block
    open: bool  # the file ended before the last line did

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
            whole = data[:end]
            yield LineBlock(first=number, data=whole, open=False)
            number += whole.count(b"\n")
        held = data[end:]
        if len(held) > limit:
            passed, held = len(held), b""
    if passed:
        yield LongLine(number=number, size=passed)
    elif held:
        yield LineBlock(first=number, data=held, open=True)


def count_records(block: LineBlock) -> int:
    """Return the number of lines of a block that are not blank."""
    data = block.data
    begins_blank = data[:1] in (b"\n", b"\r", b" ", b"\t")
    if begins_blank or any(sign in data for sign in _BLANK_SIGNS):
        return sum(1 for line in block.lines() if line.strip(BLANK))
    return data.count(b"\n") + block.open
