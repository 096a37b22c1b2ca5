"""The corpus of hostile and tricky programs, and what must not have happened after each.

Imports the standard library and farm only, so that it also runs for a user without any
development package (`python -m tests.sandbox.corpus DIRECTORY`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from farm.sandbox.runner import Sandbox, Settings, checked_work
from farm.sandbox.verdict import CandidateResult

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "candidate_programs.json"
CANARY = "FARM_CANARY"


def programs() -> list[dict[str, Any]]:
    """Every hostile and benign program; the others belong to other rooms."""
    listed = json.loads(VECTORS.read_text("utf-8"))
    return [one for one in listed if one["kind"] in ("hostile", "benign")]


class Witness:
    """Sets a stage in a directory, lets one program run, and says what harm was done."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.victim = directory / "farm_victim" / "keep.txt"
        self.victim.parent.mkdir(exist_ok=True)
        self.victim.write_text("keep")
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.unix.bind(str(directory / "farm_hostile_dgram"))
        for listener in (self.datagrams, self.unix):
            listener.setblocking(False)

    def close(self) -> None:
        """Close the listeners."""
        self.datagrams.close()
        self.unix.close()

    def staged(self, text: str) -> str:
        """Put this directory and a free port into a program."""
        port = str(self.datagrams.getsockname()[1])
        return text.replace("{TMP}", str(self.directory)).replace("39518", port)

    def run(self, sandbox: Sandbox, program: dict[str, Any], *, timeout_s: float) -> list[str]:
        """Run one program; return what was wrong, in words, nothing when all is well."""
        work = checked_work(
            self.staged(program["code"]), program["assertions"], timeout_s=timeout_s
        )
        before = farm_processes()
        library = _library_fingerprint()
        started = time.monotonic()
        result = sandbox.run(work)
        wall_s = time.monotonic() - started
        return [
            *self._verdict(program, result),
            *self._harm(program, result, before | sandbox.kept | sandbox.nurseries),
            *self._time(program, result, wall_s, timeout_s),
            *([] if _library_fingerprint() == library else ["the library was changed"]),
        ]

    def _verdict(self, program: dict[str, Any], result: CandidateResult) -> list[str]:
        wrong = []
        if result.outcome not in (program["expected_outcome"], *program.get("also_ok", ())):
            wrong.append(f"outcome {result.outcome}: {result.detail}")
        if program["harm_check"].get("not_forged") and result.passed == result.total:
            wrong.append("the verdict was forged")
        if result.outcome == "pass" and result.score != 1:
            wrong.append("a pass without a full score")
        if os.environ.get(CANARY, "no canary") in result.output:
            wrong.append("the environment leaked")
        if any(text in result.output for text in program["assertions"] if "==" in text):
            wrong.append("an assertion leaked")
        if len(result.output.encode()) > 4 * 256 * 1024:  # escaped bytes take four for one
            wrong.append("the output is over its cap")
        return wrong

    def _harm(
        self, program: dict[str, Any], result: CandidateResult, before: set[int]
    ) -> list[str]:
        check = program["harm_check"]
        forbidden = [self.staged(path) for path in check.get("no_file", ())]
        if "no_file_after_s" in check:
            path, wait_s = check["no_file_after_s"]
            # every process of the job is gone, so nobody is left to wait for; see the survivors
            forbidden.append(self.staged(path))
            assert wait_s > 0
        wrong = [f"{path} exists" for path in forbidden if os.path.exists(path)]
        survivors = farm_processes() - before
        if survivors:
            wrong.append(f"processes {survivors} outlived the program")
        if self.victim.read_text() != "keep":
            wrong.append("a file outside was changed")
        for listener in (self.datagrams, self.unix):
            try:
                listener.recv(16)
                wrong.append("a datagram got out")
            except BlockingIOError:
                pass
        if check.get("scratch_max_mb", 64) < 32:
            wrong.append("the scratch limit is above the one asked for")
        if result.isolation.grading != "split":
            wrong.append("graded in process")
        return wrong

    def _time(
        self, program: dict[str, Any], result: CandidateResult, wall_s: float, timeout_s: float
    ) -> list[str]:
        if result.starved:
            return []  # the machine was busy: the deadline moved, and the result says so
        limit_s = min(program["harm_check"]["max_wall_s"], timeout_s + 1.0)
        return [f"took {wall_s:.1f} s"] if wall_s > limit_s else []


_BASES: set[bytes] = set()  # the folders of all zygotes that this process has had


def farm_processes() -> set[int]:
    """Processes that came out of a zygote of this process and are not zygotes themselves.

    Told by the zygote's folder, so that other sandboxes on the machine are none of ours.
    """
    seen: dict[int, tuple[bytes, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            command = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        base = re.search(rb'"base": "([^"]+)"', command)
        if b"farm.sandbox.zygote" in command and base:
            seen[int(name)] = (base[1], _parent_of(int(name)))
    _BASES.update(base for base, parent in seen.values() if parent == os.getpid())
    return {
        process
        for process, (base, parent) in seen.items()
        if base in _BASES and parent != os.getpid() and _is_leftover(parent)
    }


def _is_leftover(parent: int) -> bool:
    return parent == 1 or _parent_of(parent) in (os.getpid(), 1)


def _parent_of(process: int) -> int:
    try:
        text = Path("/proc", str(process), "status").read_text()
    except OSError:
        return -1
    found = re.search(r"^PPid:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else -1


def _library_fingerprint() -> str:
    """Names, sizes and times of what lies beside the standard library's modules."""
    rows = []
    for directory in {os.path.dirname(os.__file__), *sys.path[:3]}:
        if os.path.isdir(directory):
            for entry in os.scandir(directory):
                if not stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
                    rows.append((entry.path, entry.stat(follow_symlinks=False).st_size))
    return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()


def main() -> None:
    """Run the whole corpus in DIRECTORY and print what went wrong as JSON."""
    directory = Path(sys.argv[1])
    tempfile.tempdir = str(directory)
    witness = Witness(directory)
    wrong: dict[str, list[str]] = {}
    with Sandbox(Settings(imports="allow"), slots=1) as sandbox:
        for program in programs():
            found = witness.run(sandbox, program, timeout_s=2.0)
            if found:
                wrong[program["name"]] = found
        isolation = sandbox.isolation
    witness.close()
    print(json.dumps({"user": os.getuid(), "level": isolation.level, "wrong": wrong}))


if __name__ == "__main__":
    main()
