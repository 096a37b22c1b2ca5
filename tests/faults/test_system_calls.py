"""A process is killed, or an error is returned, at every system call by which it changes a store.

Killing proves that every step is atomic; the errors prove that every one has an answer. That what
was acknowledged also survives a power cut is shown by `test_power_cuts`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from farm.core.change import Claim, Requeue
from farm.core.progress import fold, shard_states
from farm.errors import FarmError
from farm.files.incarnation import is_alive
from farm.store.directory import DirectoryStore
from farm.wiring import InitOptions, ensure_store
from tests.faults.runs import (
    Done,
    assert_one_line,
    done_set,
    farm,
    finish_by_hand,
    make_store,
    supervise,
    temporaries,
    write_cases,
)
from tests.faults.tracing import Point, inject, trace

pytestmark = [pytest.mark.needs_strace, pytest.mark.slow]

T = TypeVar("T")
# at 100 the worker claims for 10 ms of a logical clock; nobody waits for that to pass
WORKER = ("--worker-id", "w", "--now-ms", "100", "--lease-ms", "10")
DEAD = "00000000-0000-4000-8000-000000000000:1:1"  # the incarnation of a supervisor that is gone


def at_all(points: Iterable[T], check: Callable[[T], str]) -> None:
    """Check every point, two at a time; fail once, with everything that did not hold."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        wrong = [said for said in pool.map(check, points) if said]
    assert not wrong, "\n".join(wrong)


