"""Runs programs in slots and turns what happened into verdicts; the room's front door.

A slot is one zygote and what is needed to talk to it. The pool has at most as many slots as the
machine has cores: more would make programs wait for a processor and look slow. Calls block; from
asynchronous code they belong on a thread.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import selectors
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from farm.errors import FarmError, SpecError, UsageError
from farm.sandbox import limits
from farm.sandbox.lockdown import Walls
from farm.sandbox.scratch import delete_tree
from farm.sandbox.verdict import LEVELS, Account, CandidateResult, Isolation, decide

_PATIENCE_S = 5.0  # beyond the longest timeout, before a zygote counts as lost
_START_S = 30.0
_ENTRY = "import sys; sys.path[:0] = [{root!r}]; from farm.sandbox.zygote import main; main()"


class SandboxUnavailable(FarmError):
    """The isolation that is asked for cannot be had on this machine."""


class SandboxLost(FarmError):
    """A sandbox process failed for a reason of its own; the program was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How programs are run; the same for all programs of a run.

    `imports` is "deny" (the policy of `farm.sandbox.imports`) or "allow". `require_isolation`
    names the weakest level to accept. `allow_unisolated` accepts running without any, which is
    refused otherwise.
    """

    imports: Literal["allow", "deny"] = "deny"
    require_isolation: str | None = None
    allow_unisolated: bool = False
    walls: Walls = Walls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One program with what judges it."""

    code: str
    assertions: tuple[str, ...]
    bounds: limits.Limits = limits.Limits()
    entry_point: str | None = None
    grading: Literal["split", "in_process"] = "split"
    imports: Literal["allow", "deny"] | None = None  # None: as the settings say


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
        self._base = ""
        self._start()

    def _start(self) -> None:
        """Start a zygote with all walls, or with those the machine grants."""
        complaint = ""
        for walls in (self._walls, self._walls._replace(namespaces=False)):
            complaint = self._try_start(walls)
            if not complaint:
                return
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
            line = json.dumps({"failed": str(error)}).encode()
        ready = json.loads(line) if line else {"failed": "it ended without a word"}
        if "failed" in ready:
            self._stop()
            return str(ready["failed"])
        self._control.settimeout(None)
        self.found: dict[str, Any] = ready["isolation"]
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
        self._jobs += 1
        job = {
            "code": work.code,
            "assertions": work.assertions,
            "entry_point": work.entry_point,
            "grading": work.grading,
            "imports": work.imports or imports,
        }
        conversation = _Conversation(
            self._control, self._lines, self._jobs, json.dumps(job).encode("ascii"), work.bounds
        )
        try:
            report = conversation.hold()
        finally:
            conversation.close()
        if report is None:
            self._stop()
            self._start()
            raise SandboxLost("a sandbox process was lost; the program was not judged, run it again")
        if report["left"]:
            _Deleter.later(report["left"])
        lines = [json.loads(line) for line in conversation.verdict.splitlines()]
        if any(line.get("load") == "harness" for line in lines):
            raise SandboxLost("a candidate process could not be set up; the program was not judged")
        account = Account(
            timeout=report["timeout"],
            over_output=conversation.over,
            over_quota=report["over_quota"],
            starved=report["starved"],
            signal=report["signal"],
            cpu_ms=report["cpu_ms"],
            wall_ms=report["wall_ms"],
        )
        return decide(
            lines,
            account,
            total=len(work.assertions),
            isolation=self.isolation,
            output=bytes(conversation.output).decode("utf-8", "backslashreplace"),
        )

    def _stop(self) -> None:
        """End this zygote and what belongs to it."""
        self._lines.close()
        self._control.close()
        try:
            self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        delete_tree(self._base)

    def close(self) -> None:
        """End the zygote; its children die with it."""
        self._stop()


