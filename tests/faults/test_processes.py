"""Real processes that are paused, killed, doubled, or live in a time that jumps."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.files.incarnation import is_alive
from farm.runtime.settings import RunSettings
from farm.runtime.standing import report_of
from farm.store.directory import DirectoryStore, wall_clock
from farm.wiring import run, run_settings
from tests.faults.runs import FARM, assert_complete, done_set, farm, follow, make_store, started

HOUR_MS = 3_600_000


def hand_worker(store: str, name: str, *options: str) -> subprocess.Popen[str]:
    command = [*FARM, "worker", "--store", store, "--worker-id", name, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def digests(store: str) -> dict[str, str]:
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(store).rglob("*")
        if path.is_file()
    }


def test_workers_that_race_for_shards_get_each_one_once(tmp_path: Path) -> None:
    store = make_store(str(tmp_path), shards=3)
    racing = [hand_worker(store, f"w{index}") for index in range(6)]
    said = [json.loads(line) for worker in racing for line in worker.communicate()[0].splitlines()]
    assert {worker.returncode for worker in racing} == {0}
    done = [line["shard"] for line in said if "correct" in line]
    assert sorted(done) == ["shard-0", "shard-1", "shard-2"]
    assert [line for line in said if not line["claimed"]] == [{"claimed": False}] * 3
    assert_complete(store)


def test_a_paused_worker_that_wakes_after_the_takeover_is_fenced(tmp_path: Path) -> None:
    """Its exit code is 1, it says why, and it changes nothing, not even by an orphan."""
    store = make_store(str(tmp_path), cases=4, shards=1)
    clock = ("--lease-ms", "10", "--now-ms")
    zombie = hand_worker(store, "zombie", *clock, "100", "--delay-ms", "1000")
    assert zombie.stdout is not None
    assert json.loads(zombie.stdout.readline())["version"] == 1
    zombie.send_signal(signal.SIGSTOP)
    assert farm("worker", "--store", store, "--worker-id", "heir", *clock, "110").returncode == 0
    before = digests(store)
    zombie.send_signal(signal.SIGCONT)
    _, said = zombie.communicate(timeout=30)
    assert zombie.returncode == 1
    assert said.startswith("farm: completion fenced for shard-0 v1: version 1 is behind 2")
    assert digests(store) == before
    assert done_set(store)["shard-0"][0] == 2


def test_a_paused_supervisor_that_wakes_after_the_takeover_is_fenced(tmp_path: Path) -> None:
    """Others finish everything meanwhile; it notices, and ends well with their results."""
    store = make_store(str(tmp_path), shards=3)
    with started("run", "--store", store, "--delay-ms", "1500") as paused:
        spawned = 0
        for event in follow(paused):
            spawned += event["event"] == "worker.spawned"
            if spawned == 2:
                break
        paused.send_signal(signal.SIGSTOP)
        later = str(int(wall_clock()) + HOUR_MS)
        while True:
            heir = farm("worker", "--store", store, "--worker-id", "heir", "--now-ms", later)
            assert heir.returncode == 0, heir.stderr
            if json.loads(heir.stdout.splitlines()[0]) == {"claimed": False}:
                break
        accepted = done_set(store)
        assert len(accepted) == 3
        paused.send_signal(signal.SIGCONT)
        paused.communicate(timeout=30)
    assert paused.returncode == 0
    assert done_set(store) == accepted
    assert_complete(store)


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "starting"])
def test_nothing_is_left_two_seconds_after_a_supervisor_is_killed(
    busy: bool, tmp_path: Path
) -> None:
    """Workers in their first moments, or busy and one of them stopped; then a run goes on at once.

    A worker that is stopped before its interpreter runs ends when it is continued.
    """
    store = make_store(str(tmp_path), cases=60, shards=12)
    options = ("--workers", "3", "--shards-per-process", "12", "--delay-ms", "800")
    pids: list[int] = []
    completed: set[int] = set()
    with started("run", "--store", store, *options) as killed:
        for event in follow(killed):
            if event["event"] == "worker.spawned":
                pids.append(int(str(event["worker_pid"])))
            if event["event"] == "shard.completed":
                completed.add(int(str(event["worker_pid"])))
            if len(completed if busy else pids) == 3:
                break
        if busy:
            os.kill(pids[0], signal.SIGSTOP)
        killed.kill()
        killed.wait()
        end = time.monotonic() + 2
        while any(is_running(pid) for pid in pids):
            assert time.monotonic() < end, "a worker outlived its supervisor"
            time.sleep(0.01)  # not our children: nothing tells of their end
    began = time.monotonic()
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert time.monotonic() - began < 15  # the leases would hold for 30 s
    assert_complete(store)


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is no zombie that init has yet to reap."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return not sys.platform.startswith("linux") and is_alive(pid)
    return state != b"Z"


def test_a_second_supervisor_says_who_holds_the_store(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    with started("run", "--store", store, "--delay-ms", "60000") as first:
        for event in follow(first):
            if event["event"] == "worker.spawned":
                break
        second = farm("run", "--store", store, "--quiet")
        assert second.returncode == 1
        assert f"is being run by process {first.pid} since" in second.stderr
        first.kill()


OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def test_leases_of_an_earlier_boot_are_dead_at_once(tmp_path: Path) -> None:
    """The machine was restarted in the middle: nobody waits for leases of 30 minutes."""
    store = make_store(str(tmp_path), shards=3)
    with started("run", "--store", store, "--lease-ms", "1800000", "--delay-ms", "60000") as first:
        for event in follow(first):
            if event["event"] == "worker.spawned":
                break
        first.kill()
    with DirectoryStore(store) as opened:
        ledger = opened.ledger()
        boots = [
            msgspec.structs.replace(lease, incarnation=OTHER_BOOT + lease.incarnation[36:])
            if lease.incarnation
            else lease
            for lease in ledger.leases
        ]
        assert boots != list(ledger.leases)
        opened._write(msgspec.structs.replace(ledger, leases=tuple(boots)))
    began = time.monotonic()
    done = farm("run", "--store", store)
    assert done.returncode == 0
    assert time.monotonic() - began < 15
    assert '"event":"shard.reclaimed"' in done.stderr
    assert_complete(store)


def test_a_run_that_waits_takes_over_at_expiry(tmp_path: Path) -> None:
    """Without --wait it reports pending; with it no second command is needed."""
    store = make_store(str(tmp_path), shards=3)
    claim = ("--worker-id", "gone", "--lease-ms", "4000", "--crash-after-claim")
    assert farm("worker", "--store", store, *claim).returncode == 86
    pending = farm("run", "--store", store, "--quiet")
    assert pending.returncode == 1
    assert "pending: 1 shard leased by other owners" in pending.stderr
    assert farm("run", "--store", store, "--quiet", "--wait").returncode == 0
    assert done_set(store)["shard-0"][0] == 2


@pytest.mark.parametrize("jumps_ms", [(HOUR_MS,), (-HOUR_MS,), (HOUR_MS, -2 * HOUR_MS, HOUR_MS)])
def test_a_clock_that_jumps_costs_work_and_nothing_else(
    jumps_ms: tuple[int, ...], tmp_path: Path
) -> None:
    """Leases seem expired, or seem to last; the versions keep the run right all the same."""
    store = make_store(str(tmp_path), cases=40, shards=8)
    ahead = jumping(jumps_ms)
    settings = run_settings(store, RunSettings(ttl_ms=2000, delay_ms=50))
    with DirectoryStore(store, clock=lambda: wall_clock() + next(ahead)) as opened:
        run(opened, settings, on_events=lambda events: None)
        assert {lease.attempts for lease in opened.ledger().leases} == {0}
    assert_complete(store)


def jumping(jumps_ms: tuple[int, ...]) -> Iterator[int]:
    """Give how far the clock is ahead: it jumps after every tenth look at it."""
    ahead = 0
    for jump_ms in (*jumps_ms, 0):
        for _ in range(10):
            yield ahead
        ahead += jump_ms
    while True:
        yield ahead


def test_status_never_fails_to_parse_while_commits_go_on(tmp_path: Path) -> None:
    """A snapshot is seen whole, with every receipt it counts, and never an older one again."""
    store = make_store(str(tmp_path), cases=200, shards=48)
    looks = 0
    revision = done = 0
    with started("run", "--store", store, "--delay-ms", "20") as running:
        while running.poll() is None:
            with DirectoryStore(store) as opened:
                ledger = opened.ledger()
                report = report_of(opened, detail=True)
            assert ledger.revision >= revision
            assert report.completed_shards >= done
            revision, done = ledger.revision, report.completed_shards
            looks += 1
            if looks % 10 == 0:
                shown = farm("status", "--store", store)
                assert shown.returncode == 0
                assert json.loads(shown.stdout)["dataset_cases"] == 200
        running.communicate()
    assert running.returncode == 0
    assert looks > 10
    assert_complete(store)
