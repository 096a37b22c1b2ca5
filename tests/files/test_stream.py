"""Standard streams: a reader that is slow is waited for, one that stalls only as long as told."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from farm.files.stream import reader_left, write_in_time, write_stream


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # the test closed it
            continue


def fill(fd: int) -> int:
    """Fill a pipe to the brim; give how much that was."""
    os.set_blocking(fd, False)
    filled = 0
    while True:
        try:
            filled += os.write(fd, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(fd, True)
            return filled


def test_a_pipe_that_does_not_block_gets_all_of_it(pipe: tuple[int, int]) -> None:
    """As a caller leaves it who reads with an event loop; it takes a piece at a time."""
    out, into = pipe
    os.set_blocking(into, False)
    data = bytes(range(256)) * 4096  # a MiB, sixteen times what a pipe holds
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(read_to(out, len(data))), daemon=True)
    reader.start()
    write_stream(into, data)
    reader.join(30)
    assert b"".join(read) == data


def test_a_reader_who_takes_nothing_is_given_up(pipe: tuple[int, int]) -> None:
    out, into = pipe
    filled = fill(into)
    assert not write_in_time(into, b"line\n", timeout_s=0.01)
    read_to(out, filled)
    assert write_in_time(into, b"line\n", timeout_s=0.01)
    assert os.read(out, 99) == b"line\n"


def test_it_is_seen_without_writing_that_the_reader_left(pipe: tuple[int, int]) -> None:
    out, into = pipe
    assert not reader_left(into, within_s=0.001)
    os.close(out)
    assert reader_left(into, within_s=30)


def read_to(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(fd, size - len(data))
    return data
