"""The walls around candidate and tester, put up in one order, the same for both.

Built once by the zygote; each forked child calls `enter` before it touches anything it was
given. Which walls the machine has is found out by `probe`, never assumed from a version.
"""

from __future__ import annotations

import os
import resource
import sys
import sysconfig
from typing import NamedTuple

from farm.sandbox import kernel, landlock, limits, seatbelt, seccomp


class Walls(NamedTuple):
    """Which mechanisms are to be used; the runner takes away what a probe found missing."""

    landlock: bool = True
    seccomp: bool = True
    namespaces: bool = True
    seatbelt: bool = sys.platform == "darwin"


def readable_paths(packages: list[str]) -> list[str]:
    """Return what a program must be able to read: the interpreter's library and packages."""
    found = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *packages]
    found += [os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")]
    found += ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"]
    found += ["/usr/share/zoneinfo", "/dev/urandom", "/dev/zero"]
    return sorted({os.path.realpath(path) for path in found if os.path.exists(path)})


class Lockdown:
    """The walls of one slot; `roles` are "candidate", which has a scratch, and "tester"."""

    def __init__(self, walls: Walls, *, packages: list[str], scratch: str) -> None:
        self.walls = walls
        self._read = readable_paths(packages)
        self._inherited = limits.apply_to_all()
        self._rulesets: dict[str, int] = {}
        if walls.seccomp:
            seccomp.prepare(files_guarded=walls.landlock)
        if walls.landlock:
            self._rulesets["tester"] = landlock.build(read=self._read, scratch=None)
        self.move_scratch(scratch)

    def move_scratch(self, scratch: str) -> None:
        """Aim the candidate's rules at another scratch directory."""
        self.scratch = scratch
        if self.walls.landlock:
            old = self._rulesets.pop("candidate", -1)
            self._rulesets["candidate"] = landlock.build(read=self._read, scratch=scratch)
            if old >= 0:
                os.close(old)

    def enter(self, role: str, *, bounds: limits.Limits, keep: set[int]) -> None:
        """Lock this process in for good, with the open files of `keep` and 0, 1, 2 only."""
        ruleset = self._rulesets.get(role, -1)
        close_others(keep | {ruleset})
        os.chdir(self.scratch if role == "candidate" else "/")
        os.setsid()
        limits.apply(bounds, inherited=self._inherited)
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            kernel.drop_capabilities()
        if ruleset >= 0:
            landlock.enter(ruleset)
            os.close(ruleset)
        if self.walls.seatbelt:
            scratch = self.scratch if role == "candidate" else None
            seatbelt.enter(seatbelt.profile(read=self._read, scratch=scratch))
        if self.walls.seccomp:  # last: it refuses what the steps above need
            seccomp.install(os.getpid(), files_guarded=self.walls.landlock)


def close_others(keep: set[int]) -> None:
    """Close every open file above 2 that is not in `keep`."""
    lowest = 3
    for number in sorted(n for n in keep if n >= 3):
        os.closerange(lowest, number)
        lowest = number + 1
    os.closerange(lowest, min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 1 << 16))
