"""One slot: a zygote process, started with what the machine grants and replaced when lost."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from farm.errors import SandboxLost, SandboxUnavailable
from farm.sandbox import limits
from farm.sandbox.conversation import PATIENCE_S, Conversation
from farm.sandbox.lockdown import Walls
from farm.sandbox.scratch import delete_tree
from farm.sandbox.verdict import Account, CandidateResult, Isolation, decide, evaluates

_START_S = 30.0
# A zygote that is ended from outside while it starts is started again, so often at most.
_TRIES = 10
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
_ENTRY = "import sys; sys.path[:0] = [{root!r}]; from farm.sandbox.zygote import main; main()"

Grading = Literal["split", "in_process"]
Imports = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One program with what judges it."""

    code: str
    assertions: tuple[str, ...]
    bounds: limits.Limits = field(default_factory=limits.Limits)
    entry_point: str | None = None
    grading: Grading = "split"
    imports: Imports | None = None  # None: as the settings say


def _package_directories() -> list[str]:
    """Installed packages a program may import; found here, the zygote has no site module."""
    own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    listed = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [path for path in dict.fromkeys([*listed, *sorted(own)]) if os.path.isdir(path)]


def _library_directories() -> list[str]:
    packages = set(_package_directories())
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    listed = [os.path.realpath(path) for path in sys.path if path and path not in packages]
    zipped = [path for path in listed if path.endswith(".zip")]
    inside = [path for path in listed if path == library or path.startswith(library + os.sep)]
    return list(dict.fromkeys([*zipped, *inside]))


