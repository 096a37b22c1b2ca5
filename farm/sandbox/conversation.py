"""The talk with a zygote about one job: the job goes out, verdict and output come in.

Descriptors are opened and closed here; what the bytes mean is for `slot` and `verdict`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import sys
import time
from typing import Any, BinaryIO

from farm.sandbox import limits

# The longest line a tester writes about one assertion is some 6 KiB, so these fit in a pipe.
_FEW_LINES, _ROOM = 8, 1 << 16
PATIENCE_S = 5.0  # beyond the longest timeout, before a zygote counts as lost


_talking: set[Conversation] = set()


def abandon_all() -> None:
    """Close, in a process just forked, what it holds of the conversations of its parent.

    A tester reads its job to the end of the pipe, which a second holder would keep from coming.
    """
    while _talking:
        _talking.pop().close()


class Conversation:
    """One job's pipes, from sending it to the zygote's report."""

    def __init__(
        self,
        control: socket.socket,
        lines: BinaryIO,
        number: int,
        text: bytes,
        bounds: limits.Limits,
        *,
        assertions: int,
    ) -> None:
        self._control, self._control_lines, self._number = control, lines, number
        self._text = memoryview(text)
        self._bounds = bounds
        self.verdict = bytearray()
        self.output = bytearray()
        self.over = False
        self._work_in, self._work = os.pipe()
        self._verdict, self._verdict_in = os.pipe()
        self._output, self._output_in = os.pipe()
        self._open = {self._work, self._verdict, self._output}
        _talking.add(self)
        self._fits = assertions <= _FEW_LINES and _room(self._verdict) >= _ROOM

    def hold(self) -> dict[str, Any] | None:
        """Send the job and read until the zygote reports; None when it is lost."""
        line = json.dumps({"job": self._number, "limits": self._bounds._asdict()}).encode("ascii")
        theirs = [self._work_in, self._verdict_in, self._output_in]
        try:
            socket.send_fds(self._control, [line + b"\n"], theirs)
        except OSError:
            return None
        finally:
            for number in theirs:
                os.close(number)
        for number in self._open:
            os.set_blocking(number, False)
        longest = max(self._bounds.timeout_s, limits.LONGEST_TIMEOUT_S) + PATIENCE_S
        deadline = time.monotonic() + longest
        control = self._control.fileno()
        poller = select.poll()  # a selector of the library would cost a fifth of the talk
        poller.register(self._work, select.POLLOUT)
        poller.register(self._output, select.POLLIN)
        poller.register(control, select.POLLIN)
        if not self._fits:  # else read at the end: to wake up for each line costs more than it
            poller.register(self._verdict, select.POLLIN)
        while (left_s := deadline - time.monotonic()) > 0:
            for number, _ in poller.poll(left_s * 1000 + 1):
                if number == control:
                    reported = self._reported()
                    self._read_rest()
                    return None if reported is None else dict(json.loads(reported))
                if not self._move(number):
                    poller.unregister(number)
                    self._close(number)
        return None

    def _reported(self) -> bytes | None:
        """Read the zygote's line; None when it is gone, also in the middle of the line."""
        try:
            line = self._control_lines.readline()
        except OSError:  # it left what it had been sent unread
            return None
        return line if line.endswith(b"\n") else None

    def _move(self, number: int) -> bool:
        """Move bytes on one pipe; False once it is done with."""
        try:
            if number == self._work:
                self._text = self._text[os.write(number, self._text) :]
                return bool(self._text)
            part = os.read(number, 1 << 16)
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        if number == self._verdict:
            self.verdict += part
        else:
            room = limits.OUTPUT_BYTES - len(self.output)
            self.output += part[:room]
            if len(part) > room and not self.over:
                self.over = True
                with contextlib.suppress(OSError):  # a zygote that is gone is met by the reader
                    self._control.sendall(json.dumps({"kill": self._number}).encode() + b"\n")
        return bool(part)

    def _read_rest(self) -> None:
        """Take what was written before the end and not read yet."""
        for number in (self._verdict, self._output):
            while number in self._open and not (number == self._output and self.over):
                before = len(self.verdict) + len(self.output)
                if not self._move(number) or len(self.verdict) + len(self.output) == before:
                    break

    def _close(self, number: int) -> None:
        if number in self._open:
            self._open.remove(number)
            os.close(number)

    def close(self) -> None:
        """Close what is still open."""
        _talking.discard(self)
        for number in list(self._open):
            self._close(number)


def _room(pipe: int) -> int:
    """Return how many bytes a pipe takes unread; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
