"""What stood between model-written programs and the machine: a value that reports carry.

How it is found out is the sandbox's business; here is what it says, and how that of many
programs adds up to one that holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

Level = Literal["advisory", "partial", "seatbelt", "os-enforced", "os-enforced+ns"]
LEVELS: Final[tuple[str, ...]] = get_args(Level)  # weakest first; a run may demand one or better


class Isolation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stood between a program and the machine, as an attack on it found out.

    `grading` is "split" when assertions ran out of the program's reach, else "in_process".
    `trust` names what a verdict took the program's word for: "remote_eq", "remote_order",
    "remote_arithmetic", "remote_contains", "remote_instance", "remote_helper", "in_process".
    Empty for plain results.
    """

    level: Level
    landlock_abi: int
    seccomp: bool
    namespaces: bool
    grading: str = "split"
    trust: tuple[str, ...] = ()

    def reaches(self, level: str) -> bool:
        """Say whether this isolation is `level` or better."""
        return LEVELS.index(self.level) >= LEVELS.index(level)


def isolation_of(found: object) -> Isolation:
    """Take the isolation from any object with its fields, as a sandbox's own value is."""
    return msgspec.convert(found, Isolation, from_attributes=True)


def weakest(found: Iterable[Isolation]) -> Isolation | None:
    """Return the isolation that all of these have at least, and all they took on trust.

    None of none. The order does not matter.
    """
    each = set(found)  # of a run's thousands a few are different
    if not each:
        return None
    return Isolation(
        level=min((one.level for one in each), key=LEVELS.index),
        landlock_abi=min(one.landlock_abi for one in each),
        seccomp=all(one.seccomp for one in each),
        namespaces=all(one.namespaces for one in each),
        grading="split" if all(one.grading == "split" for one in each) else "in_process",
        trust=tuple(sorted({name for one in each for name in one.trust})),
    )
