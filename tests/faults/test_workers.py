"""Whatever a worker does, the run ends well, and at most the shard at fault is charged."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from farm.cli.overview import COMMANDS
from farm.core.change import Claim, Fail
from farm.core.event import Event
from farm.errors import FarmError
from farm.runtime.evaluate import exit_code_of
from farm.store.directory import DirectoryStore
from tests.examples import states
from tests.faults.runs import assert_complete, farm, make_store, supervise

WORKER = os.path.join(os.path.dirname(__file__), "hostile_worker.py")


def named(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event.event == name]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "it said nothing for 1 s"),
        ("ignore_term", "it said nothing for 1 s"),
        ("stop", "it said nothing for 1 s"),
        ("print_garbage", "is not a message"),
        ("print_long_line", "a line of over 1048576 bytes"),
        ("leave_child", "exit code 3"),
        ("die", "killed by SIGSEGV"),
        ("end_early", "it ended without the receipts"),
        ("claim_another", "'shard-999' v1 is out of turn"),
        ("publish_another", "'shard-1' v77 is out of turn"),
        ("fail", "ZeroDivisionError: a scorer's own mistake"),
    ],
)
def test_a_worker_that_goes_astray_costs_its_shard_one_attempt(
    fault: str, said: str, tmp_path: Path
) -> None:
    """Each ends with `worker.failed`, one attempt charged to the executing shard and no other.

    The limit of 15 s is far below the 600 s for which the worker, or its child, would stay.
    """
    store = make_store(str(tmp_path), shards=3)
    once = tmp_path / "once"
    command = [sys.executable, "-I", WORKER, fault, "shard-1", str(once)]
    began = time.monotonic()
    try:
        _, events = supervise(store, command=command, stall_s=1.0, workers=1, shards_per_process=3)
    finally:
        if once.exists() and once.read_text():
            os.kill(int(once.read_text()), signal.SIGKILL)  # it left the worker's session
    assert time.monotonic() - began < 15
    assert_complete(store)
    (failed,) = named(events, "worker.failed")
    assert said in str(failed.fields["reason"])
    with DirectoryStore(store) as opened:
        attempts = {lease.shard: lease.attempts for lease in opened.ledger().leases}
    assert attempts == {"shard-0": 0, "shard-1": 1, "shard-2": 0}


def test_a_poison_shard_is_set_aside_and_the_rest_is_done(tmp_path: Path) -> None:
    """Quarantine after --max-attempts, exit 4, a partial report that says what is missing."""
    store = make_store(str(tmp_path), shards=3)
    command = [sys.executable, "-I", WORKER, "die", "shard-1", "-"]
    ending, events = supervise(store, command=command, max_attempts=2)
    with DirectoryStore(store) as opened:
        ledger = opened.ledger()
    assert states(ledger) == {"done": 2, "quarantined": 1}
    assert exit_code_of(ledger, ending) == 4
    (told,) = named(events, "shard.quarantined")
    assert (told.shard, told.fields["attempts"]) == ("shard-1", 2)
    assert named(events, "run.partial")[0].fields["quarantined"] == 1

    again = farm("run", "--store", store, "--quiet")
    assert again.returncode == 4
    assert "shard-1 failed too often" in again.stderr
    assert '"complete":false' in again.stdout
    assert '"quarantined_shards":1' in again.stdout


def test_a_poison_shard_can_be_tried_again(tmp_path: Path) -> None:
    """`farm requeue` opens it with a clean count; the next run completes."""
    store = make_store(str(tmp_path), shards=3)
    command = [sys.executable, "-I", WORKER, "die", "shard-1", "-"]
    supervise(store, command=command, max_attempts=1)
    assert "requeue" in COMMANDS
    assert farm("requeue", "--store", store, "--shard", "shard-1").returncode == 0
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


def test_workers_that_cannot_be_started_are_tried_with_growing_pauses(tmp_path: Path) -> None:
    """Spawn failures back off, then stop the run; no shard is charged, no lease is left."""
    store = make_store(str(tmp_path), shards=3)
    with pytest.raises(FarmError, match="cannot start"):
        supervise(store, command=[str(tmp_path / "absent")], workers=1)
    with DirectoryStore(store) as opened:
        pauses = [
            event.fields["retry_s"] for event in opened.events()
            if event.event == "worker.spawn_failed"
        ]  # fmt: skip
        assert states(opened.ledger()) == {"open": 3}
        assert {lease.attempts for lease in opened.ledger().leases} == {0}
    assert pauses == [0.1, 0.5, 2.0]


def test_three_quarantined_shards_are_named_and_the_others_counted(tmp_path: Path) -> None:
    """A run may set hundreds aside; the message stays one that is read."""
    lines: list[str] = []
    for shards in (1, 5):
        folder = tmp_path / str(shards)
        folder.mkdir()
        store = make_store(str(folder), shards=shards)
        with DirectoryStore(store) as opened:
            opened.commit([Claim(worker="w", ttl=9, limit=shards, now=1)])
            opened.commit(
                [
                    Fail(shard=f"shard-{n}", worker="w", version=1, max_attempts=1, reason="died")
                    for n in range(shards)
                ]
            )
        ended = farm("run", "--store", store, "--quiet")
        assert ended.returncode == 4
        lines.append(ended.stderr)
    assert "shard-0 failed too often and is quarantined (shard-0: died); " in lines[0]
    assert "then `farm requeue` it and continue with: farm run" in lines[0]
    assert (
        "shard-0, shard-1, shard-2 and 2 more failed too often and are quarantined "
        "(shard-0: died; shard-1: died; shard-2: died); "
    ) in lines[1]
