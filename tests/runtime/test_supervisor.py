"""The supervisor with real worker processes: reuse, renewal, deadline, drain, takeover."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm.core.event import Event
from farm.errors import FarmError
from farm.files.lock import FileLock
from farm.runtime.by_hand import HandSettings, work_once
from farm.runtime.process import WorkerStartFailed
from farm.runtime.settings import RunSettings
from farm.store.directory import DirectoryStore
from farm.wiring import run, run_settings
from tests.acceptance.shell import farm
from tests.runtime.runs import leases_of, make_store, names, supervise

SIGNAL_PARENT = "os.kill(os.getppid(), signal.{})"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no such library')"), "no such library"),
        (("/nowhere/python",), "no such file"),
    ],
    ids=["dies", "cannot be started"],
)
def test_workers_that_do_not_start_stop_the_run_and_charge_nobody(
    tmp_path: Path, command: tuple[str, ...], reason: str
) -> None:
    """The fault is not in the data: a few tries, a clear end, every lease given back."""
    store = make_store(tmp_path, shards=3)
    with pytest.raises(WorkerStartFailed, match=reason):
        supervise(store, command=command)
    assert {(lease.worker, lease.attempts) for lease in leases_of(store)} == {("", 0)}
    ending, events = supervise(store)
    assert names(events)[-1] == "run.completed"
    assert len(ending.published) == 3


@pytest.mark.parametrize(
    ("workers", "given", "share", "processes"),
    [(1, 1, 1, 16), (1, 4, 4, 4), (1, 16, 16, 1), (2, 0, 4, 4)],
)
def test_a_process_takes_its_share_of_shards_and_then_a_fresh_one(
    tmp_path: Path, workers: int, given: int, share: int, processes: int
) -> None:
    """`--shards-per-process`, or max(1, active_shards // (2 * workers)): 16 // 4 is 4."""
    store = make_store(tmp_path, shards=16)
    supervise(store, workers=workers, shards_per_process=given)
    pids = [lease.receipt.worker_pid for lease in leases_of(store) if lease.receipt]
    assert len(pids) == 16
    assert max(map(pids.count, pids)) <= share
    assert len(set(pids)) >= processes
    if workers == 1:  # with several the last ones may come too late for a full share
        assert len(set(pids)) == processes


def test_renewal_keeps_a_long_shard_alive(tmp_path: Path) -> None:
    """A lease of 300 ms, a shard of two seconds: version 1 publishes, nobody is fenced."""
    store = make_store(tmp_path, shards=1)
    began = time.time() * 1000
    _, events = supervise(store, ttl_ms=300, delay_ms=2000)
    (lease,) = leases_of(store)
    assert lease.done
    assert lease.version == 1
    assert lease.until >= began + 2000
    assert "shard.fenced" not in names(events)


SLOW_PLUGIN = """
    import time
    from farm.scoring.registry import Scorer
    self._scorer = Scorer(name="x", version="1", function=lambda *_: time.sleep(0.25) or 1.0)
"""


@pytest.mark.parametrize(("hook", "delay_ms"), [(SLOW_PLUGIN, 0), ("", 1200)])
def test_slow_is_not_stalled(tmp_path: Path, hook: str, delay_ms: int) -> None:
    """`--stall-s` is for progress: each case of a slow scorer is some, and a pause that was asked
    for is no silence. Both shards take more than twice the limit."""
    store = make_store(tmp_path, shards=1, cases=5)
    supervise(store, hook=hook, delay_ms=delay_ms, stall_s=0.5)
    (lease,) = leases_of(store)
    assert (lease.done, lease.version, lease.attempts) == (True, 1, 0)


@pytest.mark.parametrize("ttl_ms", [1, 20])
def test_a_lease_shorter_than_the_start_of_a_worker_still_ends(tmp_path: Path, ttl_ms: int) -> None:
    """Leases that run out unrenewed make the next ones longer, and no shard is charged."""
    store = make_store(tmp_path, shards=4)
    supervise(store, ttl_ms=ttl_ms, deadline_s=60)
    leases = leases_of(store)
    assert all(lease.done for lease in leases)
    assert {lease.attempts for lease in leases} == {0}


def test_a_deadline_ends_workers_and_gives_their_leases_back(tmp_path: Path) -> None:
    store = make_store(tmp_path, shards=4)
    began = time.monotonic()
    ending, events = supervise(store, delay_ms=60_000, deadline_s=0.5)
    assert time.monotonic() - began < 20
    assert ending.deadline
    assert names(events)[-1] == "run.pending"
    assert names(events).count("worker.exited") == names(events).count("worker.spawned") > 0
    assert {(lease.worker, lease.attempts) for lease in leases_of(store)} == {("", 0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_lets_workers_finish_their_shard_and_frees_the_rest(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The shard that executes is published; the next run starts at once with the others."""
    store = make_store(tmp_path, shards=4)
    hook = SIGNAL_PARENT.format(number.name)
    ending, events = supervise(store, workers=1, hook=hook, delay_ms=300, grace_s=30)
    assert ending.signal == number
    assert [lease.shard for lease in ending.published] == ["shard-0"]
    assert names(events)[-1] == "run.interrupted"
    assert [lease.worker for lease in leases_of(store)[1:]] == ["", "", ""]
    ending, events = supervise(store)
    assert len(ending.published) == 3
    assert "shard.reclaimed" not in names(events)


def test_a_second_signal_does_not_wait_for_workers(tmp_path: Path) -> None:
    """A worker that would need a minute, a grace of ten: the second signal ends both."""
    store = make_store(tmp_path, shards=2)
    hook = (
        f"{SIGNAL_PARENT.format('SIGINT')}; {SIGNAL_PARENT.format('SIGTERM')}; "
        "__import__('time').sleep(60)"
    )
    began = time.monotonic()
    ending, _ = supervise(store, workers=1, hook=hook, grace_s=600)
    assert time.monotonic() - began < 20
    assert ending.signal in {signal.SIGINT, signal.SIGTERM}
    assert ending.published == []
    assert {(lease.worker, lease.attempts) for lease in leases_of(store)} == {("", 0)}


def test_wait_takes_a_shard_over_when_its_lease_expires(tmp_path: Path) -> None:
    """Another owner's lease is waited for with `wait`; without it the run is pending at once."""
    store = make_store(tmp_path, shards=2)

    class Left(Exception):
        pass

    def leave(lease: object) -> None:
        raise Left

    settings = HandSettings(worker_id="away", worker_pid=1, ttl_ms=2_500)
    with DirectoryStore(store) as opened, pytest.raises(Left):
        work_once(opened, settings, on_claim=leave)
    away = leases_of(store)[0]
    ending, events = supervise(store)
    assert names(events)[-1] == "run.pending"
    assert [lease.shard for lease in ending.published] == ["shard-1"]
    ending, events = supervise(store, wait=True, deadline_s=60)
    assert [(lease.shard, lease.version) for lease in ending.published] == [("shard-0", 2)]
    claim = next(event for event in events if event.event == "shard.claimed")
    assert int(str(claim.fields["until"])) >= away.until + 30_000  # claimed at expiry, for 30 s


def test_a_poison_shard_ends_the_run_partial_until_it_is_requeued(tmp_path: Path) -> None:
    """Exit code 4 and the names; after `farm requeue` the same run goes on to the end."""
    store = make_store(tmp_path, shards=4)
    hook = "os.kill(os.getpid(), signal.SIGKILL) if assignment.shard == 'shard-2' else None"
    _, events = supervise(store, hook=hook, max_attempts=2)
    assert names(events).count("shard.failed") == 2
    assert names(events).count("shard.quarantined") == 1
    partial = farm("run", "--store", store)
    assert partial.code == 4
    report = partial.json
    assert (report["completed_shards"], report["quarantined_shards"]) == (3, 1)
    assert report["accuracy"]["lowest"] < report["accuracy"]["value"]
    assert "shard-2 failed too often" in partial.failures[0]
    assert "farm requeue" in partial.failures[0]
    requeued = farm("requeue", "--store", store, "--shard", "shard-2")
    assert (requeued.code, requeued.json["quarantined_shards"]) == (0, 0)
    assert farm("run", "--store", store).code == 0
    assert farm("verify", "--store", store).json["problems"] == []


def test_a_failing_store_ends_every_worker_and_the_run(tmp_path: Path) -> None:
    """A worker that meets damaged cases stops the run with its reason; nobody is charged."""
    store = make_store(tmp_path, shards=4)
    cases = Path(store) / "cases.jsonl"
    cases.write_bytes(cases.read_bytes().replace(b'"yes"', b'"YES"', 1))
    with pytest.raises(FarmError, match=r"cases\.jsonl: the cases of shard-\d do not match"):
        supervise(store)
    left = [lease for lease in leases_of(store) if not lease.done]
    assert {(lease.worker, lease.attempts) for lease in left} == {("", 0)}


def test_a_store_that_is_locked_when_all_is_done_does_not_make_the_run_a_failure(
    tmp_path: Path,
) -> None:
    """Every receipt is committed by then; only the event of the end finds no way into its file."""
    store = make_store(tmp_path, shards=1)
    holder, told = FileLock(f"{store}/lock"), list[Event]()

    def lock_behind_the_last_worker(events: Sequence[Event]) -> None:
        told.extend(events)
        if names(events) == ["worker.exited"]:
            holder.acquire(timeout_s=5)

    settings = run_settings(store, RunSettings(workers=1))
    with DirectoryStore(store, lock_timeout_s=0.2) as opened:
        run(opened, settings, on_events=lock_behind_the_last_worker)
        assert opened.ledger().complete
        assert "run.completed" not in names(list(opened.events()))
    holder.close()
    assert names(told)[-1] == "run.completed"