class Slot:
    """One zygote process; used by one caller at a time."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._jobs = 0
        self._is_up = False
        self.kept = 0  # the process of a tester that waits for the next program, 0 if none does
        self._base = ""
        self._start()

    def _start(self) -> None:
        """Start a zygote with all walls, or with those the machine grants."""
        complaint, killed = "", 0
        choices = [self._walls, self._walls._replace(namespaces=False)]
        while choices and killed < _TRIES:
            complaint = self._try_start(choices[0])
            if not complaint:
                return
            if self._process.returncode in _FROM_OUTSIDE:
                killed += 1  # which says nothing about these walls
            else:
                del choices[0]
        raise SandboxUnavailable(
            f"the sandbox process did not start: {complaint}; see 'farm sandbox probe'"
        )

    def _try_start(self, walls: Walls) -> str:
        """Start one zygote; return "" or what went wrong."""
        self._base = tempfile.mkdtemp(prefix="farm-sandbox-")
        ours, theirs = socket.socketpair()
        settings = {
            "control": theirs.fileno(),
            "walls": walls._asdict(),
            "base": self._base,
            "packages": _package_directories(),
            "library": _library_directories(),
        }
        root = str(Path(__file__).resolve().parent.parent.parent)
        command = [sys.executable, "-s", "-S", "-P", "-B", "-X", "utf8", "-c"]
        self._process = subprocess.Popen(
            [*command, _ENTRY.format(root=root), json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd="/",
            # ends by the end of its socket, tidying up; not by a signal to our whole group
            start_new_session=True,
            env={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "PYTHONHASHSEED": "0",
                # a thread for every core would not fit in a program's address space
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
            },
        )
        theirs.close()
        self._control = ours
        self._control.settimeout(_START_S)
        self._lines = ours.makefile("rb")
        try:
            line = self._lines.readline()
        except OSError as error:
            line = json.dumps({"failed": str(error)}).encode() + b"\n"
        silent = not line.endswith(b"\n")  # gone, also in the middle of its word
        ready: dict[str, Any] = (
            {"failed": "it ended without a word"} if silent else json.loads(line)
        )
        if "failed" in ready:
            self._stop()
            return str(ready["failed"])
        self._control.settimeout(None)
        self.nursery: int = ready["ready"]  # the process that forks programs, 0 if there is none
        self.found: dict[str, Any] = ready["isolation"]
        self._is_up = True
        return ""

    @property
    def isolation(self) -> Isolation:
        """What isolation this slot's attack on itself found in force."""
        found = self.found
        return Isolation(
            level=found["level"],
            landlock_abi=found["landlock_abi"],
            seccomp=found["seccomp"],
            namespaces=found["namespaces"],
        )

    def run(self, work: Work, *, imports: str) -> CandidateResult:
        """Run one program to its verdict; raises `SandboxLost` when there is none."""
        if not self._is_up:  # it could not be replaced when it was lost
            self._start()
        self._jobs += 1
        job = {
            "code": work.code,
            "assertions": work.assertions,
            "entry_point": work.entry_point,
            "grading": work.grading,
            "imports": work.imports or imports,
        }
        conversation = Conversation(
            self._control,
            self._lines,
            self._jobs,
            json.dumps(job).encode("ascii"),
            work.bounds,
            assertions=len(work.assertions),
        )
        try:
            report = conversation.hold()
        finally:
            conversation.close()
        if report is None:
            self._stop()
            self._start()
            raise SandboxLost(
                "a sandbox process was lost; the program was not judged, run it again"
            )
        self.kept, self.nursery = report["kept"], report["nursery"]
        if report["left"]:
            Deleter.later(report["left"])
        # what is behind the last end of a line is one that its writer did not live to finish
        lines = [json.loads(line) for line in conversation.verdict.split(b"\n")[:-1]]
        if report["lost"] and not any("end" in line for line in lines):
            raise SandboxLost(
                "the process that judges was ended from outside; the program was not judged, "
                "run it again"
            )
        if any(line.get("load") == "harness" for line in lines):
            raise SandboxLost("a candidate process could not be set up; the program was not judged")
        account = Account(
            timeout=report["timeout"],
            over_output=conversation.over,
            over_quota=report["over_quota"],
            starved=report["starved"],
            spent=report["spent"],
            signal=report["signal"],
            tester_signal=report["tester_signal"],
            cpu_ms=report["cpu_ms"],
            wall_ms=report["wall_ms"],
        )
        return decide(
            lines,
            account,
            total=len(work.assertions),
            isolation=self.isolation,
            evaluating=evaluates(work.assertions),
            output=bytes(conversation.output).decode("utf-8", "backslashreplace"),
        )

    def _stop(self) -> None:
        """End this zygote and what belongs to it."""
        self._is_up, self.kept, self.nursery = False, 0, 0
        self._lines.close()
        self._control.close()
        try:
            self._process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        Deleter.finish()  # two that delete one tree would leave parts of it
        delete_tree(self._base)

    def close(self) -> None:
        """End the zygote; its children die with it."""
        if self._is_up:
            self._stop()

    def abandon(self) -> None:
        """Let go of a zygote that belongs to the process this one was forked from."""
        self._lines.close()
        self._control.close()
        self._process.returncode = 0  # no child of ours: nobody here is to wait for it


class Deleter:
    """Deletes what programs left on disk, behind the back of whoever waits for a verdict."""

    _paths: queue.Queue[str] = queue.Queue()
    _thread: threading.Thread | None = None
    _lock = threading.Lock()

    @classmethod
    def later(cls, path: str) -> None:
        """Have a tree deleted when there is time."""
        cls._paths.put(path)
        with cls._lock:
            if cls._thread is None:
                cls._thread = threading.Thread(target=cls._work, daemon=True)
                cls._thread.start()

    @classmethod
    def _work(cls) -> None:
        while True:
            delete_tree(cls._paths.get())
            cls._paths.task_done()

    @classmethod
    def begin_anew(cls) -> None:
        """Forget what a process this one was forked from has still to delete."""
        cls._paths, cls._thread, cls._lock = queue.Queue(), None, threading.Lock()

    @classmethod
    def finish(cls) -> None:
        """Wait until everything that was handed over is deleted."""
        cls._paths.join()
