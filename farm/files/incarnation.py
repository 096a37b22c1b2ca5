"""Which process this is, so that another can tell whether it still lives.

A process id alone is given out again; boot, pid and start time together are not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache

# a boot is named by a UUID on Linux and macOS alike; whatever has another shape proves nothing
_SHAPE = re.compile(r"([0-9A-Fa-f-]{36}):([0-9]{1,10}):(.+)")


def current_incarnation() -> str:
    """Name this process: ``boot:pid:start``; "" where the system does not tell."""
    pid = os.getpid()
    boot, start = _boot(), _start_of(pid)
    return f"{boot}:{pid}:{start}" if boot and start else ""


def is_gone(incarnation: str) -> bool:
    """Tell whether a process named by `current_incarnation` on this host is provably gone.

    Text of any other shape is never gone, nor is anything where the system does not tell.
    """
    named = _SHAPE.fullmatch(incarnation)
    here = _boot()
    if not here or named is None:
        return False
    boot, pid, start = named.groups()
    if boot != here:
        return True  # its boot is over, and so is every process of it
    now = _start_of(int(pid))
    # a process that is hidden from us has no start to read, and lives all the same
    return now != start if now else not is_alive(int(pid))


def is_alive(pid: int) -> bool:
    """Tell whether any process has this id now."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # no system has ids past its own range
        return False
    except PermissionError:
        return True
    return True


@cache
def _boot() -> str:
    if sys.platform == "darwin":
        return _say("sysctl", "-n", "kern.bootsessionuuid")
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Give when a process started, in a form that is equal for the same process; "" if none.

    Of a zombie, which has exited and waits for its parent to look, "exited".
    """
    if sys.platform == "darwin":
        return _say("ps", "-o", "lstart=", "-p", str(pid)).replace(":", ".")
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the name in parentheses may hold anything, so count the fields behind it
            fields = file.read().rpartition(b")")[2].split()
            return "exited" if fields[0] in {b"Z", b"X"} else fields[19].decode("ascii")
    except (OSError, IndexError):
        return ""


def _say(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