def judge(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except (AssertionError, FarmError) as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        return f"{name}: {line.filename}:{line.lineno} {line.line}: {error}"
    return ""


def assert_told(store: str) -> None:
    """Hold that a finished store tells the same story in its ledger and its events."""
    with DirectoryStore(store) as opened:
        ledger = opened.ledger()
        assert ledger.complete
        assert fold(opened.events()) == shard_states(ledger)


def acknowledged(stdout: str) -> list[str]:
    """Name the shards that a worker told to be done."""
    lines = [json.loads(line) for line in stdout.splitlines() if line.endswith("}")]
    return [line["shard"] for line in lines if "correct" in line]


def copy(base: str, folder: Path, name: str) -> str:
    """Copy a store to break it; the copy has the same base name, which traces look for."""
    os.mkdir(folder / name)
    return str(shutil.copytree(base, folder / name / "store"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a store of three shards of which one is done."""
    store = make_store(str(tmp_path_factory.mktemp("base")))
    assert farm("worker", "--store", store, *WORKER).returncode == 0
    return store


@pytest.fixture(scope="module")
def points(base: str, tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    """List the calls by which a worker claims a shard, puts its receipt down and publishes it."""
    folder = tmp_path_factory.mktemp("trace")
    store = copy(base, folder, "traced")
    found = trace("worker", "--store", store, *WORKER, store=store, log=str(folder / "log"))
    calls = {point.call for point in found}
    assert {"openat", "write", "fsync", "renameat", "linkat", "unlinkat", "flock"} <= calls
    # two commits of ledger and folder, one receipt and its folder
    assert sum(point.call == "fsync" for point in found) == 6
    return found


def test_a_worker_killed_before_any_call_loses_nothing(
    base: str, points: list[Point], tmp_path: Path
) -> None:
    """The done set never shrinks, no file is torn, whoever comes next completes the run."""
    before = done_set(base)
    assert len(before) == 1

    def check(point: Point) -> str:
        store = copy(base, tmp_path, point.name)
        killing = inject(point.call, point.number, "signal=KILL")
        killed = farm("worker", "--store", store, *WORKER, before=killing)

        def holds() -> None:
            assert killed.returncode == -9
            assert len(killed.stdout.splitlines()) <= point.said + 1
            after = done_set(store)
            assert before.items() <= after.items()
            assert {*acknowledged(killed.stdout)} <= after.keys()
            finish_by_hand(store)
            assert after.items() <= done_set(store).items()
            assert_told(store)

        return judge(f"{point.name} {point.what[:100]}", holds)

    at_all(points, check)


ERRNOS = {
    "openat": ("EACCES", "EROFS", "ENOSPC"),
    "write": ("ENOSPC", "EIO", "EDQUOT"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT"),
    "renameat": ("EIO", "ENOSPC", "EACCES", "EROFS"),
    "linkat": ("EIO", "ENOSPC", "EROFS"),
    "unlinkat": ("EIO", "EROFS"),
    "close": ("EIO", "EDQUOT"),
    "flock": ("ENOLCK", "EOPNOTSUPP"),
}


def test_every_error_of_a_worker_is_told_in_one_line_and_costs_nothing(
    base: str, points: list[Point], tmp_path: Path
) -> None:
    """Exit 3, one line, nothing acknowledged that was not durable, and the run can go on.

    What a worker has said before the call is all it says: the outcome of a folder's sync that
    failed after the rename is unknown, and is not acknowledged.
    """
    before = done_set(base)
    cases = [
        (point, errno)
        for point in points
        for errno in ERRNOS.get(point.call, ())
        if "write(1<" not in f"{point.call}({point.what}"
    ]

    def check(case: tuple[Point, str]) -> str:
        point, errno = case
        store = copy(base, tmp_path, f"{point.name}-{errno}")
        failing = inject(point.call, point.number, f"error={errno}")
        failed = farm("worker", "--store", store, *WORKER, before=failing)

        def holds() -> None:
            # names are removed for tidiness, and locks are given back, by calls whose failure
            # changes nothing; so is a descriptor that only read or that the end closes
            if failed.returncode == 0:
                harmless = point.call in {"unlinkat", "flock", "close"}
                assert harmless, f"passed over: {failed.stdout}"
            else:
                assert failed.returncode == 3 or point.call in {"close", "flock"}
                assert_one_line(failed.stderr)
                assert len(failed.stdout.splitlines()) == point.said
            after = done_set(store)
            assert before.items() <= after.items()
            assert {*acknowledged(failed.stdout)} <= after.keys()
            assert point.call == "unlinkat" or not temporaries(store)
            finish_by_hand(store)
            assert_told(store)

        return judge(f"{point.name} {errno} {point.what[:100]}", holds)

    at_all(cases, check)


INIT_ERRORS = {"fsync": ("error=EIO",), "renameat": ("error=EROFS",)}


def test_an_init_killed_or_failed_at_any_call_leaves_a_whole_store_or_none(
    tmp_path: Path,
) -> None:
    """The same init then makes it; a failed one, before the plan has its name, leaves nothing."""
    given = write_cases(str(tmp_path / "in.jsonl"), 9)
    command = ("--input", given, "--shards", "3", "--quiet")
    traced = str(tmp_path / "traced" / "store")
    os.mkdir(os.path.dirname(traced))
    found = trace("init", "--store", traced, *command, store=traced, log=str(tmp_path / "log"))
    named = max(place for place, point in enumerate(found) if '"plan.json")' in point.what)
    # a second thread writes the cases: equal calls are struck in whichever thread comes first
    last = {point.name: (place, point) for place, point in enumerate(found)}
    strikes = [
        (place, point, action)
        for place, point in last.values()
        for action in ("signal=KILL", *INIT_ERRORS.get(point.call, ()))
        if point.call != "close"  # changes nothing that the next call would not show
        and "write(1<" not in f"{point.call}({point.what}"
    ]

    def check(strike: tuple[int, Point, str]) -> str:
        place, point, action = strike
        folder = tmp_path / f"{point.name}-{action}"
        folder.mkdir()
        store = str(folder / "store")
        struck = inject(point.call, point.number, action)
        ended = farm("init", "--store", store, *command, before=struck)

        def holds() -> None:
            if action != "signal=KILL":
                assert ended.returncode == 3, ended.stderr
                assert_one_line(ended.stderr)
                assert ended.stdout == ""
                assert place > named or not os.path.exists(store)
            again = InitOptions(input=given, shards=3)
            ensure_store(store, again, on_events=lambda events: None)
            finish_by_hand(store)
            assert_told(store)
            with DirectoryStore(store) as opened:
                opened.sweep(alive=is_alive)
            assert temporaries(store) == []

        return judge(f"{point.name} {action} {point.what[:100]}", holds)

    at_all(strikes, check)


@pytest.fixture
def interrupted(base: str, tmp_path: Path) -> str:
    """Give a store as a supervisor that was killed leaves it: a lease and half a snapshot."""
    store = copy(base, tmp_path, "interrupted")
    with DirectoryStore(store) as opened:
        opened.commit([Claim(worker="gone", ttl=10**9, incarnation=DEAD)])
    Path(f"{store}/.ledger.json.4194305.0a1b2c3d.1.tmp").write_bytes(b"half")
    return store


RESUME = ("--workers", "1", "--log-format", "json", "--deadline-s", "0")


def resume_points(interrupted: str, folder: Path) -> list[tuple[str, int]]:
    """Give calls of a resumed run and its worker to strike: all that make things durable."""
    store = copy(interrupted, folder, "traced")
    found = trace("run", "--store", store, *RESUME, store=store, log=str(folder / "log"))
    most: dict[str, int] = {}
    for point in found:
        most[point.call] = max(most.get(point.call, 0), point.number)
    struck = {"fsync": 1, "renameat": 2, "linkat": 1, "unlinkat": 2, "write": 20}
    return [
        (call, number)
        for call, step in struck.items()
        for number in range(1, most.get(call, 0) + 1, step)
    ]


def requeue_all(store: str) -> None:
    with DirectoryStore(store) as opened:
        aside = [lease.shard for lease in opened.ledger().leases if lease.quarantined]
        opened.commit([Requeue(shard=shard) for shard in aside])


def completed(stderr: str) -> list[str]:
    """Name the shards of which a run's log told that they are done."""
    lines = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    return [line["shard"] for line in lines if line["event"] == "shard.completed"]


def strike(
    interrupted: str, folder: Path, *, call: str, number: int, action: str
) -> tuple[str, Done, subprocess.CompletedProcess[str]]:
    """Resume a copy of the run with a fault; give the copy, what was done before, the result."""
    store = copy(interrupted, folder, f"{call}-{number}")
    before = done_set(store)
    return (
        store,
        before,
        farm("run", "--store", store, *RESUME, before=inject(call, number, action)),
    )


def test_a_resume_killed_at_any_durable_step_loses_nothing(
    interrupted: str, tmp_path: Path
) -> None:
    """Supervisor or worker, whichever makes the call, dies; the same command then completes."""

    def check(case: tuple[str, int]) -> str:
        call, number = case
        store, before, killed = strike(
            interrupted, tmp_path, call=call, number=number, action="signal=KILL"
        )

        def holds() -> None:
            after = done_set(store)
            assert before.items() <= after.items()
            assert {*completed(killed.stderr)} <= after.keys()
            if killed.returncode == 4:  # every worker died at that call, so shards were set aside
                requeue_all(store)
            again = farm("run", "--store", store, *RESUME, "--quiet")
            assert again.returncode == 0, again.stderr
            assert after.items() <= done_set(store).items()
            assert temporaries(store) == [] or killed.returncode == 0
            assert_told(store)

        return judge(f"{call}-{number}", holds)

    at_all(resume_points(interrupted, tmp_path), check)


def test_a_resume_whose_disk_fails_ends_with_exit_3_and_goes_on_later(
    interrupted: str, tmp_path: Path
) -> None:
    """One failed call, of the supervisor or of its worker, stops the run; nothing is lost."""
    steps = [
        (call, number, "EIO" if call == "fsync" else "ENOSPC")
        for call, number in resume_points(interrupted, tmp_path)
        if call in {"fsync", "renameat", "linkat"}
    ][::2]

    def check(case: tuple[str, int, str]) -> str:
        call, number, errno = case
        store, before, failed = strike(
            interrupted, tmp_path, call=call, number=number, action=f"error={errno}"
        )

        def holds() -> None:
            assert failed.returncode == 3, failed.stderr
            assert_one_line(failed.stderr)
            after = done_set(store)
            assert before.items() <= after.items()
            assert {*completed(failed.stderr)} <= after.keys()
            supervise(store, workers=1)
            assert temporaries(store) == []
            assert_told(store)

        return judge(f"{call}-{number} {errno}", holds)

    # one at a time: a supervisor in this process needs its main thread
    wrong = [said for said in map(check, steps) if said]
    assert not wrong, "\n".join(wrong)


def test_a_finished_run_is_made_durable_before_it_is_reported(base: str, tmp_path: Path) -> None:
    """Whoever finished it may have been killed before the folder was synced; nothing is written."""
    store = copy(base, tmp_path, "finished")
    finish_by_hand(store)
    command = ("run", "--store", store, "--quiet")
    found = trace(*command, store=store, log=str(tmp_path / "log"))
    called = [f"{point.call}({point.what}" for point in found]
    synced = next(place for place, call in enumerate(called) if call.startswith("fsync("))
    reported = next(place for place, call in enumerate(called) if call.startswith("write(1<"))
    assert f"{store}>" in called[synced]
    assert synced < reported
    assert not [point for point in found if point.call in {"renameat", "linkat", "ftruncate"}]
