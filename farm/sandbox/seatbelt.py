"""What macOS offers in place of Landlock and seccomp. Written from its manual, never run.

`sandbox_init` takes a profile in the system's own language. It is marked deprecated there and
still is what browsers use. Address-space limits are not kept by macOS, so memory stays
unbounded under this level, which is why its name says where it comes from.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

_LIBRARY = "/usr/lib/libSystem.dylib"


def profile(*, read: Iterable[str], scratch: str | None) -> str:
    """Return the rules: no network, no new programs, signals to itself, writes in scratch."""
    quoted = [_quote(os.path.realpath(path)) for path in read]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow sysctl-read)",
        "(allow signal (target self))",
        '(allow file-read* (literal "/dev/null") (literal "/dev/urandom") '
        + " ".join(f"(subpath {path})" for path in [*quoted, '"/usr/lib"', '"/System"'])
        + ")",
        '(allow file-write-data (literal "/dev/null"))',
    ]
    if scratch is not None:
        path = _quote(os.path.realpath(scratch))
        lines.append(f"(allow file-read* file-write* (subpath {path}))")
    return "\n".join(lines)


def _quote(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def enter(rules: str) -> None:
    """Put this process under the profile for good; raises `OSError` when it is refused."""
    library = ctypes.CDLL(_LIBRARY)
    complaint = ctypes.c_char_p()
    if library.sandbox_init(rules.encode(), ctypes.c_uint64(0), ctypes.byref(complaint)) != 0:
        raise OSError(f"sandbox_init refused the profile: {complaint.value!r}")