class _Conversation:
    """The talk with a zygote about one job: the job goes out, verdict and output come in."""

    def __init__(
        self, control: socket.socket, lines: Any, number: int, text: bytes, bounds: limits.Limits
    ) -> None:
        self._control, self._control_lines, self._number = control, lines, number
        self._text = memoryview(text)
        self._bounds = bounds
        self.verdict = bytearray()
        self.output = bytearray()
        self.over = False
        self._work_in, self._work = os.pipe()
        self._verdict, self._verdict_in = os.pipe()
        self._output, self._output_in = os.pipe()
        self._open = {self._work, self._verdict, self._output}

    def hold(self) -> dict[str, Any] | None:
        """Send the job and read until the zygote reports; None when it is lost."""
        line = json.dumps({"job": self._number, "limits": self._bounds._asdict()}).encode("ascii")
        theirs = [self._work_in, self._verdict_in, self._output_in]
        try:
            socket.send_fds(self._control, [line + b"\n"], theirs)
        except OSError:
            return None
        finally:
            for number in theirs:
                os.close(number)
        for number in self._open:
            os.set_blocking(number, False)
        longest = max(self._bounds.timeout_s, limits.LONGEST_TIMEOUT_S) + _PATIENCE_S
        deadline = time.monotonic() + longest
        with selectors.DefaultSelector() as selector:
            selector.register(self._work, selectors.EVENT_WRITE)
            for number in (self._verdict, self._output, self._control.fileno()):
                selector.register(number, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left_s):
                    if key.fd == self._control.fileno():
                        reported = self._control_lines.readline()
                        self._read_rest()
                        return dict(json.loads(reported)) if reported else None
                    if not self._move(key.fd):
                        selector.unregister(key.fd)
                        self._close(key.fd)
        return None

    def _move(self, number: int) -> bool:
        """Move bytes on one pipe; False once it is done with."""
        try:
            if number == self._work:
                self._text = self._text[os.write(number, self._text) :]
                return bool(self._text)
            part = os.read(number, 1 << 16)
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        if number == self._verdict:
            self.verdict += part
        else:
            self.output += part[: limits.OUTPUT_BYTES - len(self.output)]
            if len(self.output) >= limits.OUTPUT_BYTES and not self.over:
                self.over = True
                with contextlib.suppress(OSError):  # a zygote that is gone is met by the reader
                    self._control.sendall(json.dumps({"kill": self._number}).encode() + b"\n")
        return bool(part)

    def _read_rest(self) -> None:
        """Take what was written before the end and not read yet."""
        for number in (self._verdict, self._output):
            while number in self._open and not (number == self._output and self.over):
                before = len(self.verdict) + len(self.output)
                if not self._move(number) or len(self.verdict) + len(self.output) == before:
                    break

    def _close(self, number: int) -> None:
        if number in self._open:
            self._open.remove(number)
            os.close(number)

    def close(self) -> None:
        """Close what is still open."""
        for number in list(self._open):
            self._close(number)


class _Deleter:
    """Deletes what programs left on disk, behind the back of whoever waits for a verdict."""

    _paths: queue.SimpleQueue[str] = queue.SimpleQueue()
    _thread: threading.Thread | None = None
    _lock = threading.Lock()

    @classmethod
    def later(cls, path: str) -> None:
        cls._paths.put(path)
        with cls._lock:
            if cls._thread is None:
                cls._thread = threading.Thread(target=cls._work, daemon=True)
                cls._thread.start()

    @classmethod
    def _work(cls) -> None:
        while True:
            delete_tree(cls._paths.get())


