"""The zygote: one warmed interpreter per slot, of which tester and nursery are forked.

It never reads a job. Descriptors arrive over its control socket and go to the tester; whatever
the zygote held in memory, the candidate would inherit. It keeps the time, ends both processes,
and sees to the scratch directory. Started by `runner` as a program of its own, with an empty
environment and without the site module.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
import time
from typing import Any, NamedTuple

from farm.sandbox import candidate, kernel, landlock, limits, namespaces, probe, rehearsal
from farm.sandbox.kept import Death, Pipes, TesterProcess, used
from farm.sandbox.lockdown import Lockdown, Walls, close_others
from farm.sandbox.nursery import Ended, Nursery, NurseryLost
from farm.sandbox.scratch import Scratch

# What many programs import: loaded once here instead of in each candidate. The list is short
# because a larger zygote takes longer to fork.
_WARM = (
    "math", "collections", "itertools", "functools", "re", "heapq", "bisect", "operator",
    "string", "copy", "typing",
)  # fmt: skip
# What assertions import besides; loaded once the nursery is forked, which stays small.
_WARM_FOR_TESTERS = ("random",)
_QUOTA_LOOK_S = 0.02
# A job that takes longer may run on any core: the one it started on may be somebody else's.
_PINNED_S = 0.05
# Waiting for a processor below this share of the time limit is ordinary on a shared machine.
_STARVED_SHARE = 1 / 3
# A program that had this share of its time on a processor had its time, however long it waited.
_HAD_ITS_SHARE = 0.9


class Job(NamedTuple):
    """What the zygote is told of a job: its number, its limits, whose pipes it gets."""

    number: int
    bounds: limits.Limits


class Ending(NamedTuple):
    """How a job ended: by time, by the runner's word, by quota, or by the tester being done."""

    timeout: bool = False
    killed: bool = False
    over_quota: bool = False
    starved: bool = False
    spent: bool = False
    runner_gone: bool = False

    @property
    def judged(self) -> bool:
        """Whether nothing but the tester ended the job."""
        return not (self.timeout or self.killed or self.over_quota or self.runner_gone)


