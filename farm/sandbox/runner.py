"""Runs programs in slots and turns what happened into verdicts; the room's front door.

A slot is one zygote and what is needed to talk to it. The pool has at most as many slots as the
machine has cores: more would make programs wait for a processor and look slow. Calls block; from
asynchronous code they belong on a thread.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, SupportsFloat, get_args

from farm.errors import SandboxLost, SandboxUnavailable, SpecError, UsageError
from farm.sandbox import limits
from farm.sandbox.conversation import abandon_all
from farm.sandbox.lockdown import Walls
from farm.sandbox.slot import Deleter, Grading, Imports, Slot, Work
from farm.sandbox.verdict import LEVELS, CandidateResult, Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How programs are run; the same for all programs of a run.

    `imports` is "deny" (the policy of `farm.sandbox.imports`) or "allow". `require_isolation`
    names the weakest level to accept. `allow_unisolated` accepts running without any, which is
    refused otherwise. `timeout_s` is for programs that `judge` is given none for.
    """

    imports: Imports = "deny"
    timeout_s: float = limits.DEFAULT_TIMEOUT_S
    require_isolation: str | None = None
    allow_unisolated: bool = False
    walls: Walls = field(default_factory=Walls)


def cores() -> int:
    """Return how many processors this process may use: the most slots that make sense."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


_open_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


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
        if self.settings.imports not in get_args(Imports):
            raise UsageError(
                f"imports {self.settings.imports!r} is not one of {', '.join(get_args(Imports))}"
            )
        self.slots = max(1, min(slots or cores(), cores()))
        self._closed = False
        self._begin_anew()
        _open_sandboxes.add(self)

    def _begin_anew(self) -> None:
        """Have no slot started yet."""
        self._started: weakref.WeakSet[Slot] = weakref.WeakSet()
        self._free: queue.LifoQueue[Slot | None] = queue.LifoQueue()
        for _ in range(self.slots):
            self._free.put(None)

    def leave_to_parent(self) -> None:
        """Leave all slots to the process this one was forked from, and start others when asked."""
        for slot in list(self._started):
            slot.abandon()
        self._begin_anew()

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
        self._started.add(slot)
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

    def judge(
        self,
        code: str,
        assertions: Sequence[str],
        /,
        *,
        timeout_s: float | None = None,
        entry_point: str | None = None,
    ) -> CandidateResult:
        """Run one program as `farm.scoring.programs` asks for it; by default in its own time."""
        limit = self.settings.timeout_s if timeout_s is None else timeout_s
        return self.run(checked_work(code, assertions, timeout_s=limit, entry_point=entry_point))

    def probe(self) -> dict[str, Any]:
        """Return the isolation in force and every attack's result, as plain data."""
        with self._slot() as slot:
            return dict(slot.found)

    @property
    def isolation(self) -> Isolation:
        """The isolation in force, for the header of a run."""
        with self._slot() as slot:
            return slot.isolation

    @property
    def kept(self) -> set[int]:
        """Process ids of the testers that wait in free slots for the next program."""
        return {slot.kept for slot in self._idle() if slot.kept}

    @property
    def nurseries(self) -> set[int]:
        """Process ids of what forks programs in free slots; of a program, nothing is left."""
        return {slot.nursery for slot in self._idle() if slot.nursery}

    def _idle(self) -> list[Slot]:
        return [slot for slot in list(self._free.queue) if slot is not None]

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
    code: str,
    assertions: Sequence[str] | str,
    *,
    timeout_s: float,
    entry_point: str | None = None,
    grading: Grading = "split",
) -> Work:
    """Return the work a caller asks for; raises `SpecError` for what cannot be judged."""
    listed = _texts(assertions)
    if not listed:
        raise SpecError("no assertions are given, so there is nothing to judge the program by")
    _text(code)
    if grading not in get_args(Grading):
        raise SpecError(f"grading {grading!r} is not one of {', '.join(get_args(Grading))}")
    if entry_point is not None and not (
        isinstance(entry_point, str) and entry_point.isidentifier()
    ):
        raise SpecError(f"entry point {entry_point!r} is not the name of a function")
    return Work(
        code=code,
        assertions=listed,
        bounds=limits.Limits(timeout_s=_seconds(timeout_s)),
        entry_point=entry_point,
        grading=grading,
    )


def _texts(assertions: object) -> tuple[str, ...]:
    if isinstance(assertions, str):
        return (assertions,)
    if not isinstance(assertions, Iterable) or isinstance(assertions, bytes):
        raise SpecError(f"assertions are texts, not {type(assertions).__name__}")
    return tuple(map(_text, assertions))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise SpecError(f"code and assertions are text, not {type(value).__name__}")
    return value


def _seconds(timeout_s: object) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, SupportsFloat):
        raise SpecError(f"timeout {timeout_s!r} is no number of seconds")
    if not 0 < float(timeout_s) <= limits.LONGEST_TIMEOUT_S:
        raise SpecError(
            f"timeout {timeout_s!r} s is outside 0 to {limits.LONGEST_TIMEOUT_S:g} s: "
            "choose one inside"
        )
    return float(timeout_s)


_shared_sandboxes: dict[Settings, Sandbox] = {}
_shared_lock = threading.Lock()


def _part_after_fork() -> None:
    """Leave all sockets to the parent: two that talk on one would take each other's words."""
    global _shared_lock
    _shared_lock = threading.Lock()  # a thread that is not here may have held it
    Deleter.begin_anew()
    abandon_all()
    for sandbox in list(_open_sandboxes):
        sandbox.leave_to_parent()


os.register_at_fork(after_in_child=_part_after_fork)


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
    grading: Grading = "split",
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