class Sandbox:
    """A pool of slots; safe to use from many threads, closed by `with` or `close`.

    Slots start when they are first needed. Raises `SandboxUnavailable` when the machine does
    not grant the isolation that the settings ask for.
    """

    def __init__(self, settings: Settings | None = None, *, slots: int | None = None) -> None:
        self.settings = settings or Settings()
        if self.settings.require_isolation not in (None, *LEVELS):
            raise UsageError(
                f"isolation level {self.settings.require_isolation!r} is not one of "
                + ", ".join(LEVELS)
            )
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        self.slots = max(1, min(slots or cores, cores))
        self._free: queue.LifoQueue[Slot | None] = queue.LifoQueue()
        self._closed = False
        for _ in range(self.slots):
            self._free.put(None)

    @contextlib.contextmanager
    def _slot(self) -> Iterator[Slot]:
        if self._closed:
            raise UsageError("the sandbox is closed: open another one")
        slot = self._free.get()
        try:
            if slot is None:
                slot = self._new_slot()
            yield slot
        finally:
            self._free.put(slot)

    def _new_slot(self) -> Slot:
        slot = Slot(self.settings.walls)
        level, wanted = slot.isolation.level, self.settings.require_isolation
        if wanted is not None and not slot.isolation.reaches(wanted):
            slot.close()
            raise SandboxUnavailable(
                f"isolation {level!r} is all this machine grants and {wanted!r} is required: "
                "use another machine, or a weaker --require-isolation"
            )
        if level == "advisory" and not self.settings.allow_unisolated:
            slot.close()
            raise SandboxUnavailable(
                "this machine offers no isolation for programs a model wrote: "
                "use another one, or accept the risk with --allow-unisolated"
            )
        return slot

    def run(self, work: Work) -> CandidateResult:
        """Run one program; waits for a free slot. A slot that was lost is tried once more."""
        with self._slot() as slot:
            try:
                return slot.run(work, imports=self.settings.imports)
            except SandboxLost:
                return slot.run(work, imports=self.settings.imports)

    def probe(self) -> dict[str, Any]:
        """Return the isolation in force and every attack's result, as plain data."""
        with self._slot() as slot:
            return dict(slot.found)

    @property
    def isolation(self) -> Isolation:
        """The isolation in force, for the header of a run."""
        with self._slot() as slot:
            return slot.isolation

    def close(self) -> None:
        """End all slots that are free; a caller still in `run` keeps its own to the end."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                slot = self._free.get_nowait()
                if slot is not None:
                    slot.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def checked_work(
    code: str, assertions: Sequence[str] | str, *, timeout_s: float, **options: Any
) -> Work:
    """Return the work a caller asks for; raises `SpecError` for what cannot be judged."""
    listed = (assertions,) if isinstance(assertions, str) else tuple(assertions)
    if not listed:
        raise SpecError("no assertions are given, so there is nothing to judge the program by")
    for text in (code, *listed):
        if not isinstance(text, str):
            raise SpecError(f"code and assertions are text, not {type(text).__name__}")
    if not 0 < timeout_s <= limits.LONGEST_TIMEOUT_S:
        raise SpecError(
            f"timeout {timeout_s!r} s is outside 0 to {limits.LONGEST_TIMEOUT_S:g}: choose one inside"
        )
    bounds = limits.Limits(timeout_s=float(timeout_s))
    return replace(Work(code=code, assertions=listed, bounds=bounds), **options)


_shared_sandboxes: dict[Settings, Sandbox] = {}
_shared_lock = threading.Lock()


def shared(settings: Settings) -> Sandbox:
    """Return this process's sandbox for these settings; closed when the interpreter ends."""
    with _shared_lock:
        if settings not in _shared_sandboxes:
            sandbox = _shared_sandboxes[settings] = Sandbox(settings)
            atexit.register(sandbox.close)
        return _shared_sandboxes[settings]


def run_candidate(
    code: str,
    assertions: Sequence[str] | str,
    timeout_s: float = limits.DEFAULT_TIMEOUT_S,
    *,
    entry_point: str | None = None,
    grading: Literal["split", "in_process"] = "split",
    settings: Settings | None = None,
) -> CandidateResult:
    """Run a program a model wrote and judge it by assertions it cannot see.

    An assertion is an expression, an `assert`, or a block of statements that contains asserts;
    all share one program and its state. `timeout_s` is for loading and all assertions together,
    at most 30. `entry_point` names the function under test where it is called like a builtin.
    Raises `SpecError` for unusable arguments, `SandboxUnavailable` when the machine does not
    grant the isolation asked for; whatever the program does ends in a `CandidateResult`.
    """
    work = checked_work(
        code, assertions, timeout_s=timeout_s, entry_point=entry_point, grading=grading
    )
    return shared(settings or Settings()).run(work)


def score_code_exec(
    code: str,
    assertions: Sequence[str] | str,
    timeout_s: float = limits.DEFAULT_TIMEOUT_S,
    *,
    entry_point: str | None = None,
    settings: Settings | None = None,
) -> float:
    """Return the share of assertions that a program passes, in [0, 1]."""
    return run_candidate(
        code, assertions, timeout_s, entry_point=entry_point, settings=settings
    ).score
