"""The one door to Linux calls that Python has no name for.

What to call and why is said by `landlock`, `seccomp`, `namespaces` and `lockdown`; this module
only calls and turns a negative answer into `OSError`. Constants are the kernel's own.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from functools import cache

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_CAPABILITY_VERSION_3 = 0x20080522
_PLACES = 4  # for arguments; no call made here takes more
# landlock_* and seccomp have the same number on x86_64 and aarch64 except seccomp itself
SECCOMP_NUMBER = {"x86_64": 317, "aarch64": 277}
CAPSET_NUMBER = {"x86_64": 126, "aarch64": 91}

# A forked child makes these calls while every page it touches is still to be copied: what they
# need is laid out here, once, so that the child converts nothing and allocates nothing.
if sys.platform == "linux":
    _libc.syscall.restype = ctypes.c_long
    _libc.syscall.argtypes = [ctypes.c_long] * (1 + _PLACES)
    _libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_HEADER = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
_NOTHING = ctypes.create_string_buffer(24)
_DROP_ALL = (ctypes.addressof(_HEADER), ctypes.addressof(_NOTHING))


@cache
def machine() -> str:
    """Return the processor's name as the system-call tables know it."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)


def syscall(number: int, first: int = 0, second: int = 0, third: int = 0, fourth: int = 0) -> int:
    """Call the kernel with numbers and addresses; return its answer or raise `OSError`."""
    return checked(_libc.syscall(number, first, second, third, fourth))


def checked(answer: int) -> int:
    """Return `answer` unless it is negative, which is an error told by errno."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process."""
    checked(_libc.prctl(option, value, 0, 0, 0))


def current_core() -> int:
    """Return the number of the core this process runs on right now."""
    return checked(_libc.sched_getcpu())


def drop_capabilities() -> None:
    """Give up every capability, so that being root is worth nothing from here on."""
    syscall(CAPSET_NUMBER[machine()], *_DROP_ALL)


def unshare(flags: int) -> None:
    """Leave the shared namespaces named by `flags`."""
    checked(_libc.unshare(ctypes.c_int(flags)))


def mount(*, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount `source` on `target`; needs the mount namespace to be ours."""
    checked(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            os.fsencode(kind) if kind else None,
            ctypes.c_ulong(flags),
            os.fsencode(options) if options else None,
        )
    )


def detach(target: str) -> None:
    """Unmount `target` now; what still uses it keeps it until it lets go (MNT_DETACH)."""
    checked(_libc.umount2(os.fsencode(target), ctypes.c_int(2)))
