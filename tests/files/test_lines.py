"""Blocks of whole lines: nothing is lost, numbers are right, and no long line is held."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.files.lines import LineBlock, LongLine, count_records, line_blocks


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(st.text(alphabet="{x \n\r", max_size=60).map(str.encode), st.integers(1, 20))
def test_lines_and_their_numbers_do_not_depend_on_blocks(data: bytes, size: int) -> None:
    numbered: list[tuple[int, bytes]] = []
    count = 0
    for block in line_blocks(cut(data, size), limit=1000):
        assert isinstance(block, LineBlock)
        numbered += enumerate(block.lines(), block.first)
        count += count_records(block)
        assert len(block.starts) == len(block.lines())
        longest = max(map(len, block.lines()))
        assert longest <= block.longest() <= longest + 1
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    assert numbered == list(enumerate(lines, 1))
    assert count == sum(1 for line in lines if line.strip())


def test_only_the_last_block_can_be_open() -> None:
    blocks = [*line_blocks([b"{}\n{", b"}\n{}"], limit=9)]
    assert blocks == [
        LineBlock(first=1, data=b"{}\n", open=False),
        LineBlock(first=2, data=b"{}\n", open=False),
        LineBlock(first=3, data=b"{}", open=True),
    ]


@given(st.integers(1, 30), st.integers(0, 5))
def test_a_line_over_the_limit_is_passed_over_while_it_comes(size: int, before: int) -> None:
    """Its number and size are told, lines around it stay, and no block grows with it."""
    data = b"{}\n" * before + b"x" * 5000 + b"\n{}\n" + b"y" * 5000
    blocks = [*line_blocks(cut(data, size), limit=100)]
    long = [block for block in blocks if isinstance(block, LongLine)]
    assert long == [
        LongLine(number=before + 1, size=5000),
        LongLine(number=before + 3, size=5000),
    ]
    whole = [block for block in blocks if isinstance(block, LineBlock)]
    assert b"".join(block.data for block in whole) == b"{}\n" * (before + 1)
    assert all(len(block.data) <= 100 + 2 * size for block in whole)
