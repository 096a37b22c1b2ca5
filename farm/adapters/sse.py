"""Server-sent events cut out of bytes, as the WHATWG text says, wherever the reads fall.

Works on bytes: a character may be split over two reads, and a text may hold U+2028 and the
other characters that `str.splitlines` takes for line ends but the format does not. What an
event means is the business of the dialects.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event: its type, "" when none was given, and its data lines joined by newlines."""

    type: str
    data: bytes


class EventTooLong(Exception):
    """An event grew over the bound; the stream cannot be read on."""


class EventSplitter:
    """Collects reads and gives the events they complete.

    Lines end with LF, CR or CRLF; comments and fields without a meaning here are passed over;
    one blank after the colon is dropped; a byte order mark at the start is too. An event with
    neither data nor a type is none. The old form of llama.cpp, a field ``error:`` instead of
    ``data:``, is given as an event of type ``error``. Holds at most `max_event_bytes` plus one
    read; an event over the bound raises `EventTooLong`.

    Some proxies send an error as a bare JSON object under a stream's type. A body that begins
    with a brace and holds no event is given at its end, whole, as the data of one.
    """

    def __init__(self, *, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()  # the last line, so far without its end
        self._data: list[bytes] = []
        self._held = 0  # bytes in `_data`
        self._type = ""
        self._after_cr = False
        self._begun = False
        self._first = True  # no line has been taken yet
        self._bare: list[bytes] = []  # lines of what may be a bare object

    def feed(self, read: bytes) -> list[SseEvent]:
        """Take one read and return the events that end in it."""
        read = self._with_newlines(read)
        if b"\n" not in read:
            self._line += read
            self._check_bound()
            return []
        self._line += read
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[SseEvent] = []
        for line in lines:
            if line:
                self._take(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        self._check_bound()
        return events

    def close(self) -> SseEvent | None:
        """Return what the end of the stream left without its blank line, None when nothing.

        The WHATWG text drops it; usage and ``[DONE]`` are often found there.
        """
        if self._line:
            line = bytes(self._line)
            self._take(line if self._begun else line.removeprefix(_BOM))
            self._line.clear()
        if self._bare:
            self._data, self._bare = self._bare, []
        return self._dispatch()

    def _with_newlines(self, read: bytes) -> bytes:
        """Turn every line end into LF; a CRLF may be split over two reads."""
        if self._after_cr and read.startswith(b"\n"):
            read = read[1:]
            self._after_cr = False
        if read:
            self._after_cr = read.endswith(b"\r")
        if b"\r" in read:
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return read

    def _take(self, line: bytes) -> None:
        if (self._first or self._bare) and self._is_bare(line):
            self._bare.append(line)
            self._held += len(line)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"error":
            self._type = "error"
        if name in (b"data", b"error"):
            self._data.append(value)
            self._held += len(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")

    def _is_bare(self, line: bytes) -> bool:
        """Say whether a line belongs to a body that is an object and no stream."""
        if self._first:
            self._first = False
            return line.lstrip().startswith(b"{")
        if line.startswith((b"data:", b"event:")):  # a stream after all
            self._bare, self._held = [], 0
            return False
        return True

    def _dispatch(self) -> SseEvent | None:
        if not self._data:
            self._type = ""
            return None
        event = SseEvent(self._type, b"\n".join(self._data))
        self._data, self._held, self._type = [], 0, ""
        return event

    def _check_bound(self) -> None:
        if len(self._line) + self._held > self._limit:
            raise EventTooLong
