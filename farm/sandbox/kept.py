"""A tester process as the zygote holds it: given one job after another while it stays clean.

Forking and locking in a tester costs as much as judging a small program. One that a job has
left as it found it takes the next; what counts as clean is decided in `farm.sandbox.purity` and
by the tester itself. Anything else ends it: a timeout, a lost program, an assertion that could
have changed the process, or age. What a tester writes to its socket decides about nothing but
whether it is kept, and is told of assertions before the program could have a hand in it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from functools import cache
from typing import NamedTuple, NoReturn

from farm.sandbox import limits, tester
from farm.sandbox.lockdown import Lockdown

# What a tester says: of a job, at its end, that it left its process as it was, or not; instead of
# taking jobs, that it could not be locked in; and, before it reads a word of the program, that
# what this job runs could change its process. That it cannot take back.
_CLEAN, _SPENT, _UNFIT, _MARKED = b"c", b"s", b"u", b"m"
# Age is bounded too: whatever a job may have left unseen does not gather.
_MOST_JOBS = 50
_MOST_CPU_S = 5.0
_COLLECT_EVERY = 10
_MOST_GROWN_KIB = 64 * 1024
# A process whose socket is at its end is about to be gone; one that closed it only never will be.
_DYING_S = 1.0
# What a tester does to itself ends it by an exit or by the signal of a fault, never by these.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)


class Pipes(NamedTuple):
    """What a tester needs of one job: assertions in, verdict out, and the candidate's two ends."""

    work: int
    verdict: int
    source: int
    target: int


class Death(NamedTuple):
    """How a tester died by itself: by a signal (0 if by none), and whether others ended it."""

    signal: int = 0
    from_outside: bool = False


class TesterProcess:
    """One tester process; `begin` a job, wait until `fileno` is readable, then ask `stays`."""

    def __init__(self, lockdown: Lockdown) -> None:
        self._ours, theirs = socket.socketpair()
        self._jobs = 0
        self._said = _SPENT
        self._heard = b""  # of this job
        self.pid = os.fork()
        if self.pid == 0:
            _serve(lockdown, theirs)
        theirs.close()
        self._account = _account_of(self.pid)

    def fileno(self) -> int:
        """Give the descriptor that becomes readable when a job is over, or the tester is."""
        return self._ours.fileno()

    def begin(self, pipes: Pipes) -> bool:
        """Hand a job over; False when this tester is gone."""
        self._jobs += 1
        self._heard = b""
        try:
            socket.send_fds(self._ours, [b"j"], list(pipes))
        except OSError:
            return False
        return True

    def is_over(self) -> bool:
        """Say whether the job is over, or the tester is, once there is something to be read."""
        try:
            part = self._ours.recv(16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        self._heard += part
        return not part or not self._heard.endswith(_MARKED)

    def stays(self) -> bool:
        """Say whether the job that is over left this tester fit for another.

        What it said before it read a word of the program it cannot take back.
        """
        self._said = self._heard.removeprefix(_MARKED)
        young = self._jobs < _MOST_JOBS and used(self.pid) < _MOST_CPU_S
        return self._heard == _CLEAN and young

    def waited(self) -> float:
        """Return the seconds it was ready to run and did not, in all its life; 0 if not told."""
        try:
            return int(os.pread(self._account, 128, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def end(self) -> Death:
        """Kill and reap it; say how it had died before, if it had.

        A program may fill the memory of the process that judges it, and a full machine then
        ends the largest: one that has grown is never taken for ended from outside.
        """
        if self._account >= 0:
            os.close(self._account)
        self._ours.close()
        until = time.monotonic() + (0.0 if self._said else _DYING_S)
        while True:
            reaped, status, usage = os.wait4(self.pid, os.WNOHANG)
            if reaped or time.monotonic() >= until:
                break
            time.sleep(0.001)
        if not reaped:
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            os.waitpid(self.pid, 0)
            return Death(from_outside=self._said == _UNFIT)
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        ended = by in _FROM_OUTSIDE and usage.ru_maxrss - _held_kib() <= _MOST_GROWN_KIB
        return Death(by, ended or self._said == _UNFIT)


def used(process: int) -> float:
    """Return the seconds of processor time a process used, all its threads; 0 if not told."""
    if sys.platform != "linux":
        return 0.0
    try:
        # how Linux numbers the clock of another process; see clock_getcpuclockid(3)
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


@cache
def _held_kib() -> int:
    """Return what this process, the zygote, holds in memory; 0 if not told.

    Not its peak, which is counted from the process that started it.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() >> 10
    except (OSError, ValueError, IndexError):
        return 0


def _account_of(process: int) -> int:
    """Open the scheduler's account of a process of one thread; -1 where none is kept."""
    try:
        return os.open(f"/proc/{process}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _serve(lockdown: Lockdown, channel: socket.socket) -> NoReturn:
    """Be the tester: take jobs until the zygote closes the socket, or one leaves its mark."""
    try:
        bounds = limits.Limits(timeout_s=limits.LONGEST_TIMEOUT_S)
        lockdown.enter(bounds=bounds, keep={channel.fileno()})
    except BaseException:  # noqa: BLE001  # whatever it was, it is no program's doing
        channel.send(_UNFIT)
        os._exit(70)
    try:
        gc.disable()  # a collection in the middle of a job would only copy pages
        last: list[int] = []
        jobs, since = 0, _peak_kib()
        while True:
            said, descriptors, _, _ = socket.recv_fds(channel, 1, len(Pipes._fields))
            # only now: their end would wake the last program, which is about to be killed
            for number in last:
                os.close(number)
            if not said:
                break
            clean, last = _judge(Pipes(*descriptors), channel), descriptors
            clean = clean and not _has_grown(since)
            channel.send(_CLEAN if clean else _SPENT)
            jobs += 1
            if jobs % _COLLECT_EVERY == 0:
                gc.collect()  # while the verdict is on its way
    except BaseException:  # noqa: BLE001  # its absence of an end line is the message
        os._exit(70)
    os._exit(0)


def _has_grown(since: int) -> bool:
    """Say whether a job has left this process much larger, or with libraries of C in it."""
    return _peak_kib() - since > _MOST_GROWN_KIB or "numpy" in sys.modules


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _judge(pipes: Pipes, channel: socket.socket) -> bool:
    text = bytearray()
    while part := os.read(pipes.work, 1 << 20):
        text += part
    return tester.run(
        json.loads(text),
        source=pipes.source,
        target=pipes.target,
        verdict=pipes.verdict,
        marked=lambda: channel.send(_MARKED),
    )
