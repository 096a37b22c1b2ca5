"""A run in a directory: it survives its writers, and damage is reported and left as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from farm.core.change import Claim, Release
from farm.core.ledger import decode_ledger, encode_ledger
from farm.core.plan import encode_plan
from farm.core.progress import fold, shard_states
from farm.errors import Busy, Corrupt, OutcomeUnknown, SpecError, StorageError
from farm.store.directory import DirectoryStore, exists
from tests.contract.homes import DirectoryHome, digests
from tests.contract.store_contract import DRAINING, finish, granted, publish
from tests.examples import plan_of, states


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DirectoryHome]:
    home = DirectoryHome(tmp_path / "store", plan_of(3))
    yield home
    home.close()


@pytest.fixture
def worked(home: DirectoryHome) -> DirectoryHome:
    """A store with one shard done, one leased, one free."""
    store = home.open()
    finish(store)
    granted(store, Claim(worker="w2", ttl=50))
    store.close()
    return home


def look_at_everything(home: DirectoryHome) -> None:
    """Do all that a run does with a store: read it whole, then commit."""
    store = home.open()
    for shard in store.plan.shards:
        store.read_cases(shard)
    for lease in store.ledger().leases:
        if lease.done:
            store.check_receipt(lease)
            store.read_receipt(lease)
    granted(store, Claim(worker="w3", ttl=50))


# durable across processes


def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(
    worked: DirectoryHome,
) -> None:
    store = worked.open()
    assert states(store.ledger()) == {"done": 1, "leased": 1, "open": 1}
    assert len(list(store.events())) == 3
    look_at_everything(worked)


def test_every_snapshot_names_the_one_it_replaced(home: DirectoryHome) -> None:
    store = home.open()
    path = home.path / "ledger.json"
    _, before = decode_ledger(path.read_bytes(), path="")
    granted(store, Claim(worker="w1", ttl=9))
    ledger, _ = decode_ledger(path.read_bytes(), path="")
    assert (ledger.revision, ledger.previous) == (1, before)


def test_a_claim_of_another_process_is_seen_by_a_handle_that_was_open_before(
    home: DirectoryHome,
) -> None:
    store = home.open()
    granted(store, Claim(worker="w1", ttl=10**15))
    script = """
import sys
from farm.core.change import Claim
from farm.store.directory import DirectoryStore
with DirectoryStore(sys.argv[1]) as store:
    store.commit([Claim(worker="other", ttl=1000)])
