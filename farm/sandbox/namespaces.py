"""A private view of network, mounts and IPC for a whole slot, where the kernel grants it.

Entered once by the zygote, so the programs it forks pay nothing. The process-id namespace is
left out on purpose: candidates cannot fork, and the zygote reads their share of the processor
from the ordinary /proc.
"""

from __future__ import annotations

import os

from farm.sandbox import kernel

_NEW_MOUNT, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8

NAMES = ("user", "net", "mount", "ipc", "uts")


def enter() -> None:
    """Move this process into fresh namespaces with itself as its only user.

    Raises `OSError` where the kernel or a container's policy refuses; then the process may be
    half in and must not go on.
    """
    user, group = os.getuid(), os.getgid()
    kernel.unshare(_NEW_USER | _NEW_NET | _NEW_MOUNT | _NEW_IPC | _NEW_UTS)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
    kernel.mount(source="none", target="/", kind="", flags=_RECURSIVE | _PRIVATE)


def mount_scratch(path: str, *, megabytes: int, files: int) -> None:
    """Mount an empty file system of a fixed size on `path`, hiding what was there."""
    kernel.mount(
        source="farm-scratch",
        target=path,
        kind="tmpfs",
        flags=_NOSUID_NODEV_NOEXEC,
        options=f"size={megabytes}m,nr_inodes={files},mode=700",
    )


def drop_scratch(path: str) -> None:
    """Let go of a scratch file system with all that is in it, in constant time."""
    kernel.detach(path)
