"""What killed processes leave behind is swept under the lock, and never stands in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.core.event import note
from farm.errors import Corrupt
from farm.files.atomic import Folder
from farm.files.lock import FileLock
from farm.store.caseorder import dataset_digests
from farm.store.directory import DirectoryStore
from tests.faults.runs import assert_complete, farm, finish_by_hand, make_store, temporaries

DEAD_PID = 2**22 + 1  # past the largest pid that Linux gives out


def test_a_run_sweeps_what_a_killed_commit_left(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    left = [
        f"{store}/.ledger.json.{DEAD_PID}.0a1b2c3d.1.tmp",
        f"{store}/receipts/.shard-0.v1.json.{DEAD_PID}.0a1b2c3d.1.tmp",
    ]
    for path in left:
        Path(path).write_bytes(b"half")
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert temporaries(store) == []
    assert_complete(store)


def test_the_snapshot_of_a_killed_process_with_our_own_pid_is_swept(tmp_path: Path) -> None:
    """In a container every run has the same small pid: it is no sign that the writer lives."""
    store = make_store(str(tmp_path))
    Path(f"{store}/.ledger.json.{os.getpid()}.0a1b2c3d.1.tmp").write_bytes(b"half")
    with DirectoryStore(store) as opened:
        opened.sweep(alive=lambda pid: True)
    assert temporaries(store) == []


def test_no_leftover_takes_the_name_of_a_temporary_file(tmp_path: Path) -> None:
    """Two processes of one pid, as containers have, must not choose one name: O_EXCL refuses it."""
    names = []
    script = (
        "import os, sys; from farm.files import atomic; os.getpid = lambda: 7;"
        "folder = atomic.Folder(sys.argv[1]); print(folder._write_temporary('ledger.json', b''))"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-I", "-c", script, str(tmp_path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        names.append(done.stdout.strip())
    assert names[0].startswith(".ledger.json.7.")
    assert len({*names}) == 2
    folder = Folder(str(tmp_path))
    folder.sweep()
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_receipt_that_a_living_worker_writes_is_not_swept(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    theirs = f"{store}/receipts/.shard-0.v1.json.{os.getpid()}.0a1b2c3d.1.tmp"
    Path(theirs).write_bytes(b"half")
    with DirectoryStore(store) as opened:
        opened.sweep(alive=lambda pid: pid == os.getpid())
    assert temporaries(store) == [theirs]


def test_a_run_sweeps_the_staging_of_a_killed_init(tmp_path: Path) -> None:
    """Also that of one killed after its last rename, when the store was there already."""
    store = make_store(str(tmp_path))
    for name, owned in (("0a1b2c3d", True), ("00000000", False)):
        os.mkdir(f"{store}/.init-{DEAD_PID}-{name}")
        if owned:
            Path(f"{store}/.init-{DEAD_PID}-{name}/owner").touch()
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert temporaries(store) == []


def test_the_staging_of_a_living_init_is_left_alone(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    staging = f"{store}/.init-{os.getpid()}-0a1b2c3d"
    os.mkdir(staging)
    owner = FileLock(f"{staging}/owner")
    owner.acquire(timeout_s=1)
    with DirectoryStore(store) as opened:
        opened.sweep(alive=lambda pid: False)
    assert temporaries(store) == [staging]
    owner.close()


def test_events_go_on_behind_a_line_that_was_cut_short(tmp_path: Path) -> None:
    """A writer killed or out of space within a line must not spoil the next one's line."""
    store = make_store(str(tmp_path))
    assert farm("worker", "--store", store, "--worker-id", "w1").returncode == 0
    with DirectoryStore(store) as ours:
        ours.tell(
            [note("run.draining", reason="test")]
        )  # our handle has the file open and knows its size
        with open(f"{store}/events.jsonl", "ab") as theirs:
            theirs.write(b'{"ts":"2026-01-01T00:00:00.000000Z","level":"in')
        assert farm("worker", "--store", store, "--worker-id", "w2").returncode == 0
        with open(f"{store}/events.jsonl", "ab") as theirs:
            theirs.write(b'{"ts":"20')
        ours.tell([note("run.draining", reason="test")])
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


def test_events_of_a_worker_killed_between_commit_and_event_are_told_by_the_next(
    tmp_path: Path,
) -> None:
    """A supervisor that has its event file open sees that somebody else committed."""
    store = make_store(str(tmp_path))
    with DirectoryStore(store) as ours:
        ours.tell([note("run.draining", reason="test")])
        assert farm("worker", "--store", store, "--worker-id", "w1").returncode == 0
        path = Path(f"{store}/events.jsonl")
        *lines, last = path.read_bytes().splitlines(keepends=True)
        assert b"shard.completed" in last
        path.write_bytes(b"".join(lines))
        ours.tell([note("run.draining", reason="test")])
        told = [event for event in ours.events() if event.event == "shard.completed"]
    assert [event.fields.get("recovered") for event in told] == [True]


