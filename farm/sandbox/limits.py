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


def address_space() -> int:
    """Return the bytes of address space this process has now, 0 where it cannot be told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def lower(kind: int, value: int) -> None:
    """Set a limit to `value`, or to what is inherited where that is less."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)  # raising above the inherited limit is refused
    resource.setrlimit(kind, (value, value))


def apply(limits: Limits, *, inherited_bytes: int) -> None:
    """Put the limits on this process; `inherited_bytes` is what the zygote already maps."""
    # the zygote keeps the time; this is for a zygote that is gone, and for programs with threads
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or hard > int(limits.timeout_s) + 3:
        # the signal at the lower one tells a timeout from other deaths
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(limits.timeout_s) + 2, int(limits.timeout_s) + 3)
        )
    lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_MEMLOCK, 0)
    if sys.platform == "linux":  # macOS takes RLIMIT_AS and does not keep it
        lower(resource.RLIMIT_MSGQUEUE, 0)
        lower(resource.RLIMIT_AS, (limits.memory_mb << 20) + inherited_bytes)
