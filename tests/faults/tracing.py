"""Faults put into single system calls of a real command, with strace."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.runs import FARM

# every call by which a command changes a file, a name, a lock, or says something
CALLS = (
    "openat", "write", "pwrite64", "fsync", "fdatasync", "close", "rename", "renameat",
    "renameat2", "link", "linkat", "unlink", "unlinkat", "flock", "ftruncate", "mkdir", "mkdirat",
)  # fmt: skip
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")
_READS = re.compile(r"O_RDONLY(?!.*O_CREAT)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One system call of a command: the `number`-th of its name in its thread."""

    call: str
    number: int
    what: str  # the rest of the line, for messages
    said: int  # lines that the command had written on stdout before

    @property
    def name(self) -> str:
        return f"{self.call}-{self.number}"


def trace(*arguments: str, store: str, log: str) -> list[Point]:
    """Run a command and list its calls that touch `store` or stdout, reads left out."""
    traced = ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={','.join(CALLS)}"]
    done = subprocess.run([*traced, *FARM, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    counts: Counter[tuple[str, str]] = Counter()
    points: list[Point] = []
    said = 0
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            parsed = _LINE.match(line)
            if parsed is None:
                continue
            thread, call, rest = parsed.groups()
            counts[thread, call] += 1
            speaks = call == "write" and rest.startswith("1<")
            changes = os.path.basename(store) in rest and not _READS.search(rest)
            if speaks or changes:
                points.append(
                    Point(call=call, number=counts[thread, call], what=rest.strip(), said=said)
                )
            said += speaks
    return points


def inject(call: str, number: int, action: str) -> Sequence[str]:
    """Give what to put before a command so that `action` befalls that call."""
    fault = f"inject={call}:{action}:when={number}"
    return ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", fault)