"""
    subprocess.run([sys.executable, "-c", script, home.path], check=True)
    assert store.ledger().lease("shard-1").worker == "other"
    store.tell([DRAINING])
    assert [event.seq for event in store.events()] == [1, 2, 3]


def test_reading_takes_no_lock_and_a_commit_says_that_another_is_under_way(
    home: DirectoryHome,
) -> None:
    one, two = home.open(), home.open()
    with one._locked():
        assert two.ledger().revision == 0
        with pytest.raises(Busy, match=r"store/lock: held by .* for over 0 s"):
            two.commit([Claim(worker="w1", ttl=9)])
    assert granted(two, Claim(worker="w1", ttl=9))


def test_files_are_for_their_owner_only(worked: DirectoryHome) -> None:
    for name in ("ledger.json", "events.jsonl", "lock", "receipts/shard-0.v1.json"):
        assert (worked.path / name).stat().st_mode & 0o777 == 0o600


def test_the_run_lock_is_apart_from_the_lock_of_commits(home: DirectoryHome) -> None:
    store = home.open()
    lock = store.run_lock()
    assert lock.try_acquire()
    assert granted(home.open(), Claim(worker="by-hand", ttl=9))
    lock.close()


# damage


def _truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _edit(data: bytes) -> bytes:
    return data.replace(b"1", b"2", 1)


def _replace(data: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def _empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    "name", ["plan.json", "ledger.json", "cases.jsonl", "receipts/shard-0.v1.json"]
)
@pytest.mark.parametrize("damage", [_truncate, _edit, _replace, _empty])
def test_a_damaged_file_is_named_and_everything_is_left_as_it_is(
    worked: DirectoryHome, name: str, damage: Callable[[bytes], bytes]
) -> None:
    path = worked.path / name
    data = path.read_bytes()
    if name == "cases.jsonl" and damage is _edit:
        data = data.replace(b'"p"', b'"1"', 1)  # has no other 1 that is not an id
    path.write_bytes(damage(data))
    before = digests(worked.path)
    with pytest.raises(Corrupt, match=f"^{path}: .*; the file was left as it is"):
        look_at_everything(worked)
    assert digests(worked.path) == before


@pytest.mark.parametrize(
    "name", ["plan.json", "ledger.json", "cases.jsonl", "receipts/shard-0.v1.json"]
)
def test_a_missing_file_is_named_and_none_is_made_in_its_place(
    worked: DirectoryHome, name: str
) -> None:
    path = worked.path / name
    path.unlink()
    before = digests(worked.path)
    with pytest.raises(Corrupt, match=f"^{path}: .*missing"):
        look_at_everything(worked)
    assert digests(worked.path) == before


@pytest.mark.parametrize("work", ["read", "write", "sweep"])
def test_a_missing_folder_of_receipts_is_named(worked: DirectoryHome, work: str) -> None:
    for file in (worked.path / "receipts").iterdir():
        file.unlink()
    (worked.path / "receipts").rmdir()
    store = worked.open()
    act: dict[str, Callable[[], object]] = {
        "read": lambda: store.read_receipt(store.ledger().lease("shard-0")),
        "write": lambda: store.put_receipts({"shard-1.v1.json": b"x"}),
        "sweep": lambda: store.sweep(alive=lambda pid: True),
    }
    with pytest.raises(Corrupt, match=r"receipts: missing, or no folder"):
        act[work]()


def test_a_snapshot_of_another_run_is_foreign(worked: DirectoryHome) -> None:
    """Sealed and whole, but copied from the store next door."""
    path = worked.path / "ledger.json"
    ledger, _ = decode_ledger(path.read_bytes(), path="")
    path.write_bytes(encode_ledger(replace(ledger, run_id="0" * 16))[0])
    with pytest.raises(Corrupt, match=r"it belongs to run 0000000000000000, the plan is of run"):
        worked.open().ledger()


def test_a_snapshot_with_other_shards_than_the_plan_is_foreign(worked: DirectoryHome) -> None:
    path = worked.path / "ledger.json"
    ledger, _ = decode_ledger(path.read_bytes(), path="")
    path.write_bytes(encode_ledger(replace(ledger, leases=ledger.leases[:2]))[0])
    with pytest.raises(Corrupt, match=r"its shards are not those of the plan"):
        worked.open().ledger()


def test_a_snapshot_edited_in_place_under_an_open_store_is_seen_before_it_is_replaced(
    home: DirectoryHome,
) -> None:
    """The inode is the same, so only its look gives the edit away."""
    store = home.open()
    granted(store, Claim(worker="w1", ttl=9))
    path = home.path / "ledger.json"
    with path.open("r+b") as file:
        file.truncate(100)
    before = digests(home.path)
    with pytest.raises(Corrupt, match="truncated"):
        store.commit([Claim(worker="w2", ttl=9)])
    assert digests(home.path) == before


@pytest.mark.parametrize("name", ["ledger.json", "events.jsonl"])
def test_a_folder_in_the_place_of_a_file_is_damage(worked: DirectoryHome, name: str) -> None:
    """Trying again, as after an error of the storage, would change nothing."""
    (worked.path / name).unlink()
    (worked.path / name).mkdir()
    with pytest.raises(Corrupt, match=f"{name}: a folder, where a file was written"):
        look_at_everything(worked)


def test_a_place_without_a_plan_is_no_store_and_the_way_to_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(SpecError) as refusal:
            DirectoryStore(str(path))
        assert str(refusal.value) == (
            f"{str(path)!r} is not a store: make one with `farm init --store {path}`"
        )
        assert not exists(str(path))


# events


def event_lines(home: DirectoryHome) -> list[bytes]:
    return (home.path / "events.jsonl").read_bytes().splitlines(keepends=True)


def test_the_first_commit_of_a_handle_tells_of_itself_once_and_as_it_happens(
    home: DirectoryHome,
) -> None:
    """`recovered` is for what an earlier process could not tell."""
    granted(home.open(), Claim(worker="w1", ttl=9))
    (event,) = home.open().events()
    assert "recovered" not in event.fields


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_events_that_are_missing_against_the_ledger_come_back_marked_as_recovered(
    worked: DirectoryHome, kept: int
) -> None:
    """A kill between commit and append takes the last away, a lost file takes all."""
    path = worked.path / "events.jsonl"
    whole = event_lines(worked)
    path.write_bytes(b"".join(whole[:kept]))
    store = worked.open()
    store.tell([DRAINING])
    events = list(store.events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert fold(events) == shard_states(store.ledger())
    assert [event.event for event in events[kept:-1]] == [
        "shard.claimed", "shard.completed", "shard.claimed",
    ][kept:]  # fmt: skip
    assert all(event.fields["recovered"] is True for event in events[kept:-1])
    assert event_lines(worked)[:kept] == whole[:kept]


def test_a_lost_event_file_is_told_anew(worked: DirectoryHome) -> None:
    (worked.path / "events.jsonl").unlink()
    store = worked.open()
    assert list(store.events()) == []
    granted(store, Claim(worker="w3", ttl=9))
    assert fold(store.events()) == shard_states(store.ledger())
    assert [event.fields.get("recovered", False) for event in store.events()] == [
        True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("torn", [b"{", b'{"ts":"2025', b"\x00" * 4096, b"x" * 16_384])
def test_a_torn_last_line_is_passed_over_by_readers_and_cut_by_the_next_writer(
    worked: DirectoryHome, torn: bytes
) -> None:
    path = worked.path / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    store = worked.open()
    assert [event.seq for event in store.events()] == [1, 2, 3]
    assert path.read_bytes() == whole + torn
    store.tell([DRAINING])
    assert path.read_bytes().startswith(whole + b'{"ts":')
    assert [event.seq for event in store.events()] == [1, 2, 3, 4]


def test_a_line_torn_by_another_process_is_cut_by_a_handle_that_was_open_before(
    worked: DirectoryHome,
) -> None:
    """Else its next line would grow together with the torn one and be lost as well."""
    store = worked.open()
    store.tell([DRAINING])
    with (worked.path / "events.jsonl").open("ab") as file:
        file.write(b'{"ts":"2025')
    store.tell([DRAINING])
    assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5]


def test_a_disk_that_fills_up_in_the_middle_of_a_line_costs_that_line_only(
    worked: DirectoryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = worked.open()
    store.tell([DRAINING])
    real = os.write

    def write(fd: int, data: bytes) -> int:
        real(fd, bytes(data)[:20])
        raise OSError(28, "")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(StorageError, match=r"events\.jsonl: no space left on device"):
            store.tell([DRAINING])
    store.tell([DRAINING])
    assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5]


BAD_LINES = [
    b"not json\n",
    b"\n",
    b'{"event":"shard.claimed"}\n',
    b"\xff\n",
    b"[" * 10_000 + b"\n",
    b"x" * 20_000 + b"\n",
    b"x" * 16_385,
    b"\x00" * 100_000,
]


@pytest.mark.parametrize("line", BAD_LINES, ids=[ascii(line[:9]) for line in BAD_LINES])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_line_that_is_no_event_stops_the_next_commit_before_anything_is_written(
    worked: DirectoryHome, line: bytes, place: str
) -> None:
    """Check, then change: the ledger must not run ahead of a file that cannot follow."""
    path = worked.path / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(line + whole if place == "first" else whole + line)
    before = digests(worked.path)
    for _ in range(2):
        with pytest.raises(Corrupt, match=f"^{path}: "):
            look_at_everything(worked)
        with pytest.raises(Corrupt, match=f"^{path}: "):
            worked.open().tell([DRAINING])
    assert digests(worked.path) == before


@pytest.mark.parametrize("same_handle", [True, False])
def test_what_a_commit_could_not_tell_is_told_by_the_next_commit_of_any_handle(
    home: DirectoryHome, monkeypatch: pytest.MonkeyPatch, same_handle: bool
) -> None:
    """The snapshot was durable, then the disk was full or the process was killed."""
    one, two = home.open(), home.open()
    for store in (one, two):
        store.tell([DRAINING])
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if b"shard.claimed" in bytes(data):
            raise OSError(28, "")
        return real(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(StorageError, match=r"events\.jsonl: no space left on device"):
            one.commit([Claim(worker="w1", ttl=9)])
    (one if same_handle else two).commit([Claim(worker="w2", ttl=9)])
    told = [(event.event, event.shard, event.fields.get("recovered")) for event in one.events()]
    assert told[2:] == [
        ("shard.claimed", "shard-0", True),
        ("shard.claimed", "shard-1", None),
    ]
    assert fold(two.events()) == shard_states(two.ledger())


def test_the_line_of_a_damaged_event_file_is_named(worked: DirectoryHome) -> None:
    path = worked.path / "events.jsonl"
    lines = event_lines(worked)
    flat = json.loads(lines[1])
    del flat["version"]
    path.write_bytes(lines[0] + json.dumps(flat).encode() + b"\n" + lines[2])
    with pytest.raises(Corrupt, match=r"line 2 is not an event: version is NoneType, not int"):
        list(worked.open().events())


def test_numbering_events_for_a_log_writes_nothing(worked: DirectoryHome) -> None:
    """A run with nothing to do changes no file of the store."""
    store = worked.open()
    before = digests(worked.path)
    assert [event.seq for event in store.number([DRAINING, DRAINING])] == [4, 5]
    assert digests(worked.path) == before
    other = worked.open()
    other.tell([DRAINING])
    assert [event.seq for event in store.number([DRAINING])] == [5]


# what killed processes leave behind


def test_a_sweep_takes_away_what_dead_writers_left_and_the_files_of_living_ones_stay(
    worked: DirectoryHome,
) -> None:
    """Under the commit lock nobody else writes a snapshot; receipts are written without it."""
    dead = worked.path / ".ledger.json.11.0badcafe.1.tmp"
    gone = worked.path / "receipts/.r.10.0badcafe.1.tmp"
    living = worked.path / "receipts/.r.11.0badcafe.1.tmp"
    for path in (dead, gone, living):
        path.touch()
    worked.open().sweep(alive=lambda pid: pid == 11)
    assert [path.exists() for path in (dead, gone, living)] == [False, False, True]
    look_at_everything(worked)


def test_after_a_sync_of_unknown_outcome_nothing_is_acknowledged_any_more(
    home: DirectoryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on the disk is read by the next process; this one stays with what it knew."""
    store = home.open()
    real = os.fsync

    def fsync(fd: int) -> None:
        if fd == store._folder.fd:
            raise OSError(5, "")
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OutcomeUnknown):
            store.commit([Claim(worker="w1", ttl=9)])
    with pytest.raises(StorageError, match="syncing the folder failed"):
        store.commit([Claim(worker="w2", ttl=9)])
    with pytest.raises(StorageError, match="syncing the folder failed"):
        store.put_receipts({"shard-0.v1.json": b"x"})
    assert store.ledger().lease("shard-0").worker == ""
    next_one = home.open()
    granted(next_one, Release(shard="shard-0", worker="w1", version=1, reason="drained"))
    assert [event.event for event in next_one.events()] == ["shard.claimed", "shard.released"]


