"""Open an input: find out what a file is, and yield its bytes in bounded blocks.

The name decides where it can (`.json` is an array, `.jsonl` and `.ndjson` are JSON Lines, each
also with `.gz` or `.zst`), the first bytes where it cannot. Every way a file can fail to be
read ends in a SpecError naming it. What the bytes say is for `farm.files.records`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal, NoReturn

from farm.core.case import Breach
from farm.errors import Problem, SpecError
from farm.files.fresh import FreshFile
from farm.files.inflate import Damaged, inflate

Form = Literal["array", "lines"]
Compression = Literal["", "gz", "zst"]

STDIN: Final = "-"
BLOCK_BYTES: Final = 1 << 20  # what is made of a block then fits the cache of one core
_PACKED_BLOCK_BYTES: Final = 256 << 10
_BLANK: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_FORMS: Final[dict[str, Form]] = {".json": "array", ".jsonl": "lines", ".ndjson": "lines"}
_PACKINGS: Final[dict[str, Compression]] = {".gz": "gz", ".zst": "zst"}
_MAGIC: Final[tuple[tuple[bytes, Compression], ...]] = (
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An input that was looked at once and can be read as often as needed."""

    path: str  # where its bytes lie; a spooled copy for standard input
    name: str  # what messages call it
    form: Form
    compression: Compression = ""
    block_bytes: int = BLOCK_BYTES  # read at a time, when it is not compressed

    @property
    def unit(self) -> str:
        """The word for a record's place in this input."""
        return "index" if self.form == "array" else "line"

    def problem(self, breach: Breach, number: int | None = None) -> Problem:
        """Say where in this input a rule was broken; without a number, the file as a whole."""
        place = "" if number is None else f"{self.unit} {number}"
        return problem_in(self.name, breach, place=place)

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, decompressed and without a leading BOM, in blocks of about a MiB.

        Raises SpecError when the file cannot be read or decompressed to its end.
        """
        yield from _content(self.path, self.name, self.compression, size=self.block_bytes)


def problem_in(name: str, breach: Breach, *, place: str = "") -> Problem:
    """Return the breach as a problem of the file called `name`."""
    return Problem(
        file=name, place=place, field=breach.field, rule=breach.rule, detail=breach.detail
    )


def must_spool(path: str) -> bool:
    """Return whether an input can be read only once: standard input, a pipe, a device.

    A run reads its input more than once, so such an input is copied by `spool` first.
    """
    if path == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False  # find_source names what is wrong with it
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def refuse_device(fd: int, path: str) -> None:
    """Refuse what never ends, as /dev/zero, or is a whole disk; raises SpecError.

    A terminal ends when a person says so, and /dev/null at once.
    """
    status = os.fstat(fd)
    if stat.S_ISCHR(status.st_mode):
        endless = status.st_rdev != os.stat(os.devnull).st_rdev and not os.isatty(fd)
    else:
        endless = stat.S_ISBLK(status.st_mode)
    if endless:
        _refuse(_name_of(path), "not_a_file", "is a device: give one file")


def spool(stream: BinaryIO, path: str, *, given: str = STDIN, max_line_bytes: int) -> None:
    """Copy a stream that can be read only once to a new file at `path`, mode 0600.

    The copy is not synced: it is scratch, and the caller removes it. What is no input by its
    first block, or by a first line longer than any record, is not copied to its end, which it may
    not have. `given` is what the user called it, as in `find_source`. Raises SpecError for such a
    stream and for one that cannot be read, StorageError when the disk will not take the copy.
    """
    lines = ended = False
    with FreshFile(path) as copy:
        while block := _next_of(stream):
            copy.write(block)
            if len(block) < BLOCK_BYTES and stream.isatty():
                return  # its end was met; a terminal would be asked for another one
            if copy.size == len(block) == BLOCK_BYTES:
                lines = _begins_with_lines(path, given)
            ended = ended or b"\n" in block
            if lines and not ended and copy.size > max_line_bytes:
                detail = (
                    f"is over {max_line_bytes} bytes long, and the rest was not read: shorten it "
                    "or raise --max-text-bytes"
                )
                breach = Breach(field="", rule="line_too_long", detail=detail)
                raise SpecError(problems=[problem_in(_name_of(given), breach, place="line 1")])


def _begins_with_lines(copy: str, given: str) -> bool:
    """Tell by the first block of an input whether it is plain JSON Lines; raises if it is none.

    What may be mended by the blocks behind it is left to whoever has them all.
    """
    try:
        source = find_source(copy, spooled_from=given)
    except SpecError as error:
        if {problem.rule for problem in error.problems} & {"wrong_format", "bad_unicode"}:
            raise
        return False
    return source.form == "lines" and not source.compression


def _next_of(stream: BinaryIO) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except OSError as error:  # standard input may be a directory, or a terminal that went away
        _refuse("<stdin>", "unreadable", f"cannot be read, {_reason(error)}: give a file")


def find_source(path: str, *, spooled_from: str = "") -> Source:
    """Look at the input at `path` and return how to read it.

    For a copy made by `spool`, `spooled_from` is what the user called it: its name decides the
    form, and messages use it. Raises SpecError: `missing_file`, `not_a_file`, `unreadable`,
    `empty_file`, `wrong_format`, `bad_unicode`, and what decompression can find.
    """
    given = spooled_from or path
    name = _name_of(given)
    stem, packing = os.path.splitext(given.lower())
    compression = _PACKINGS.get(packing, "")
    if compression:
        packing = os.path.splitext(stem)[1]
    elif packing not in _FORMS:
        compression = _packing_by_magic(path, name)
    head = _head(path, name, compression)
    form = _FORMS.get(packing)
    if not compression:
        _refuse_packed(head, given, name)
    _refuse_other_form(head, form, name)
    return Source(
        path=path,
        name=name,
        form=form or ("array" if head.startswith(b"[") else "lines"),
        compression=compression,
    )


def _name_of(path: str) -> str:
    """Give what messages call an input."""
    if path == STDIN:
        return "<stdin>"
    return path if path.isprintable() else repr(path)


def _refuse(name: str, rule: str, detail: str) -> NoReturn:
    raise SpecError(problems=[problem_in(name, Breach(field="", rule=rule, detail=detail))])


def _raw_blocks(path: str, name: str, size: int) -> Generator[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        _refuse(name, "missing_file", "does not exist: check the path")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        _refuse(name, "unreadable", f"cannot be opened, {_reason(error)}: check the path")
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            _refuse(name, "not_a_file", "is a directory: give one file")
        while block := os.read(fd, size):
            yield block
    except OSError as error:
        _refuse(name, "unreadable", f"cannot be read, {_reason(error)}: check the disk")
    finally:
        os.close(fd)


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _content(
    path: str, name: str, compression: Compression, *, size: int = BLOCK_BYTES
) -> Generator[bytes]:
    """Yield the content without its BOM; a first block is never shorter than a BOM can be."""
    if compression:
        size = _PACKED_BLOCK_BYTES
    # closed by hand, so that the file does not stay open until the collector comes by
    with closing(_raw_blocks(path, name, size)) as raw:
        blocks = inflate(raw, compression) if compression else raw
        try:
            head = b""
            for block in blocks:
                if len(head) >= len(_BOM):
                    yield block
                    continue
                head += block
                if len(head) >= len(_BOM):
                    yield head.removeprefix(_BOM)
            if 0 < len(head) < len(_BOM):
                yield head
        except Damaged as error:
            breach = error.breach
            raise SpecError(problems=[problem_in(name, breach)]) from error


def _packing_by_magic(path: str, name: str) -> Compression:
    with closing(_raw_blocks(path, name, 4)) as raw:
        start = next(raw, b"")
    return next((packing for magic, packing in _MAGIC if start.startswith(magic)), "")


def _head(path: str, name: str, compression: Compression) -> bytes:
    """Return the content from its first byte that is not blank, as far as one block goes."""
    with closing(_content(path, name, compression)) as blocks:
        for block in blocks:
            if block.startswith(_UTF16):
                _refuse(name, "bad_unicode", "is UTF-16: convert it to UTF-8")
            if head := block.lstrip(_BLANK):
                return head
    _refuse(name, "empty_file", "holds no record: give at least one")


def _refuse_packed(head: bytes, given: str, name: str) -> None:
    """Refuse a compressed file whose name says that it is none."""
    for magic, packing in _MAGIC:
        if head.startswith(magic):
            whole = "gzip" if packing == "gz" else "zstd"
            way_out = f"name it {os.path.splitext(given)[1]}.{packing}"
            _refuse(name, "wrong_format", f"is compressed by {whole}, its name says it is not: "
                    f"{way_out}")  # fmt: skip


def _refuse_other_form(head: bytes, form: Form | None, name: str) -> None:
    """Refuse a file whose first byte contradicts its name, or says nothing at all."""
    first = head[:1]
    if form == "array" and first == b"{":
        first_line, _, rest = head.partition(b"\n")
        several = first_line.rstrip().endswith(b"}") and rest.lstrip(_BLANK).startswith(b"{")
        found, way_out = (
            ("JSON Lines", "name it .jsonl")
            if several
            else ("one JSON object", "put it in [ ], or name it .jsonl if it is a record a line")
        )
        _refuse(name, "wrong_format", f"a JSON array is expected, this is {found}: {way_out}")
    if form == "array" and first != b"[":
        _refuse(name, "wrong_format", f"a JSON array is expected, it starts with {_text(first)}")
    if form == "lines" and first == b"[":
        _refuse(name, "wrong_format", "one record a line is expected, this is a JSON array: "
                "name it .json")  # fmt: skip
    if form is None and first not in (b"[", b"{"):
        _refuse(name, "wrong_format", "is neither a JSON array nor JSON Lines, it starts with "
                f"{_text(first)}: convert it to one of the two")  # fmt: skip


def _text(byte: bytes) -> str:
    return repr(byte.decode("latin-1"))
