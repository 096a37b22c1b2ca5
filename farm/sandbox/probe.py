"""What isolation is in force, found out by attacking it.

A throw-away child goes through the same lockdown as a candidate, forked as one is by a process
that is locked down itself, and then tries what a hostile program would: each fact is an attempt
that failed, not a call that reported success. Sums up to a `level`, which every result carries.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from farm.sandbox import kernel, landlock, limits, seccomp, syscalls
from farm.sandbox.lockdown import Lockdown

# Weakest first. `farm.sandbox.verdict` has the same words for readers of a report.
LEVELS = ("advisory", "partial", "seatbelt", "os-enforced", "os-enforced+ns")


class WallFell(Exception):
    """The walls went up and something needed inside them no longer works."""


def in_child(action: Callable[[int], object]) -> object:
    """Run `action` in a forked child; return what it returned, None when it died.

    `action` is given the descriptor its answer goes out by, to keep open.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(action(write)).encode("ascii"))
        finally:
            os._exit(0)
    os.close(write)
    text = bytearray()
    while part := os.read(read, 65536):
        text += part
    os.close(read)
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def refused(attempt: Callable[[], Any]) -> bool:
    """Say whether an attempt fails the way a wall makes it fail."""
    try:
        attempt()
    except (OSError, MemoryError):
        return True
    return False


def can_filter_calls() -> bool:
    """Say whether a seccomp filter can be installed here and refuses what it should."""
    if kernel.machine() not in syscalls.COLUMN:
        return False

    def attempt(_: int) -> bool:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(os.getpid(), files_guarded=True)
        return refused(socket.socket)

    return in_child(attempt) is True


def attack(lockdown: Lockdown) -> dict[str, Any]:
    """Attack a lockdown from inside; return the facts and the level they add up to.

    Raises `WallFell` when a program could not even import its standard library in there.
    """
    zygote = os.getpid()
    bounds = limits.Limits(timeout_s=10.0)
    outside = os.path.dirname(lockdown.scratch)

    def nursery(report: int) -> object:
        lockdown.enter_nursery(keep={report})
        return in_child(attempts)

    def attempts(report: int) -> dict[str, bool]:
        nursery = os.getppid()
        lockdown.enter_program(bounds=bounds)
        return _attempts((zygote, nursery), outside, bounds)

    found = in_child(nursery)
    facts = found if isinstance(found, dict) else {}
    if not facts.get("can_import"):
        raise WallFell("inside the isolation a program cannot import the standard library")
    facts["private_network"] = lockdown.walls.namespaces and _sees_only_loopback()
    return {
        "level": level_of(facts, platform=sys.platform),
        "landlock_abi": landlock.abi() if lockdown.walls.landlock else 0,
        "seccomp": lockdown.walls.seccomp,
        "namespaces": lockdown.walls.namespaces,
        "facts": facts,
    }


def _attempts(others: tuple[int, ...], outside: str, bounds: limits.Limits) -> dict[str, bool]:
    fork_refused = refused(_fork)
    return {
        "reading_refused": refused(lambda: open("/etc/passwd").close()),
        "writing_refused": refused(lambda: open(os.path.join(outside, "probe"), "w").close()),
        "modes_refused": refused(lambda: os.chmod(outside, 0o700)),
        "network_refused": refused(socket.socket),
        "fork_refused": fork_refused,
        "exec_refused": refused(_execute) if fork_refused else in_child(_execution_fails) is True,
        "signals_refused": all(refused(partial(os.kill, process, 0)) for process in others),
        "memory_bounded": refused(lambda: bytearray((bounds.memory_mb + 64) << 20)),
        "scratch_works": not refused(_use_scratch),
        "can_import": _can_import(),
    }


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def _execute() -> None:
    os.execv(sys.executable, [sys.executable, "-c", ""])  # noqa: S606  # that it fails is the point


def _execution_fails(_: int) -> bool:
    return refused(_execute)  # when it does not fail, this process is gone and says nothing


def _use_scratch() -> None:
    with open("probe", "w") as file:
        file.write("probe")
    os.unlink("probe")


def _can_import() -> bool:
    try:
        import colorsys  # noqa: F401  # stands for any module that is not loaded yet
    except (ImportError, OSError):
        return False
    return True


def _sees_only_loopback() -> bool:
    return [name for _, name in socket.if_nameindex()] in ([], ["lo"])


def level_of(facts: dict[str, bool], *, platform: str) -> str:
    """Return the level that facts add up to; pure."""
    apart = all(facts[name] for name in ("network_refused", "exec_refused", "signals_refused"))
    files = all(facts[name] for name in ("reading_refused", "writing_refused"))
    if platform == "darwin":
        return "seatbelt" if apart and files else "advisory"
    kernel_held = apart and facts["fork_refused"] and facts["modes_refused"]
    if not kernel_held or not facts["writing_refused"]:
        return "advisory"
    if not files or not facts["memory_bounded"]:
        return "partial"
    return "os-enforced+ns" if facts["private_network"] else "os-enforced"