def test_a_store_of_a_killed_writer_needs_no_repair(home: DirectoryHome) -> None:
    """A process is killed while it holds the lock; the next commit simply goes on."""
    script = """
import os, signal, sys
from farm.core.change import Claim
from farm.store.directory import DirectoryStore
store = DirectoryStore(sys.argv[1])
store.commit([Claim(worker="w1", ttl=10**9)])
rename = os.rename
os.rename = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)
store.commit([Claim(worker="w1", ttl=10**9)])
"""
    done = subprocess.run([sys.executable, "-c", script, home.path], check=False)
    assert done.returncode == -9
    store = home.open()
    assert store.ledger().revision == 1
    assert len(list(home.path.glob(".ledger.json.*.tmp"))) == 1
    store.sweep(alive=lambda pid: False)
    assert list(home.path.glob(".ledger.json.*.tmp")) == []
    (lease,) = granted(store, Claim(worker="w2", ttl=9))
    assert lease.shard == "shard-1"


def test_closing_twice_and_closing_what_was_never_used_is_fine(home: DirectoryHome) -> None:
    store = home.open()
    store.close()
    store.close()


def test_a_plan_of_a_newer_farm_is_refused_by_its_schema(home: DirectoryHome) -> None:
    (home.path / "plan.json").write_bytes(encode_plan(replace(plan_of(3), schema_version=2)))
    with pytest.raises(Corrupt, match=r"plan\.json: schema 2, this farm reads 1"):
        home.open()


def test_a_publish_that_the_disk_refused_may_be_tried_again(
    home: DirectoryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was acknowledged and nothing is known: the ledger is as before."""
    store = home.open()
    granted(store, Claim(worker="w1", ttl=9))

    def rename(*given: object, **named: object) -> None:
        raise OSError(28, "")

    before = digests(home.path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(StorageError, match="no space left on device"):
            store.commit([publish("w1", 1)])
    assert digests(home.path) == before
    assert granted(store, publish("w1", 1))[0].done
