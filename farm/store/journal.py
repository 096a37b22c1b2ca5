"""The event file of a store: append only, numbered, one writer at a time.

The caller holds the store's commit lock, so numbers rise by one whoever writes. A line is
appended after the commit it tells of and is not synced: what a power cut takes away is appended
anew from the ledger, marked as recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from farm.core.event import MAX_LINE_BYTES, Event, Note, decode_event, encode_event, stamp
from farm.core.ledger import Ledger
from farm.core.progress import fold, missing_events
from farm.errors import Corrupt
from farm.files.atomic import open_written, storage_errors, write_fully

_TAIL_BYTES = 4 * MAX_LINE_BYTES  # holds the last whole line and a torn one behind it


class Journal:
    """Appends events to `path` and reads them back."""

    def __init__(
        self, path: str, *, run_id: str, invocation_id: str, clock: Callable[[], float]
    ) -> None:
        self.path = path
        self._run_id = run_id
        self._invocation_id = invocation_id
        self._clock = clock
        self._fd = -1
        self._caught_up = False  # with the ledger, which is ahead when a process was killed
        self._size = -1  # of the file after our own last append; -1 when that is not known
        self._seq = 0

    def catch_up(self, ledger: Ledger, cases: Mapping[str, int]) -> None:
        """Append what the file does not tell of `ledger`, unless that is known to be nothing.

        Called before a commit, so that a damaged file (`Corrupt`) stops it in time and what the
        commit itself tells is not told twice. `cases` is the number of cases of each shard.
        """
        if not self._caught_up:
            told = fold(self.read())
            self.append(missing_events(ledger, told, cases))
            self._caught_up = True

    def append(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp and append `notes`; no notes leave the file as it is."""
        if not notes:
            return []
        self.open()
        with storage_errors(self.path):
            size = os.fstat(self._fd).st_size
            if size != self._size:  # somebody else wrote since, or this is our first append
                size = self._settle(size)
            events = self._stamp(notes, after=self._seq)
            data = b"".join(encode_event(event) for event in events)
            caught_up = self._caught_up
            # a write that fails may leave the half of a line, and the rest untold
            self._size, self._caught_up = -1, False
            write_fully(self._fd, data)
        self._size, self._caught_up = size + len(data), caught_up
        self._seq += len(events)
        return events

    def doubt(self) -> None:
        """Have the next `catch_up` look for missing events: somebody else committed."""
        self._caught_up = False

    def number(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp `notes` with the numbers that would follow, without writing them."""
        return self._stamp(notes, after=last_seq(self.path))

    def read(self) -> Iterator[Event]:
        """Read the events from the first on; a torn last line is passed over."""
        yield from read_events(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def open(self) -> None:
        """Open the file to append to it; a commit that cannot be told of must not be made."""
        if self._fd < 0:
            with storage_errors(self.path):
                self._fd = open_written(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def _settle(self, size: int) -> int:
        """Cut a torn last line and find the last number; gives the size that is left."""
        line, torn = _last_line(self._fd, path=self.path)
        self._seq = _seq_of(line, path=self.path)
        if torn:  # whoever wrote it is dead or was refused the rest: we hold the commit lock
            os.ftruncate(self._fd, size - torn)
        return size - torn

    def _stamp(self, notes: Sequence[Note], *, after: int) -> list[Event]:
        now = self._clock()
        return [
            stamp(
                noted,
                now_ms=now,
                run_id=self._run_id,
                invocation_id=self._invocation_id,
                seq=after + place,
            )
            for place, noted in enumerate(notes, start=1)
        ]


def read_events(path: str) -> Iterator[Event]:
    """Read an event file line by line; a file that is missing has none.

    A last line without its newline is a write that was cut short; it is passed over. Raises
    `Corrupt` on any other line that is no event, and `StorageError` when reading fails.
    """
    try:
        with (
            storage_errors(path, passing=(FileNotFoundError,)),
            open(open_written(path), "rb") as file,
        ):
            read_line = partial(file.readline, MAX_LINE_BYTES + 1)
            for number, line in enumerate(iter(read_line, b""), start=1):
                if line.endswith(b"\n") or len(line) > MAX_LINE_BYTES:
                    yield parse_event(line, path=path, place=f"line {number}")
    except FileNotFoundError:
        return


def parse_event(line: bytes, *, path: str, place: str) -> Event:
    """Read one line of an event file; raises `Corrupt`, naming the place of the line."""
    if len(line) > MAX_LINE_BYTES:
        raise Corrupt(path=path, reason=f"{place} is over {MAX_LINE_BYTES} bytes long")
    try:
        return decode_event(line)
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"{place} is not an event: {error}") from error


def last_seq(path: str) -> int:
    """Give the number of the last whole line, 0 for a file that is missing or has none."""
    try:
        with (
            storage_errors(path, passing=(FileNotFoundError,)),
            open(open_written(path), "rb") as file,
        ):
            line, _ = _last_line(file.fileno(), path=path)
    except FileNotFoundError:
        return 0
    return _seq_of(line, path=path)


def _last_line(fd: int, *, path: str) -> tuple[bytes, int]:
    """Give the last whole line, empty when there is none, and the size of a torn one behind it.

    What is longer than any line was not torn from ours: it is `Corrupt`, and stays.
    """
    size = os.fstat(fd).st_size
    tail = os.pread(fd, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    whole, _, torn = tail.rpartition(b"\n")
    if len(torn) > MAX_LINE_BYTES:
        reason = f"its last line has no end and is over {MAX_LINE_BYTES} bytes long"
        raise Corrupt(path=path, reason=reason)
    return whole.rpartition(b"\n")[2], len(torn)


def _seq_of(line: bytes, *, path: str) -> int:
    return parse_event(line, path=path, place="its last line").seq if line else 0
