"""Making a store: wholly or not at all, once, and bound to what it was made of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from farm.core.change import Claim
from farm.core.plan import Plan, ScorerName
from farm.errors import Corrupt, FarmError, IdentityMismatch, SpecError, StorageError
from farm.files.lock import FileLock
from farm.files.mapping import Rules
from farm.store.directory import DirectoryStore, exists
from farm.store.initialize import Request, check_request, initialize, initialize_copy
from tests.contract.homes import digests
from tests.contract.store_contract import finish, granted
from tests.examples import SAMPLE_DATASET, SCORER, states

SAMPLE = str(Path(__file__).resolve().parents[2] / "samples" / "cases.json")
RULES = Rules()
PARTS = {
    "lock", "run.lock", "plan.json", "ledger.json", "cases.jsonl", "cases.order", "receipts",
}  # fmt: skip


def request(
    input: str | None = SAMPLE, shards: int | None = 4, scorer: ScorerName | None = None
) -> Request:
    return Request(input=input, rules=RULES, shards=shards, scorer=scorer)


def init(path: Path, asked: Request | None = None) -> None:
    initialize(str(path), asked or request(), default_scorer=SCORER)


def plan(path: Path) -> Plan:
    with DirectoryStore(str(path)) as store:
        return store.plan


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


# made


def test_the_sample_becomes_four_shards_of_one_case_each(tmp_path: Path) -> None:
    """FNV-1a puts case-d, case-c, case-b, case-a into shard-0 to 3; the digest is known."""
    init(tmp_path / "store")
    made = plan(tmp_path / "store")
    assert made.identity.dataset_sha256 == SAMPLE_DATASET
    assert (made.cases, made.identity.shards, made.identity.scorer) == (4, 4, SCORER)
    with DirectoryStore(str(tmp_path / "store")) as store:
        for shard, case in zip(store.plan.shards, "dcba", strict=True):
            assert f'"id":"case-{case}"'.encode() in store.read_cases(shard)
        assert states(store.ledger()) == {"open": 4}
        assert granted(store, Claim(worker="w1", ttl=9))


@pytest.mark.parametrize(
    ("more", "grouped"),
    [({}, False), ({"task": "t"}, False), ({"cluster": "k"}, True), ({"sample": 1}, True)],
)
def test_the_plan_says_whether_cases_may_belong_together(
    tmp_path: Path, more: dict[str, object], grouped: bool
) -> None:
    """Of any one case; the text of another is none, and a copy says the same. Else not a byte."""
    told = {"id": "a", "prompt": ',"cluster":"k","sample":1', "targets": ["cluster", "sample"]}
    records = [{**told, "response": ""}, {**told, "id": "b", "response": "", **more}]
    (tmp_path / "in.json").write_text(json.dumps(records))
    init(tmp_path / "store", request(str(tmp_path / "in.json")))
    assert (plan(tmp_path / "store").grouped is True) == grouped
    with DirectoryStore(str(tmp_path / "store")) as store:
        initialize_copy(str(tmp_path / "copy"), store, scorer=SCORER)
    assert plan(tmp_path / "copy") == plan(tmp_path / "store")
    assert (b"grouped" in (tmp_path / "store" / "plan.json").read_bytes()) == grouped


def test_a_store_holds_its_parts_and_nothing_of_its_making(tmp_path: Path) -> None:
    init(tmp_path / "store")
    assert names(tmp_path / "store") == PARTS
    assert os.listdir(tmp_path / "store" / "receipts") == []


def test_missing_parents_are_made(tmp_path: Path) -> None:
    init(tmp_path / "a" / "b" / "store")
    assert exists(str(tmp_path / "a" / "b" / "store"))


@pytest.mark.parametrize("there", [[], ["lost+found"]])
def test_an_existing_empty_folder_is_used_as_it_is(tmp_path: Path, there: list[str]) -> None:
    """A mount point cannot be renamed over, and a fresh one holds lost+found."""
    for name in there:
        (tmp_path / name).mkdir()
    inode = tmp_path.stat().st_ino
    init(tmp_path)
    assert tmp_path.stat().st_ino == inode
    assert names(tmp_path) == PARTS | set(there)


def test_a_link_to_an_empty_folder_is_as_good_as_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    init(tmp_path / "link")
    assert exists(str(tmp_path / "real"))


def test_without_a_count_a_small_dataset_gets_four_shards(tmp_path: Path) -> None:
    init(tmp_path / "store", request(shards=None))
    assert plan(tmp_path / "store").identity.shards == 4


def test_buckets_without_a_case_are_not_in_the_plan(tmp_path: Path) -> None:
    init(tmp_path / "store", request(shards=1024))
    made = plan(tmp_path / "store")
    assert made.identity.shards == 1024
    assert len(made.shards) == 4


# refused, with nothing left behind


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "[{}]",
        '[{"id":"a","prompt":"p","expected":"e","response":"r"},',
        '[{"id":"a","prompt":"p","expected":"e","response":"r","more":1}]',
    ],
    ids=["empty", "no cases", "torn", "bare", "cut", "unknown field"],
)
@pytest.mark.parametrize("where", ["store", "new/parents/store"])
def test_a_bad_input_leaves_nothing_not_even_the_parents(
    tmp_path: Path, content: str, where: str
) -> None:
    (tmp_path / "in.json").write_text(content)
    with pytest.raises(SpecError):
        init(tmp_path / where, request(str(tmp_path / "in.json")))
    assert names(tmp_path) == {"in.json"}


def test_an_existing_folder_stays_empty_after_a_bad_input(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("[{}]")
    (tmp_path / "store").mkdir()
    with pytest.raises(SpecError):
        init(tmp_path / "store", request(str(tmp_path / "in.json")))
    assert names(tmp_path / "store") == set()


def test_an_input_that_is_missing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match=r"absent\.json"):
        init(tmp_path / "store", request(str(tmp_path / "absent.json")))
    with pytest.raises(SpecError, match="a new store needs an input: give --input FILE"):
        init(tmp_path / "store", request(None))
    assert names(tmp_path) == set()


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_disk_that_fails_at_any_rename_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Six parts and the plan; a store exists from the moment its plan does."""
    real = os.rename
    seen = 0

    def rename(source: str, target: str, **named: int) -> None:
        nonlocal seen
        seen += "init" not in source
        if seen == nth:
            raise OSError(28, "")
        real(source, target, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(StorageError, match="no space left on device"):
            init(tmp_path / "new" / "store")
    assert names(tmp_path) == set()
    init(tmp_path / "new" / "store")
    assert exists(str(tmp_path / "new" / "store"))


def test_the_plan_gets_its_name_after_all_others_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut must never leave a plan whose cases are not there."""
    calls: list[str] = []
    rename, fsync = os.rename, os.fsync

    def renamed(source: str, target: str, **named: int) -> None:
        calls.append(os.path.basename(target))
        rename(source, target, **named)

    def synced(fd: int) -> None:
        calls.append("sync of " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("names of open files are read from /proc")
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    init(tmp_path / "store")
    assert calls[-3:] == ["sync of store", "plan.json", "sync of store"]
    assert set(calls[-9:-3]) == PARTS - {"plan.json"}
    assert {"sync of cases.jsonl", "sync of cases.order"} <= set(calls[:-9])


@pytest.mark.parametrize("name", ["notes.txt", ".git", "events.json", "plan.json.bak"])
def test_a_folder_with_anything_foreign_in_it_is_refused_and_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    before = digests(tmp_path)
    with pytest.raises(SpecError) as refusal:
        init(tmp_path)
    assert str(refusal.value) == (
        f"{str(tmp_path)!r} is neither empty nor a store, it holds {name!r}: "
        "give --store a new or empty directory"
    )
    assert digests(tmp_path) == before


def test_a_file_and_a_link_to_nothing_are_no_places_for_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(SpecError, match="file' is a file: give --store a directory"):
        init(tmp_path / "file")
    with pytest.raises(SpecError, match="link' is a link to nothing: give --store a directory"):
        init(tmp_path / "link")
    with pytest.raises(StorageError, match="not a directory"):
        init(tmp_path / "file" / "store")
    assert names(tmp_path) == {"file", "link"}


# killed, and ruins


@pytest.mark.parametrize("nth", [0, *range(1, 8)])
def test_what_a_killed_init_leaves_is_taken_up_by_the_next(tmp_path: Path, nth: int) -> None:
    """Killed while it reads its input, and at each of its renames."""
    script = """
import os, signal, sys
from farm.core.plan import ScorerName
from farm.files.mapping import Rules
from farm.store import initialize as room
nth, seen, real = int(sys.argv[3]), 0, os.rename
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def rename(source, target, **named):
    global seen
    seen += "init" not in source
    die() if seen == nth else real(source, target, **named)
os.rename = rename
if nth == 0:
    room.write_cases = lambda *given, **named: die()
request = room.Request(input=sys.argv[2], rules=Rules(), shards=4)
scorer = ScorerName(name="normalized_match", version="1")
room.initialize(sys.argv[1], request, default_scorer=scorer)
"""
    store = tmp_path / "store"
    command = [sys.executable, "-c", script, str(store), SAMPLE, str(nth)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not exists(str(store))
    assert any(name.startswith(".init-") for name in names(store))
    init(store)
    assert names(store) == PARTS
    with DirectoryStore(str(store)) as opened:
        assert finish(opened).done


def test_the_staging_of_an_init_that_still_works_is_left_to_it(tmp_path: Path) -> None:
    """Its owner file is locked, or its process lives and has not come to name it yet."""
    held, new = tmp_path / f".init-{os.getpid()}-aaaaaaaa", tmp_path / ".init-1-bbbbbbbb"
    dead, old = tmp_path / f".init-{os.getpid()}-cccccccc", tmp_path / ".init-4194305-dddddddd"
    for staging in (held, new, dead, old):
        staging.mkdir()
    (dead / "owner").touch()  # of an earlier process with our id, as in a container
    lock = FileLock(str(held / "owner"))
    assert lock.try_acquire()
    init(tmp_path)
    assert names(tmp_path) == PARTS | {held.name, new.name}
    lock.close()


def test_ruins_are_reported_and_never_built_over(tmp_path: Path) -> None:
    """A folder where work was done and whose plan is gone is for a person to look at."""
    init(tmp_path / "store")
    with DirectoryStore(str(tmp_path / "store")) as store:
        finish(store)
    (tmp_path / "store" / "plan.json").unlink()
    for gone in (None, "events.jsonl"):
        if gone:
            (tmp_path / "store" / gone).unlink()
        before = digests(tmp_path)
        for act in (
            lambda: exists(str(tmp_path / "store")),
            lambda: init(tmp_path / "store"),
            lambda: DirectoryStore(str(tmp_path / "store")),
        ):
            with pytest.raises(Corrupt, match=r"plan\.json: missing, though a run was going on"):
                act()
        assert digests(tmp_path) == before


# two at once


def test_an_init_that_comes_late_says_that_there_is_a_store_now(tmp_path: Path) -> None:
    init(tmp_path)
    with DirectoryStore(str(tmp_path)) as store:
        finish(store)
    before = digests(tmp_path)
    with pytest.raises(SpecError) as refusal:
        init(tmp_path)
    assert str(refusal.value) == (
        f"{str(tmp_path)!r} has become a store by another init: run the command again"
    )
    assert digests(tmp_path) == before


def test_of_many_inits_at_once_one_makes_the_store_and_the_others_say_so(tmp_path: Path) -> None:
    """Each passes the first look, then all wait for each other; whoever is first wins whole."""
    outcomes: list[str] = []
    start = threading.Barrier(6)

    def race(shards: int) -> None:
        start.wait()
        try:
            init(tmp_path / "new" / "store", request(shards=shards))
        except SpecError as refusal:
            outcomes.append(str(refusal))
        else:
            outcomes.append("made")

    threads = [threading.Thread(target=race, args=(shards,)) for shards in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    late = [outcome for outcome in outcomes if outcome.endswith("run the command again")]
    assert (outcomes.count("made"), len(late)) == (1, 5)
    assert names(tmp_path / "new" / "store") == PARTS
    with DirectoryStore(str(tmp_path / "new" / "store")) as store:
        for shard in store.plan.shards:
            store.read_cases(shard)


# bound


def test_the_same_init_again_agrees_and_the_progress_stays(tmp_path: Path) -> None:
    init(tmp_path / "store")
    with DirectoryStore(str(tmp_path / "store")) as store:
        finish(store)
        before = digests(tmp_path / "store")
        check_request(store.plan, request(), store="S")
        check_request(store.plan, request(None, None), store="S")
        assert states(store.ledger()) == {"done": 1, "open": 3}
    assert digests(tmp_path / "store") == before


def test_another_dataset_count_scorer_or_model_is_refused_by_name(tmp_path: Path) -> None:
    """And what was refused changed nothing."""
    init(tmp_path / "store")
    made = plan(tmp_path / "store")
    other = tmp_path / "other.jsonl"
    other.write_text('{"id":"a","prompt":"p","expected":"e","response":"r"}\n')
    before = digests(tmp_path)
    for field, asked in (
        ("dataset_sha256", request(str(other))),
        ("shards", request(shards=5)),
        ("scorer", request(scorer=ScorerName(name="normalized_match", version="2"))),
        ("models", Request(input=None, rules=RULES, models=("m",))),
    ):
        with pytest.raises(IdentityMismatch, match=f"^store 'S' was made for {field} "):
            check_request(made, asked, store="S")
    assert digests(tmp_path) == before


def test_the_same_cases_in_another_file_are_the_same_dataset(tmp_path: Path) -> None:
    """The identity is of the records, not of the bytes that happened to hold them."""
    init(tmp_path / "store")
    same = tmp_path / "same.jsonl"
    records = json.loads(Path(SAMPLE).read_text("utf-8"))
    same.write_text("\n\n".join(json.dumps(record) for record in records), "utf-8")
    check_request(plan(tmp_path / "store"), request(str(same)), store="S")


def test_a_file_with_the_name_of_a_part_is_its_owners(tmp_path: Path) -> None:
    """Only what the staging of a killed init speaks for is a leftover; an input is not."""
    mine = tmp_path / "cases.jsonl"
    mine.write_bytes(b"the only copy")
    with pytest.raises(SpecError, match=r"holds 'cases\.jsonl'"):
        init(tmp_path)
    assert digests(tmp_path) == {"cases.jsonl": digests(tmp_path)["cases.jsonl"]}
    assert mine.read_bytes() == b"the only copy"


def test_an_input_that_can_be_read_once_is_copied_beside_the_cases_to_be_compared(
    tmp_path: Path,
) -> None:
    """The disk for temporary files is often a small one, and often memory."""
    store, pipe = tmp_path / "store", tmp_path / "pipe"
    init(store)
    os.mkfifo(pipe)
    found: list[Path] = []

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as stream:
            stream.write(b"\n")
            while not found:
                found.extend(store.glob(".init-*/input"))
            stream.write(Path(SAMPLE).read_bytes())

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    check_request(plan(store), request(str(pipe)), store=str(store))
    feeder.join(30)
    assert names(store) == PARTS


def test_a_copy_of_a_store_that_lacks_a_file_says_which(tmp_path: Path) -> None:
    init(tmp_path / "store")
    os.unlink(tmp_path / "store" / "cases.order")
    with (
        DirectoryStore(str(tmp_path / "store")) as original,
        pytest.raises(Corrupt, match=r"cases\.order: is missing"),
    ):
        initialize_copy(str(tmp_path / "copy"), original, scorer=SCORER)
    assert not os.path.exists(tmp_path / "copy")
