"""Opening an input: each way it can fail has one clear message, and memory stays bounded."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.errors import SpecError, StorageError
from farm.files import inflate as inflating
from farm.files.inflate import Damaged, inflate
from farm.files.source import Source, find_source, must_spool, refuse_device, spool

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RECORD = b'{"id":"a","prompt":"p","expected":"e","response":"r"}\n'
ARRAY = b"[" + RECORD + b"]"
LINE = 3_200_000  # bytes that a record has at most, by default


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def content(source: Source) -> bytes:
    return b"".join(source.blocks())


def refusal(path: str) -> tuple[str, str, str]:
    """The (file, rule, detail) of the one problem an input has."""
    with pytest.raises(SpecError) as caught:
        content(find_source(path))
    (problem,) = caught.value.problems
    return problem.file, problem.rule, problem.detail


def flipped(data: bytes, place: int) -> bytes:
    wrong = bytearray(data)
    wrong[place] ^= 0xFF
    return bytes(wrong)


WITH_CHECKSUM: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("crc.jsonl.gz", flipped(gzip.compress(RECORD, mtime=0), -8)),  # RFC 1952: CRC32, ISIZE
        ("length.jsonl.gz", flipped(gzip.compress(RECORD, mtime=0), -1)),
        ("sum.jsonl.zst", flipped(zstd.compress(RECORD, options=WITH_CHECKSUM), -1)),
    ],
)
def test_a_small_file_with_a_wrong_checksum_is_called_damaged(
    name: str, data: bytes, tmp_path: Path
) -> None:
    """All of it comes at once, so that nothing was given out before the check; it is a gz still."""
    _, rule, detail = refusal(write(tmp_path / name, data))
    kind = name.rpartition(".")[2]
    assert rule == "bad_compression"
    assert detail == f"the {kind} stream is damaged, its checksum is wrong: fetch it again"


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("a.json", ARRAY, "array"),
        ("a.JSON", ARRAY, "array"),
        ("a.jsonl", RECORD, "lines"),
        ("a.ndjson", RECORD, "lines"),
        ("a", RECORD, "lines"),
        ("a.txt", b"\n \r\n" + ARRAY, "array"),
        ("a.json.gz", gzip.compress(ARRAY, mtime=0), "array"),
        ("a.gz", gzip.compress(RECORD, mtime=0), "lines"),
        ("a.jsonl.zst", zstd.compress(RECORD), "lines"),
        ("a.data", gzip.compress(RECORD, mtime=0), "lines"),
        ("a.data", zstd.compress(ARRAY), "array"),
    ],
)
def test_name_and_first_bytes_say_how_to_read(
    tmp_path: Path, name: str, data: bytes, form: str
) -> None:
    """The name decides where it can, the content where it cannot."""
    source = find_source(write(tmp_path / name, data))
    assert source.form == form
    assert content(source).strip() in (RECORD.strip(), ARRAY)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    assert content(find_source(write(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + RECORD))) == RECORD
    # at the start of a file only
    twice = b"\xef\xbb\xbf" * 2 + RECORD
    assert content(find_source(write(tmp_path / "b.jsonl", twice))) == twice[3:]


@pytest.mark.parametrize(
    ("name", "data", "rule", "words"),
    [
        ("a.jsonl", b"", "empty_file", "no record"),
        ("a.jsonl", b"\xef\xbb\xbf", "empty_file", "no record"),
        ("a.json", b" \n\r\n\t", "empty_file", "no record"),
        ("a.json.gz", b"", "empty_file", "no record"),
        ("a.json", RECORD, "wrong_format", "JSON array is expected, this is one JSON object"),
        ("a.json", RECORD * 2, "wrong_format", "this is JSON Lines: name it .jsonl"),
        ("a.json", b"{}", "wrong_format", "JSON array is expected"),
        ("a.json", b'"x"', "wrong_format", "starts with '\"'"),
        ("a.jsonl", ARRAY, "wrong_format", "this is a JSON array: name it .json"),
        ("a.csv", b"id,prompt\n", "wrong_format", "neither a JSON array nor JSON Lines"),
        ("a.jsonl", RECORD.decode().encode("utf-16"), "bad_unicode", "UTF-16"),
        ("a.jsonl.gz", RECORD, "bad_compression", "is no gz stream"),
        ("a.jsonl.zst", RECORD, "bad_compression", "is no zst stream"),
        ("a.jsonl.gz", gzip.compress(RECORD, mtime=0)[:-9], "truncated", "gz stream is cut short"),
        ("a.jsonl.zst", zstd.compress(RECORD)[:-2], "truncated", "zst stream is cut short"),
        (
            "a.jsonl.gz",
            gzip.compress(RECORD, mtime=0) + b"junk",
            "bad_compression",
            "damaged after",
        ),
    ],
)
def test_what_cannot_be_read_has_one_clear_message(
    tmp_path: Path, name: str, data: bytes, rule: str, words: str
) -> None:
    path = write(tmp_path / name, data)
    assert refusal(path)[:2] == (path, rule)
    assert words in refusal(path)[2]


def test_what_is_not_there_has_one_clear_message(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.jsonl")
    assert refusal(missing) == (missing, "missing_file", "does not exist: check the path")
    assert refusal(str(tmp_path))[1:] == ("not_a_file", "is a directory: give one file")
    assert refusal("a\0b")[:2] == ("'a\\x00b'", "unreadable")
    assert refusal("x" * 5000)[1] == "unreadable"


def test_what_the_system_will_not_open_is_named_with_its_reason(tmp_path: Path) -> None:
    os.symlink("loop.jsonl", tmp_path / "loop.jsonl")
    assert refusal(str(tmp_path / "loop.jsonl"))[1:] == (
        "unreadable",
        "cannot be opened, too many levels of symbolic links: check the path",
    )


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path, pack: object) -> None:
    """80 MiB of zeros pack over 1,000 times; reading stops past 64 MiB of them."""
    assert callable(pack)
    ending = "gz" if pack is gzip.compress else "zst"
    packed = pack(RECORD + b" " * (80 << 20))
    assert len(packed) * 250 < 80 << 20
    name, rule, detail = refusal(write(tmp_path / f"a.jsonl.{ending}", packed))
    assert (name, rule) == (str(tmp_path / f"a.jsonl.{ending}"), "bomb")
    assert detail.endswith("decompress it first if that is meant")


def test_pieces_of_a_bomb_are_bounded_too() -> None:
    packed = gzip.compress(b" " * (40 << 20))
    sizes = [len(piece) for piece in inflate([packed], "gz")]
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= inflating.PIECE_BYTES


@given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from(["gz", "zst"]), st.data())
def test_members_and_cuts_anywhere_give_the_same_content(
    data: bytes, size: int, compression: str, draw: st.DataObject
) -> None:
    """Concatenated members are one stream, fed in pieces of any size; less is truncated."""
    pack = gzip.compress if compression == "gz" else zstd.compress
    packed = pack(data) + pack(data[::-1])
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(inflate(pieces, compression)) == data + data[::-1]
    end = draw.draw(st.integers(len(pack(data)) + 1, len(packed) - 1))
    with pytest.raises(Damaged) as caught:
        list(inflate([packed[:end]], compression))
    assert caught.value.breach.rule == "truncated"


def test_zeros_after_a_gzip_are_padding() -> None:
    assert list(inflate([gzip.compress(b"x", mtime=0) + bytes(9), bytes(9)], "gz")) == [b"x"]


def test_standard_input_is_spooled_so_that_it_can_be_read_twice(tmp_path: Path) -> None:
    copy = str(tmp_path / "spool")
    spool(io.BytesIO(gzip.compress(RECORD, mtime=0)), copy, max_line_bytes=LINE)
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    source = find_source(copy, spooled_from="-")
    assert (source.name, source.form) == ("<stdin>", "lines")
    assert content(source) == content(source) == RECORD
    with pytest.raises(StorageError, match="file exists"):
        spool(io.BytesIO(b""), copy, max_line_bytes=LINE)


def test_a_stream_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """`farm run --input - < DIRECTORY` gives a descriptor that opens and does not read."""
    fd = os.open(tmp_path, os.O_RDONLY)

    class Directory(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            return len(os.read(fd, 1))

    with pytest.raises(SpecError, match="<stdin>: cannot be read, is a directory"):
        spool(io.BufferedReader(Directory()), str(tmp_path / "spool"), max_line_bytes=LINE)
    os.close(fd)


def test_pipes_and_standard_input_must_be_spooled(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert must_spool("-")
    assert must_spool(str(tmp_path / "pipe"))
    for name in (write(tmp_path / "a.jsonl", RECORD), str(tmp_path), "none", "a\0b"):
        assert not must_spool(name)


def test_a_hostile_name_cannot_forge_a_line_of_the_message(tmp_path: Path) -> None:
    path = str(tmp_path / "a\nall is well.jsonl")
    assert "\n" not in refusal(path)[0]


def test_one_end_of_input_at_a_terminal_is_enough(tmp_path: Path) -> None:
    """A terminal goes on after Ctrl-D, and a read behind it would wait for a second one."""

    class Terminal(io.RawIOBase):
        reads = iter([RECORD, b""])

        def readable(self) -> bool:
            return True

        def isatty(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            said = next(self.reads)  # a third read fails the test
            buffer[: len(said)] = said
            return len(said)

    copy = tmp_path / "spool"
    spool(io.BufferedReader(Terminal()), str(copy), max_line_bytes=LINE)
    assert copy.read_bytes() == RECORD


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson"])
@pytest.mark.parametrize(
    ("packed", "kind", "ending"),
    [(gzip.compress(RECORD, mtime=0), "gzip", "gz"), (zstd.compress(RECORD), "zstd", "zst")],
)
def test_a_compressed_file_under_a_plain_name_is_told_its_name(
    packed: bytes, kind: str, ending: str, name: str, tmp_path: Path
) -> None:
    _, rule, detail = refusal(write(tmp_path / name, packed))
    own = f".{name.partition('.')[2]}"
    assert rule == "wrong_format"
    assert detail == f"is compressed by {kind}, its name says it is not: name it {own}.{ending}"


class Endless(io.RawIOBase):
    """A stream that says the same for ever, or here until it has been read for too long."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self.next, self.rest = first, rest
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        said = self.next or (self.rest * (len(buffer) // len(self.rest) + 1))[: len(buffer)]
        self.next = b""
        buffer[: len(said)] = said
        self.read_bytes += len(said)
        assert self.read_bytes < 16 << 20, "it is read for ever"
        return len(said)


@pytest.mark.parametrize(
    ("first", "rest", "message"),
    [
        (b"", b"\0", "<stdin>: is neither a JSON array nor JSON Lines, it starts with '\\x00'"),
        (b"", b"y\n", "<stdin>: is neither a JSON array nor JSON Lines, it starts with 'y'"),
        (b"\xff\xfe", b"{\0", "<stdin>: is UTF-16"),
        (b'{"id":"', b"a", "<stdin>: line 1: is over 3200000 bytes long"),
    ],
    ids=["zeros", "words", "utf-16", "line"],
)
def test_a_stream_that_is_no_input_is_not_copied_for_ever(
    first: bytes, rest: bytes, message: str, tmp_path: Path
) -> None:
    """It would fill the disk before a byte of it is judged."""
    stream = io.BufferedReader(Endless(first, rest))
    with pytest.raises(SpecError) as caught:
        spool(stream, str(tmp_path / "spool"), max_line_bytes=LINE)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "begins",
    [b" " * (2 << 20), b"\n" * (2 << 20), b'[{"id":"' + b"a" * (4 << 20)],
    ids=["blank", "lines", "array"],
)
def test_what_its_first_block_does_not_tell_is_copied_whole(begins: bytes, tmp_path: Path) -> None:
    copy = tmp_path / "spool"
    spool(io.BytesIO(begins + RECORD), str(copy), max_line_bytes=LINE)
    assert copy.read_bytes() == begins + RECORD


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full"])
def test_a_device_is_no_file(device: str) -> None:
    fd = os.open(device, os.O_RDONLY)
    with pytest.raises(SpecError, match=f"{device}: is a device: give one file"):
        refuse_device(fd, device)
    os.close(fd)


def test_what_ends_is_no_device() -> None:
    """A terminal ends with Ctrl-D, nothing at once, a pipe when its writer is done."""
    ending = (*os.openpty(), *os.pipe(), os.open(os.devnull, os.O_RDONLY))
    for fd in ending:
        refuse_device(fd, "-")
    for fd in ending:
        os.close(fd)
