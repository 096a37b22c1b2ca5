"""How much a program may use, and how it is kept to that.

Time is judged by the zygote (see `zygote`), output by the runner; the rest are resource limits
of the process itself. Values that cross to the zygote are NamedTuples: it must stay small, and
`dataclasses` alone would cost it four milliseconds and half a megabyte.
"""

from __future__ import annotations

import resource
import sys
from typing import NamedTuple

DEFAULT_TIMEOUT_S = 3.0
LONGEST_TIMEOUT_S = 30.0
OUTPUT_BYTES = 256 * 1024
SCRATCH_MEGABYTES = 32
SCRATCH_FILES = 1024
# A frame between candidate and tester; a larger argument or result is an error.
FRAME_BYTES = 8 << 20

_FILE_BYTES = 1 << 20
_OPEN_FILES = 64


class Limits(NamedTuple):
    """What one program may use; memory is address space on top of the warmed interpreter's."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_mb: int = 512


class Inherited(NamedTuple):
    """What a forked process starts with: bytes mapped (0 if not told), and the hard limits."""

    address_space: int
    processor_s: int
    memory: int


def lower(kind: int, value: int) -> None:
    """Set a limit to `value`, or to what is inherited where that is less."""
    value = _least(value, resource.getrlimit(kind)[1])  # raising above it is refused
    resource.setrlimit(kind, (value, value))


def _least(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def apply_to_all() -> Inherited:
    """Put on this process what all it forks are to inherit; return what they start with."""
    lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_MEMLOCK, 0)
    lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if sys.platform == "linux":
        lower(resource.RLIMIT_MSGQUEUE, 0)
    return Inherited(
        _address_space(),
        resource.getrlimit(resource.RLIMIT_CPU)[1],
        resource.getrlimit(resource.RLIMIT_AS)[1],
    )


def _address_space() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def apply(limits: Limits, *, inherited: Inherited) -> None:
    """Put the limits on this process that are its own; `inherited` is of `apply_to_all`."""
    # the zygote keeps the time; this is for a zygote that is gone, and for programs with threads
    processor_s = int(limits.timeout_s) + 2
    if inherited.processor_s == resource.RLIM_INFINITY or inherited.processor_s > processor_s:
        # the signal at the lower one tells a timeout from other deaths
        resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s + 1))
    if sys.platform == "linux":  # macOS takes RLIMIT_AS and does not keep it
        memory = _least((limits.memory_mb << 20) + inherited.address_space, inherited.memory)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
