"""Messages between candidate and tester: a length, then JSON, nothing that could run.

Both sides import this; only the tester depends on it being strict. Whatever a hostile peer
sends, `receive` returns parsed JSON or raises one of two errors.
"""

from __future__ import annotations

import json
import os

from farm.sandbox.limits import FRAME_BYTES

Message = dict[str, object]
_encode = json.JSONEncoder(check_circular=False).encode
_parse = json.JSONDecoder().raw_decode  # `decode` would look for blanks at both ends as well
_AT_ONCE, _AT_MOST = 1 << 13, 1 << 20


class Severed(BaseException):
    """The conversation is at an end; no `Exception`, so that no test takes it for its program's."""


class PeerGone(Severed):
    """The process at the other end closed its pipe: it died or was ended."""


class PeerBroke(Severed):
    """The other end sent something no honest peer sends, or one of us sent too much."""


class TooMuch(PeerBroke):
    """The other end could not send an answer for its size; it is still there for the next."""


class Line:
    """One end of a conversation: messages come in by `source` and go out by `target`."""

    __slots__ = ("_early", "_source", "_target")

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._early = b""  # read with the message before

    def _read(self, length: int) -> bytes:
        have = self._early
        missing = length - len(have)
        if missing > 0:
            parts = [have]
            while missing > 0:
                try:
                    part = os.read(self._source, min(max(missing, _AT_ONCE), _AT_MOST))
                except OSError as error:
                    raise PeerGone("the other process closed its pipe") from error
                if not part:
                    raise PeerGone("the other process closed its pipe")
                parts.append(part)
                missing -= len(part)
            have = b"".join(parts)
        self._early = have[length:]
        return have[:length]

    def receive(self) -> Message:
        """Wait for one message; raises `PeerGone` or `PeerBroke`."""
        length = int.from_bytes(self._read(4), "big")
        if length > FRAME_BYTES:
            raise PeerBroke(f"a message of {length} bytes is over the limit of {FRAME_BYTES}")
        try:
            text = self._read(length).decode("ascii")
            message, end = _parse(text)
        except (ValueError, RecursionError) as error:
            raise PeerBroke(f"a message is not JSON: {error}") from error
        if type(message) is not dict or end != length:
            raise PeerBroke("a message is not one JSON object")
        return message

    def send(self, message: Message) -> None:
        """Write one message; raises `PeerGone`, or `PeerBroke` when it is too large."""
        text = _encode(message).encode("ascii")
        if len(text) > FRAME_BYTES:
            raise PeerBroke(f"a value of {len(text)} bytes is over the limit of {FRAME_BYTES}")
        frame = len(text).to_bytes(4, "big") + text
        try:
            written = os.write(self._target, frame)
            while written < len(frame):
                left = memoryview(frame)[written:]
                written += os.write(self._target, left)
        except OSError as error:
            raise PeerGone("the other process closed its pipe") from error
