"""The event file of a store: append only, numbered, one writer at a time.

The caller holds the store's commit lock, so numbers rise by one whoever writes. A line is
appended after the commit it tells of and is not synced: what a power cut takes away is appended
anew from the ledger, marked as recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from farm.core.event import Event, Note, decode_event, encode_event, stamp
from farm.core.ledger import Ledger
from farm.core.progress import fold, missing_events
from farm.errors import Corrupt
from farm.files.atomic import storage_errors, write_fully

_TAIL_BYTES = 64 * 1024  # holds a last line of any legal length


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
        self._size = -1  # of the file after our own last append; -1 when that is not known
        self._seq = 0
        self._caught_up = False  # with the ledger, which is ahead when a process was killed

    def append(
        self, notes: Sequence[Note], *, ledger: Ledger, cases: Mapping[str, int]
    ) -> list[Event]:
        """Stamp and append `notes`; the first call also brings the file up to `ledger`.

        `ledger` is the snapshot from before the commit that `notes` tell of. After a call that
        failed the next one is a first call again.
        """
        if not self._caught_up:
            self._open()
            self._append(missing_events(ledger, fold(self.read()), cases))
        self._caught_up = False
        events = self._append(notes)
        self._caught_up = True
        return events

    def doubt(self) -> None:
        """Have the next append look for missing events: somebody else committed."""
        self._caught_up = False

    def number(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp `notes` with the numbers that would follow, without writing them."""
        last = self._seq if self._fd >= 0 else last_seq(self.path)
        return self._stamp(notes, after=last)

    def read(self) -> Iterator[Event]:
        """Read the events from the first on; a torn last line is passed over."""
        yield from read_events(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        if self._fd < 0:
            with storage_errors(self.path):
                self._fd = os.open(self.path, flags, 0o600)
        with storage_errors(self.path):
            self._cut_torn_line()

    def _append(self, notes: Sequence[Note]) -> list[Event]:
        with storage_errors(self.path):
            size = os.fstat(self._fd).st_size
            if size != self._size:  # somebody else wrote since, or this is our first append
                size = self._cut_torn_line()
                self._seq = last_seq(self.path)
            events = self._stamp(notes, after=self._seq)
            data = b"".join(encode_event(event) for event in events)
            self._size = -1  # a write that fails may leave the half of a line
            write_fully(self._fd, data)
        self._size = size + len(data)
        self._seq += len(events)
        return events

    def _cut_torn_line(self) -> int:
        """Cut a last line whose writer was killed or ran out of space; give the size left.

        Appending behind it would make one broken line of two.
        """
        size = os.fstat(self._fd).st_size
        tail = os.pread(self._fd, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        torn = len(tail) - (tail.rfind(b"\n") + 1)
        if torn:
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
    """Read an event file line by line; raises `Corrupt` on a line that is no event.

    A last line without its newline is a write that was cut short; it is passed over.
    """
    try:
        with storage_errors(path, passing=(FileNotFoundError,)), open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield parse_event(line, path=path, number=number)
    except FileNotFoundError:
        return


def parse_event(line: bytes, *, path: str, number: int) -> Event:
    """Read one line of an event file; raises `Corrupt`, naming the line."""
    try:
        return decode_event(line)
    except msgspec.MsgspecError as error:
        reason = f"line {number} is not an event: {type(error).__name__}"
        raise Corrupt(path=path, reason=reason) from error


def last_seq(path: str) -> int:
    """Give the number of the last whole line, 0 for a file that is missing or empty."""
    try:
        with storage_errors(path, passing=(FileNotFoundError,)), open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            whole, newline, _ = file.read().rpartition(b"\n")
    except FileNotFoundError:
        return 0
    if not newline:
        return 0
    line = whole.rpartition(b"\n")[2]
    return parse_event(line, path=path, number=-1).seq
