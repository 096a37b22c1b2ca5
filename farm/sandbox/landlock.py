"""Which paths, ports and processes are in reach, decided by the kernel without root.

A ruleset is built once per scratch directory and entered by every child through its file
descriptor. Rights and their numbers are those of the kernel's `landlock.h`; a right the running
kernel does not know yet is left out, and `abi()` goes into every result so that a reader can
tell. Not covered by Landlock: looking up whether a path exists, changing to a directory, and
mode, owner and times of files (`seccomp` refuses those).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from farm.sandbox import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SYMLINK = 1 << 12  # granted nowhere
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_FOR_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ = _READ_FILE | _READ_DIR
# no symbolic links, sockets, pipes or devices are made in a scratch directory, nothing is run
_SCRATCH = (
    _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _REFER | _TRUNCATE
)
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE
_BIND_AND_CONNECT, _SIGNALS_AND_ABSTRACT_SOCKETS = 3, 3


def abi() -> int:
    """Return the Landlock version of the running kernel, 0 where there is none."""
    try:
        return kernel.syscall(_CREATE, 0, 0, 1)
    except OSError:
        return 0


def build(*, read: Iterable[str], scratch: str | None, names: Iterable[str] = ()) -> int:
    """Return the descriptor of a ruleset: read beneath `read`, work beneath `scratch`.

    Beneath `names` directories can be listed, as a search for modules does, and no file read.
    Paths that do not exist are skipped. Raises `OSError` where Landlock is missing.
    """
    version = abi()
    handled = (1 << _RIGHTS_BY_ABI.get(version, 16)) - 1
    attributes = struct.pack(
        "=QQQ",
        handled,
        _BIND_AND_CONNECT if version >= 4 else 0,
        _SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    buffer = ctypes.create_string_buffer(attributes, 24)
    ruleset = kernel.syscall(_CREATE, ctypes.addressof(buffer), size)
    for path in read:
        _add(ruleset, path, _READ & handled)
    for path in names:
        _add(ruleset, path, _READ_DIR & handled)
    _add(ruleset, "/dev/null", _DEVICE & handled)
    if scratch is not None:
        _add(ruleset, scratch, _SCRATCH & handled)
    return ruleset


def build_apart() -> int:
    """Return the descriptor of a ruleset that sets its processes apart from all others.

    Entered on top of one of `build`, it takes away nothing but signals to processes outside;
    and of processes outside none may be traced.
    """
    version = abi()
    attributes = struct.pack(
        "=QQQ", _MAKE_SYMLINK, 0, _SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0
    )
    buffer = ctypes.create_string_buffer(attributes, 24)
    return kernel.syscall(_CREATE, ctypes.addressof(buffer), 8 if version < 6 else 24)


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _FOR_FILES  # the kernel refuses directory rights on a file
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, beneath), 12)
        kernel.syscall(_ADD, ruleset, 1, ctypes.addressof(rule))
    finally:
        os.close(beneath)


def enter(ruleset: int) -> None:
    """Put this process under the ruleset for good; needs NO_NEW_PRIVS."""
    kernel.syscall(_RESTRICT, ruleset)