class Zygote:
    """Serves one control socket; one job at a time."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control = control
        self._lines = b""
        self._descriptors: list[int] = []
        self._cores = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        self._tester: TesterProcess | None = None
        self._nursery: Nursery | None = None
        self._scratch, self._lockdown, self.isolation = _settle(settings)

    def serve(self) -> None:
        """Take jobs until the runner closes the socket."""
        nursery = self._nursery = Nursery(self._lockdown)
        for name in _WARM_FOR_TESTERS:
            importlib.import_module(name)
        gc.freeze()
        self._tell({"ready": nursery.pid, "isolation": self.isolation})
        while True:
            line = self._next_line()
            if line is None:
                return
            if "kill" in line:
                continue  # came too late for the job it meant
            job = Job(line["job"], limits.Limits(**line["limits"]))
            if not self._run(job):
                return

    def leave(self) -> None:
        """Remove what is on disk; the runner does it too, if it still can."""
        if self._tester is not None:
            self._tester.end()
        self._close_nursery()
        self._scratch.remove()

    def _close_nursery(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None

    def _tell(self, fact: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(fact).encode("ascii") + b"\n")

    def _next_line(self) -> dict[str, Any] | None:
        """Wait for one line of the control socket; None when the runner is gone."""
        while b"\n" not in self._lines:
            try:
                part, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 8)
            except OSError:
                return None
            if not part:
                return None
            self._lines += part
            self._descriptors += descriptors
        first, self._lines = self._lines.split(b"\n", 1)
        return dict(json.loads(first))

    def _run(self, job: Job) -> bool:
        """Run one job from fork to report; False when the runner is gone."""
        work, verdict, output = self._descriptors[:3]
        del self._descriptors[:3]
        started = time.monotonic()
        nursery = self._nursery = self._nursery or Nursery(self._lockdown)
        judge, self._tester = self._tester or TesterProcess(self._lockdown), None
        self._put_on_one_core(nursery.pid, judge.pid)
        to_candidate, from_tester = os.pipe()
        to_tester, from_candidate = os.pipe()
        pipes = Pipes(work=work, verdict=verdict, source=to_tester, target=from_tester)
        if not judge.begin(pipes):  # ended from outside while it waited for this job
            judge.end()
            judge = TesterProcess(self._lockdown)
            judge.begin(pipes)
        program = nursery.bear(
            job.bounds, source=to_candidate, target=from_candidate, output=output
        )
        for number in (
            work, verdict, output, to_candidate, from_tester, to_tester, from_candidate,
        ):  # fmt: skip
            os.close(number)
        ending = self._wait(job, judge, Share(program, judge), started=started)
        death = Death()
        if ending.judged and judge.stays():
            self._tester = judge
        else:  # before the program, whose end it must not take for the program's doing
            death = judge.end()
        ended = nursery.end()
        if ending.runner_gone:
            return False
        self._report(job, ending, started=started, ended=ended, death=death)
        return True

    def _put_on_one_core(self, *processes: int) -> None:
        """Pin those that run a job to the core this one runs on; a candidate inherits it.

        Candidate and tester take turns: on one core a turn is a switch, between two it is a
        wake-up, which costs several times as much.
        """
        if not self._cores:
            return
        cores = {kernel.current_core()}
        with contextlib.suppress(OSError):  # it is only faster, never needed
            for process in processes:
                os.sched_setaffinity(process, cores)

    def _report(
        self,
        job: Job,
        ending: Ending,
        *,
        started: float,
        ended: Ended,
        death: Death,
    ) -> None:
        wall_s = time.monotonic() - started
        left: str | None = None
        if not self._scratch.is_empty():
            left = self._scratch.renew()
            self._lockdown.move_scratch(self._scratch.path)
            self._close_nursery()  # its walls are around the old one
        self._tell(
            {
                "done": job.number,
                "timeout": ending.timeout,
                "over_quota": ending.over_quota,
                "lost": ending.judged and death.from_outside,
                "tester_signal": death.signal if ending.judged else 0,
                "starved": ending.starved,
                "spent": ending.spent,
                "signal": os.WTERMSIG(ended.status) if os.WIFSIGNALED(ended.status) else 0,
                "wall_ms": round(wall_s * 1000, 2),
                "cpu_ms": round(ended.cpu_s * 1000, 2),
                "rss_kb": ended.rss_kb,
                "left": left,
                "kept": 0 if self._tester is None else self._tester.pid,
                "nursery": 0 if self._nursery is None else self._nursery.pid,
            }
        )

    def _wait(self, job: Job, judge: TesterProcess, share: Share, *, started: float) -> Ending:
        """Wait for the tester, the deadline, the quota or a word from the runner.

        The deadline is moved by the time the job spent waiting for a processor, so a busy
        machine does not make a program wrong; never past the longest timeout. A job that has
        used up its time on processors is out of time however long it waited, or a program
        could escape its verdict by threads that wait for one another's processor.
        """
        poller = select.poll()
        poller.register(judge, select.POLLIN)
        poller.register(self._control.fileno(), select.POLLIN)
        deadline = started + job.bounds.timeout_s
        latest = started + max(limits.LONGEST_TIMEOUT_S, job.bounds.timeout_s)
        starved = False
        pinned = bool(self._cores)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                waited_s = share.waited()
                starved = waited_s > job.bounds.timeout_s * _STARVED_SHARE
                if share.used() >= job.bounds.timeout_s * _HAD_ITS_SHARE:
                    return Ending(timeout=True, starved=starved, spent=True)
                moved = min(started + job.bounds.timeout_s + waited_s, latest)
                if not starved or moved - deadline < 0.005:
                    return Ending(timeout=True, starved=starved)
                deadline = moved
                continue
            wait_s = left_s if self._scratch.own_file_system else min(left_s, _QUOTA_LOOK_S)
            wait_s = min(wait_s, _PINNED_S) if pinned else wait_s
            ready = [number for number, _ in poller.poll(wait_s * 1000 + 1)]
            if pinned and not ready:
                for process in share.processes:
                    with contextlib.suppress(OSError):  # it may have ended just now
                        os.sched_setaffinity(process, self._cores)
                pinned = False
            if self._control.fileno() in ready:
                line = self._next_line()
                if line is None:
                    return Ending(runner_gone=True)
                if line.get("kill") == job.number:
                    return Ending(killed=True)
            if judge.fileno() in ready and judge.is_over():
                return Ending(starved=starved)
            if self._scratch.over_quota():
                return Ending(over_quota=True)


class Share:
    """What two processes have had of the processors since a job began, and how long they waited."""

    def __init__(self, program: int, judge: TesterProcess) -> None:
        self.processes = (program, judge.pid)
        self._judge = judge
        self._used_before = used(judge.pid)
        self._waited_before = judge.waited()

    def used(self) -> float:
        """Return the seconds of processor time both used, all threads of both."""
        return sum(map(used, self.processes)) - self._used_before

    def waited(self) -> float:
        """Return the seconds that both were ready to run and did not."""
        return _waited(self.processes[0]) + self._judge.waited() - self._waited_before


def _waited(process: int) -> float:
    """Return the seconds a process was ready to run and did not.

    From the scheduler's own account; 0 where the kernel does not keep it. Of several threads
    the one that waited longest counts.
    """
    longest = 0
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/schedstat", encoding="ascii") as file:
                longest = max(longest, int(file.read().split()[1]))
    except (OSError, ValueError, IndexError):
        return 0.0
    return longest / 1e9


def _settle(settings: dict[str, Any]) -> tuple[Scratch, Lockdown, dict[str, Any]]:
    """Put up the walls the machine has, attack them, and keep what held."""
    walls = Walls(**settings["walls"])
    if walls.namespaces:
        namespaces.enter()
    if sys.platform == "linux":
        # after the namespaces: the id maps of a process that is not dumpable belong to root
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        walls = walls._replace(
            landlock=walls.landlock and landlock.abi() > 0,
            seccomp=walls.seccomp and probe.can_filter_calls(),
        )
    scratch = Scratch(settings["base"], own_file_system=walls.namespaces)
    lockdown = Lockdown(walls, packages=settings["packages"], scratch=scratch.path)
    found = probe.attack(lockdown)
    if not scratch.is_empty():
        scratch.renew()
        lockdown.move_scratch(scratch.path)
    return scratch, lockdown, found


def main() -> None:
    """Start from the settings on the command line; end when the runner goes away."""
    settings = json.loads(sys.argv[1])
    # a low number, whatever it was inherited by: the limit on open files will be 64
    control = socket.socket(fileno=os.dup(settings["control"]))
    close_others({control.fileno()})
    for name in _WARM:
        importlib.import_module(name)
    sys.path[:] = [*settings["library"], *settings["packages"]]
    sys.argv[:] = [candidate.NAME]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    try:
        zygote = Zygote(control, settings)
    except (OSError, probe.WallFell) as error:
        control.sendall(json.dumps({"failed": str(error)}).encode("ascii") + b"\n")
        os._exit(1)
    if sys.platform == "linux":
        rehearsal.rehearse_kernel_calls()
    rehearsal.rehearse()
    gc.collect()
    gc.freeze()
    with contextlib.suppress(NurseryLost):  # the runner finds this one gone too, and starts anew
        zygote.serve()
    zygote.leave()
    # the interpreter's own farewell would run exit functions of whatever was imported
    os._exit(0)
