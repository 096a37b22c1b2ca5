"""A pseudo-terminal around the command, since some promises hold on a terminal alone."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping

from tests.acceptance.shell import FARM, environment


def on_terminal(
    *arguments: str | bytes,
    out: bool = True,
    err: bool = True,
    variables: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes]:
    """Run the command with a terminal at stdout, stderr or both.

    Gives the exit code, what came to the terminal, and what came to the pipe at the other.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [FARM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=slave if out else subprocess.PIPE,
        stderr=slave if err else subprocess.PIPE,
        env=environment({"TERM": "xterm-256color", "COLUMNS": "100", **(variables or {})}),
    )
    os.close(slave)
    shown = b""
    try:
        while data := _read(master):
            shown += data
        piped = b"".join(pipe.read() for pipe in (process.stdout, process.stderr) if pipe)
        code = process.wait(timeout=60)
    finally:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        os.close(master)
    return code, shown.replace(b"\r\n", b"\n"), piped


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # what Linux says when the last process has closed the other side
        return b""
