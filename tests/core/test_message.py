"""What a supervisor and its workers say to each other, and how a stream is cut into lines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.message import (
    MAX_LINE_BYTES,
    Assignment,
    Batch,
    LineSplitter,
    Message,
    ProtocolError,
    Ready,
    Scored,
    Started,
    Stopped,
    decode_batch,
    decode_message,
    encode_line,
)
from tests.examples import reference

BATCH = Batch(assignments=(Assignment(shard="shard-0", version=2, until=99),))


def test_a_batch_is_one_line_of_json() -> None:
    line = b'{"assignments":[{"shard":"shard-0","version":2,"until":99}]}\n'
    assert encode_line(BATCH) == line
    assert decode_batch(line) == BATCH


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Ready(worker_pid=7), b'{"event":"worker.ready","worker_pid":7}\n'),
        (
            Started(shard="shard-0", version=2),
            b'{"event":"shard.started","shard":"shard-0","version":2}\n',
        ),
        (
            Stopped(reason="no\nspace", exit_code=3),
            b'{"event":"worker.stopped","reason":"no\\nspace","exit_code":3}\n',
        ),
    ],
)
def test_a_message_is_one_line_of_json_that_says_what_it_is(message: Message, line: bytes) -> None:
    assert encode_line(message) == line
    assert decode_message(line) == message


def test_an_announced_receipt_carries_its_digest_and_totals() -> None:
    message = Scored(shard="shard-0", version=2, receipt=reference("a"))
    assert decode_message(encode_line(message)) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"hello",
        b"\xff\xfe",
        b'{"event":"worker.exploded"}',
        b'{"worker_pid":7}',
        b'{"event":"worker.ready"}',
        b'{"event":"worker.ready","worker_pid":"7"}',
        b'{"event":"shard.started","shard":"shard-0"}',
        b'{"event":"shard.scored","shard":"s","version":1,"receipt":{}}',
        b'{"event":"worker.ready","worker_pid":7} {}',
        b'{"event":"worker.ready","x":' + b"[" * 500_000,
    ],
)
def test_a_line_that_is_no_message_is_a_breach_of_protocol(line: bytes) -> None:
    """A library's print, a cut line, a lie: the worker fails, the run does not."""
    with pytest.raises(ProtocolError, match="is not a message"):
        decode_message(line)


@pytest.mark.parametrize("line", [b"", b"[]", b'{"assignments":[{}]}', b'{"assignments":[],"x":1}'])
def test_a_line_that_is_no_batch_is_a_breach_of_protocol(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="is not a batch"):
        decode_batch(line)


def test_the_message_of_a_breach_shows_the_beginning_of_the_line_only() -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_message(b"\x1b[2J" + b"x" * 100_000)
    assert str(refused.value).startswith(r"b'\x1b[2Jxxx")
    assert len(str(refused.value)) < 400


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=20))
def test_lines_are_the_same_however_the_stream_is_cut_into_chunks(
    stream: bytes, cuts: list[int]
) -> None:
    """A pipe gives what it has: half a line, three lines, one byte of a character."""
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = LineSplitter()
    lines = [line for start, end in pairwise(edges) for line in splitter.feed(stream[start:end])]
    assert [*lines, *splitter.feed(b"\n")] == stream.split(b"\n")


def test_an_unfinished_last_line_is_kept_apart() -> None:
    """A worker killed in mid-sentence said nothing by its half line."""
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.feed(b"o\n") == [b"two"]
    assert splitter.feed(b"\n") == [b""]  # nothing of it is left over


@pytest.mark.parametrize("end", [b"", b"\n", b"\nshort\n"])
def test_a_line_over_the_limit_is_refused_whether_it_ends_or_not(end: bytes) -> None:
    splitter = LineSplitter(max_bytes=10)
    assert splitter.feed(b"x" * 10) == []
    with pytest.raises(ProtocolError) as refused:
        splitter.feed(b"y" + end)
    assert str(refused.value) == "a line of over 10 bytes, it begins b'xxxxxxxxxxy'"


def test_a_line_of_exactly_the_limit_is_a_line() -> None:
    assert LineSplitter(max_bytes=10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
    assert MAX_LINE_BYTES == 1_048_576
