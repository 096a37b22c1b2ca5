"""Messages between candidate and tester: a length, then JSON, nothing that could run.

Both sides import this; only the tester depends on it being strict. Whatever a hostile peer
sends, `receive` returns parsed JSON or raises one of two errors.
"""

from __future__ import annotations

import json
import os
import struct

from farm.sandbox.limits import FRAME_BYTES

Message = dict[str, object]
_encode = json.JSONEncoder(check_circular=False).encode


class PeerGone(Exception):
    """The process at the other end closed its pipe: it died or was ended."""


class PeerBroke(Exception):
    """The other end sent something no honest peer sends, or one of us sent too much."""


def _read_exactly(source: int, length: int) -> bytes:
    collected = bytearray()
    while len(collected) < length:
        try:
            part = os.read(source, min(length - len(collected), 1 << 20))
        except OSError as error:
            raise PeerGone("the other process closed its pipe") from error
        if not part:
            raise PeerGone("the other process closed its pipe")
        collected += part
    return bytes(collected)


def receive(source: int) -> Message:
    """Wait for one message; raises `PeerGone` or `PeerBroke`."""
    (length,) = struct.unpack(">I", _read_exactly(source, 4))
    if length > FRAME_BYTES:
        raise PeerBroke(f"a message of {length} bytes is over the limit of {FRAME_BYTES}")
    try:
        message = json.loads(_read_exactly(source, length))
    except (ValueError, RecursionError) as error:
        raise PeerBroke(f"a message is not JSON: {error}") from error
    if type(message) is not dict:
        raise PeerBroke("a message is not a JSON object")
    return message


def send(target: int, message: Message) -> None:
    """Write one message; raises `PeerGone`, or `PeerBroke` when it is too large."""
    text = _encode(message).encode("ascii")
    if len(text) > FRAME_BYTES:
        raise PeerBroke(f"a value of {len(text)} bytes is over the limit of {FRAME_BYTES}")
    left = memoryview(struct.pack(">I", len(text)) + text)
    while left:
        try:
            left = left[os.write(target, left) :]
        except OSError as error:
            raise PeerGone("the other process closed its pipe") from error
