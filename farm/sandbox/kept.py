"""A tester process as the zygote holds it: given one job after another while it stays clean.

Forking and locking in a tester costs as much as judging a small program. One that a job has
left as it found it takes the next; what counts as clean is decided in `farm.sandbox.purity` and
by the tester itself. Anything else ends it: a timeout, a lost program, an assertion that could
have changed the process, or age. What a tester writes to its socket decides about nothing but
whether it is kept.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from typing import NamedTuple, NoReturn

from farm.sandbox import limits, tester
from farm.sandbox.lockdown import Lockdown

_CLEAN, _SPENT = b"c", b"s"
# Age is bounded too: whatever a job may have left unseen does not gather.
_MOST_JOBS = 50
_MOST_CPU_S = 5.0
_COLLECT_EVERY = 10
_MOST_GROWN_KIB = 64 * 1024


class Pipes(NamedTuple):
    """What a tester needs of one job: assertions in, verdict out, and the candidate's two ends."""

    work: int
    verdict: int
    source: int
    target: int


class TesterProcess:
    """One tester process; `begin` a job, wait until `fileno` is readable, then ask `finish`."""

    def __init__(self, lockdown: Lockdown) -> None:
        self._ours, theirs = socket.socketpair()
        self._jobs = 0
        self.pid = os.fork()
        if self.pid == 0:
            _serve(lockdown, theirs)
        theirs.close()
        self._account = _account_of(self.pid)

    def fileno(self) -> int:
        """Give the descriptor that becomes readable when a job is over, or the tester is."""
        return self._ours.fileno()

    def begin(self, pipes: Pipes) -> None:
        """Hand a job over; a tester that is gone is met by whoever waits for it."""
        self._jobs += 1
        with contextlib.suppress(OSError):
            socket.send_fds(self._ours, [b"j"], list(pipes))

    def stays(self) -> bool:
        """Say whether the job that is over left this tester fit for another."""
        try:
            said = self._ours.recv(16, socket.MSG_DONTWAIT)
        except OSError:
            return False
        young = self._jobs < _MOST_JOBS and used(self.pid) < _MOST_CPU_S
        return said == _CLEAN and young

    def waited(self) -> float:
        """Return the seconds it was ready to run and did not, in all its life; 0 if not told."""
        try:
            return int(os.pread(self._account, 128, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def end(self) -> None:
        """Kill and reap it."""
        if self._account >= 0:
            os.close(self._account)
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        os.waitpid(self.pid, 0)
        self._ours.close()


def used(process: int) -> float:
    """Return the seconds of processor time a process used, all its threads; 0 if not told."""
    if sys.platform != "linux":
        return 0.0
    try:
        # how Linux numbers the clock of another process; see clock_getcpuclockid(3)
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


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
            clean, last = _judge(Pipes(*descriptors)), descriptors
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


def _judge(pipes: Pipes) -> bool:
    text = bytearray()
    while part := os.read(pipes.work, 1 << 20):
        text += part
    return tester.run(
        json.loads(text), source=pipes.source, target=pipes.target, verdict=pipes.verdict
    )
