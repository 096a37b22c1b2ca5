"""The nursery of a slot: a process that forks candidates, and does nothing else.

A process that forks gets its memory write-protected, and pays for each page it touches
afterwards. The zygote has much to do while a program runs; here is done as little as can be. What
a candidate inherits anyway, a nursery wears already: it is as shut in as what it forks, but for
forking and for ending its children.

It is told of a job by the zygote alone, and learns of it nothing but limits and descriptors.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from typing import NamedTuple, NoReturn

from farm.sandbox import candidate, limits
from farm.sandbox.lockdown import Lockdown

_BOUNDS = struct.Struct("=dq")
_DESCRIPTORS = struct.Struct("=3i")
_BORN = struct.Struct("=q")
_ENDED = struct.Struct("=qdq")
_END = b"e"


class NurseryLost(Exception):
    """The nursery is gone, and with it the program it forked."""


class Ended(NamedTuple):
    """How a program ended: its wait status, seconds of processor time, most memory in KiB."""

    status: int
    cpu_s: float
    rss_kb: int


class Nursery:
    """The zygote's side: `bear` a program, then `end` it; one at a time."""

    def __init__(self, lockdown: Lockdown) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(lockdown, theirs)
        theirs.close()

    def bear(self, bounds: limits.Limits, *, source: int, target: int, output: int) -> int:
        """Have a candidate forked over these pipes; return its process id.

        The id stays its own until `end`. Raises `NurseryLost`.
        """
        with contextlib.suppress(OSError):  # a nursery that is gone does not answer either
            socket.send_fds(self._ours, [_BOUNDS.pack(*bounds)], [source, target, output])
        (program,) = _BORN.unpack(self._answer(_BORN.size))
        return int(program)

    def end(self) -> Ended:
        """Kill the program, reap it, and say how it ended; raises `NurseryLost`."""
        with contextlib.suppress(OSError):
            self._ours.send(_END)
        return Ended(*_ENDED.unpack(self._answer(_ENDED.size)))

    def _answer(self, length: int) -> bytes:
        try:
            answer = self._ours.recv(length)
        except OSError as error:
            raise NurseryLost("the process that forks programs is gone") from error
        if len(answer) != length:
            raise NurseryLost("the process that forks programs is gone")
        return answer

    def close(self) -> None:
        """Kill and reap it; what it forked dies with it."""
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        os.waitpid(self.pid, 0)
        self._ours.close()


def _serve(lockdown: Lockdown, channel: socket.socket) -> NoReturn:
    """Be the nursery until the zygote closes the socket."""
    try:
        lockdown.enter_nursery(keep={channel.fileno()})
        space = socket.CMSG_SPACE(_DESCRIPTORS.size)
        newborn = candidate.Candidate()
        while True:
            said, handed, _, _ = channel.recvmsg(_BOUNDS.size, space)
            if not said:
                break
            pipes = _DESCRIPTORS.unpack(handed[0][2])
            program = os.fork()
            if program == 0:
                channel.close()
                _become_candidate(newborn, lockdown, said, *pipes)
            channel.send(_BORN.pack(program))
            for number in pipes:
                os.close(number)
            over = channel.recv(1)
            if not lockdown.walls.seccomp:  # what could fork may have left children
                with contextlib.suppress(OSError):
                    os.killpg(program, signal.SIGKILL)
            os.kill(program, signal.SIGKILL)  # not reaped yet, so the number is still its own
            _, status, used = os.wait4(program, 0)
            if not over:
                break
            channel.send(_ENDED.pack(status, used.ru_utime + used.ru_stime, used.ru_maxrss))
    except BaseException:  # noqa: BLE001  # that it is gone is the message
        os._exit(70)
    os._exit(0)


def _become_candidate(
    newborn: candidate.Candidate,
    lockdown: Lockdown,
    bounds: bytes,
    source: int,
    target: int,
    output: int,
) -> NoReturn:
    """Be the candidate from here on."""
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        timeout_s, memory_mb = _BOUNDS.unpack(bounds)
        lockdown.enter_program(bounds=limits.Limits(timeout_s, memory_mb))
        newborn.serve(source, target)
    except BaseException:  # noqa: BLE001  # whatever a program left to be raised here
        os._exit(70)
    os._exit(0)
