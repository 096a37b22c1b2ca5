"""What a fault needs of the machine; where that is missing its tests are skipped, saying why."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache

import pytest


@cache
def _may_trace() -> bool:
    if sys.platform != "linux" or shutil.which("strace") is None:
        return False
    tried = ["strace", "-f", "-o", "/dev/null", "-e", "inject=getppid:error=EPERM:when=99", "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def _may_use_fuse() -> bool:
    return (
        os.access("/dev/fuse", os.R_OK | os.W_OK)
        and shutil.which("fusermount3") is not None
        and importlib.util.find_spec("mfusepy") is not None
    )


def _is_root() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "needs_root": (_is_root, "needs root on Linux, to mount file systems"),
    "needs_strace": (_may_trace, "needs strace and the right to trace children"),
    "needs_fuse": (_may_use_fuse, "needs /dev/fuse, fusermount3 and the package mfusepy"),
    "needs_loop": (
        lambda: os.path.exists("/dev/loop-control") and shutil.which("losetup") is not None,
        "needs loop devices and losetup",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot do."""
    for item in items:
        for mark, (available, reason) in NEEDS.items():
            if item.get_closest_marker(mark) is not None and not available():
                item.add_marker(pytest.mark.skip(reason=reason))