def test_a_claim_is_told_once(tmp_path: Path) -> None:
    """The first event of a process is no reason to take its own commit for a forgotten one."""
    store = make_store(str(tmp_path))
    assert farm("worker", "--store", store, "--worker-id", "w1").returncode == 0
    with DirectoryStore(store) as opened:
        told = [(event.event, event.fields.get("recovered")) for event in opened.events()]
    assert told[-2:] == [("shard.claimed", None), ("shard.completed", None)]
    assert len(told) == 3


def test_a_finished_run_tells_what_a_killed_one_could_not(tmp_path: Path) -> None:
    """Killed between its last commit and the event of it: the next run has that much to do."""
    store = make_store(str(tmp_path))
    assert farm("run", "--store", store, "--quiet").returncode == 0
    path = Path(f"{store}/events.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if b"shard.completed" in line)
    path.write_bytes(b"".join(lines[:last]))
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)
    told = path.read_bytes()
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert path.read_bytes() == told  # and then nothing more


@pytest.mark.parametrize("workers", [1, 2])
def test_a_ledger_restored_from_a_copy_is_run_to_its_end_at_once(
    workers: int, tmp_path: Path
) -> None:
    """What `farm status` advises for a damaged ledger. The copy knows nothing of two receipts that
    were written since: they cost their shards a version each, nobody an attempt, and the run goes
    on."""
    store = make_store(str(tmp_path), cases=40, shards=8)
    copy = Path(f"{store}/ledger.json").read_bytes()
    assert farm("run", "--store", store, "--quiet").returncode == 0
    Path(f"{store}/ledger.json").write_bytes(copy)
    for shard in range(2, 8):
        os.unlink(f"{store}/receipts/shard-{shard}.v1.json")
    done = farm("run", "--store", store, "--quiet", "--workers", str(workers))
    assert (done.returncode, done.stderr) == (0, "")
    assert_complete(store)
    with DirectoryStore(store) as opened:
        leases = opened.ledger().leases
        told = [(event.shard, event.fields) for event in opened.events()
                if event.event == "shard.released"]  # fmt: skip
    assert [(lease.version, lease.attempts) for lease in leases] == [(2, 0)] * 2 + [(1, 0)] * 6
    assert {(shard, fields["reason"]) for shard, fields in told} == {
        ("shard-0", "another receipt was written under this version"),
        ("shard-1", "another receipt was written under this version"),
    }


def test_a_worker_by_hand_gives_back_a_shard_whose_receipt_has_its_name_taken(
    tmp_path: Path,
) -> None:
    store = make_store(str(tmp_path))
    Path(f"{store}/receipts/shard-0.v1.json").write_bytes(b"of another life")
    by_hand = ("worker", "--store", store, "--worker-id", "w")
    first = farm(*by_hand)
    assert first.returncode == 1
    assert "the shard was given back: run the same command again" in first.stderr
    second = farm(*by_hand)
    assert second.returncode == 0
    assert '"shard":"shard-0","version":2' in second.stdout


@pytest.mark.parametrize(
    "name",
    ["plan.json", "ledger.json", "events.jsonl", "cases.jsonl", "cases.order",
     "receipts/shard-0.v1.json", "lock", "run.lock"],
)  # fmt: skip
@pytest.mark.parametrize("found", ["a folder", "a link", "a pipe or device"])
def test_what_is_no_file_in_place_of_one_is_damage(found: str, name: str, tmp_path: Path) -> None:
    """No disk to be mended: to run the same command again, as for a full one, changes nothing.

    A link is not followed, whatever it leads to, and a pipe is not waited for.
    """
    store = make_store(str(tmp_path), shards=1)
    finish_by_hand(store)
    os.rename(f"{store}/{name}", f"{tmp_path}/former")
    if found == "a folder":
        os.mkdir(f"{store}/{name}")
    elif found == "a link":
        os.symlink(f"{tmp_path}/former", f"{store}/{name}")
    else:
        os.mkfifo(f"{store}/{name}")
    with pytest.raises(Corrupt, match=f"{name}: {found}, where a file was written"):
        read_everything(store)


def test_an_event_file_that_cannot_be_appended_to_stops_the_claim(tmp_path: Path) -> None:
    """What is in the ledger is told in the events: a shard that was claimed untold is neither."""
    store = make_store(str(tmp_path), shards=2)
    os.rename(f"{store}/events.jsonl", f"{tmp_path}/former")
    os.symlink(f"{tmp_path}/former", f"{store}/events.jsonl")
    before = Path(f"{store}/ledger.json").read_bytes()
    done = farm("worker", "--store", store, "--worker-id", "w")
    assert done.returncode == 1
    assert "events.jsonl: a link, where a file was written" in done.stderr
    assert Path(f"{store}/ledger.json").read_bytes() == before


def read_everything(store: str) -> None:
    with DirectoryStore(store) as opened:
        list(opened.events())
        opened.read_cases(opened.plan.shards[0])
        opened.read_receipt(opened.ledger().leases[0])
        opened.run_lock().close()
        opened.tell([])
    dataset_digests(store, [])
