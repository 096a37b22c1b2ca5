"""Ending a worker: ask its whole process group, give it time, then kill what is left."""

from __future__ import annotations

import contextlib
import os
import signal

from anyio.abc import Process


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to a worker's process group; a group that is gone is no error."""
    # PermissionError is what macOS says of a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def ask_to_end(process: Process) -> None:
    """Ask with SIGTERM; SIGCONT lets a stopped process hear it."""
    signal_group(process, signal.SIGTERM)
    signal_group(process, signal.SIGCONT)


def kill(process: Process) -> None:
    """Kill the worker and every child of it that stayed in its group."""
    signal_group(process, signal.SIGKILL)
