"""The walk that every newcomer takes, number for number: a run, a crash, a recovery."""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shell import (
    SAMPLE,
    Done,
    farm,
    fingerprint,
    initialized,
    log_of,
    started,
    strict_json,
)

SAMPLE_SHA256 = "60eb5c9ae5c3fce2a328d662094c3204689130101ad85c1f4563ce0cd27dd267"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """`init`, `run` with four shards and two workers, `status`; what each of them printed."""
    store = str(tmp_path_factory.mktemp("walk") / "store")
    given = ("--store", store, "--input", SAMPLE, "--shards", "4")
    return {
        "store": store,
        "given": given,
        "init": farm("init", *given),
        "before": farm("status", "--store", store),
        "run": farm("run", *given, "--workers", "2"),
        "after": farm("status", "--store", store),
    }


def test_before_the_run_nothing_is_done(walk: dict[str, Any]) -> None:
    """Before `run`, completed_shards and evaluated are 0; `init` prints what `status` prints."""
    report = walk["before"].json
    assert (report["completed_shards"], report["evaluated"], report["complete"]) == (0, 0, False)
    assert report["active_shards"] == 4
    assert [shard["lease"]["Result"] for shard in report["shards"]] == [""] * 4
    assert walk["init"].json == report
    assert "worker_events" not in report


def test_after_the_run_three_of_four_are_right(walk: dict[str, Any]) -> None:
    """Afterwards complete is true, completed_shards 4, evaluated 4, correct 3."""
    report = walk["run"].json
    assert walk["run"].code == 0
    assert (report["complete"], report["completed_shards"]) == (True, 4)
    assert (report["evaluated"], report["correct"]) == (4, 3)
    assert report["accuracy"]["value"] == 0.75
    assert report["outcomes"] == {"correct": 3, "wrong": 1}
    assert report["schema_version"] == 1


def test_the_dataset_and_its_partition_are_the_published_ones(walk: dict[str, Any]) -> None:
    """The sample's digest, and case-d, case-c, case-b, case-a in shard-0 to shard-3."""
    report = walk["run"].json
    assert report["dataset_sha256"] == SAMPLE_SHA256
    assert report["dataset_cases"] == 4
    assert [(shard["lease"]["Shard"], shard["case_ids"]) for shard in report["shards"]] == [
        ("shard-0", ["case-d"]),
        ("shard-1", ["case-c"]),
        ("shard-2", ["case-b"]),
        ("shard-3", ["case-a"]),
    ]


def test_two_workers_run_at_a_time_and_four_in_all(walk: dict[str, Any]) -> None:
    """With the sample and two workers, two bounded waves launch four short-lived processes."""
    report, events = walk["run"].json, walk["run"].events
    assert report["worker_processes"] == 4
    pids = [receipt["worker_pid"] for receipt in report["receipts"]]
    assert len(set(pids)) == 4
    alive: set[int] = set()
    most = 0
    for event in events:
        if event["event"] == "worker.spawned":
            alive.add(event["worker_pid"])
        elif event["event"] == "worker.exited":
            alive.remove(event["worker_pid"])
        most = max(most, len(alive))
    assert most == 2
    assert alive == set()
    assert {event["worker_pid"] for event in report["worker_events"]} == set(pids)


def test_status_tells_what_the_run_told(walk: dict[str, Any]) -> None:
    run = dict(walk["run"].json)
    events = run.pop("worker_events")
    assert len(events) == 4
    assert all(event["claimed"] is True for event in events)
    assert run == walk["after"].json


def test_results_are_the_receipt_files_exact_text(walk: dict[str, Any]) -> None:
    for shard in walk["run"].json["shards"]:
        lease = shard["lease"]
        name = f"{lease['Shard']}.v{lease['Version']}.json"
        text = (Path(walk["store"]) / "receipts" / name).read_text("utf-8")
        assert lease["Result"] == text
        assert [case["id"] for case in strict_json(text)["cases"]] == shard["case_ids"]


def test_a_finished_rerun_emits_no_worker_event_and_changes_no_file(walk: dict[str, Any]) -> None:
    """Not the content, the time or the inode of any file; the receipts stay those of the run."""
    before = fingerprint(walk["store"])
    again = farm("run", *walk["given"], "--workers", "2")
    assert again.code == 0
    assert again.json["worker_events"] == []
    assert again.json["receipts"] == walk["run"].json["receipts"]
    assert [event["event"] for event in again.events] == ["run.completed"]
    without_input = farm("run", "--store", walk["store"])
    assert without_input.json == again.json
    assert farm("init", *walk["given"]).code == 0
    assert fingerprint(walk["store"]) == before


def test_another_dataset_or_shard_count_is_refused(walk: dict[str, Any], tmp_path: Path) -> None:
    """The difference is named, exit code 1, and the store stays as it is."""
    other = tmp_path / "other.json"
    other.write_text(Path(SAMPLE).read_text("utf-8").replace('"Yes"', '"No"'), "utf-8")
    store = walk["store"]
    before = fingerprint(store)
    for command, options, field in (
        ("run", ("--input", str(other), "--shards", "4"), "dataset_sha256"),
        ("init", ("--input", SAMPLE, "--shards", "3"), "shards"),
        ("run", ("--shards", "5"), "shards"),
        ("run", ("--name", "someone"), "models"),
    ):
        refused = farm(command, "--store", store, *options)
        assert refused.code == 1
        assert refused.out == b""
        assert len(refused.failures) == 1
        assert field in refused.failures[0]
    assert fingerprint(store) == before


def crashed(tmp_path: Path) -> tuple[str, Done]:
    """One shard, claimed at 100 for 10 by a worker that then crashes."""
    store = initialized(tmp_path, shards=1)
    worker = farm(
        "worker", "--store", store, "--worker-id", "old", "--now-ms", "100", "--lease-ms", "10",
        "--crash-after-claim",
    )  # fmt: skip
    return store, worker


def test_a_crashed_worker_is_replaced_at_the_expiry_and_not_before(tmp_path: Path) -> None:
    """Exit 86; owner old, version 1, expiry 110; 109 steals nothing, 110 finishes version 2."""
    store, worker = crashed(tmp_path)
    assert worker.code == 86
    assert worker.lines == [{"claimed": True, "shard": "shard-0", "version": 1, "until": 110}]
    (shard,) = farm("status", "--store", store).json["shards"]
    assert shard["lease"] == {
        "Shard": "shard-0", "Worker": "old", "Version": 1, "Until": 110, "Result": "",
        "Done": False,
    }  # fmt: skip
    before = fingerprint(store)
    given = ("--store", store, "--input", SAMPLE, "--shards", "1", "--workers", "2")
    early = farm("run", *given, "--now-ms", "109", "--lease-ms", "10")
    assert early.code == 1
    assert early.json["complete"] is False
    assert early.json["worker_events"] == []
    assert early.json["shards"] == [shard]
    assert [event["event"] for event in early.events] == ["run.pending"]
    assert "until 110" in early.failures[0]
    assert fingerprint(store) == before
    late = farm("run", *given, "--now-ms", "110", "--lease-ms", "10")
    assert late.code == 0
    lease = late.json["shards"][0]["lease"]
    assert (lease["Version"], lease["Until"], lease["Done"]) == (2, 120, True)
    assert lease["Worker"] != "old"
    assert late.json["correct"] == 3
    assert [case["id"] for case in late.json["receipts"][0]["cases"]] == [
        "case-a", "case-b", "case-c", "case-d",
    ]  # fmt: skip


def test_a_delayed_old_worker_is_fenced_and_changes_nothing(tmp_path: Path) -> None:
    """Its lease was taken over while it paused: it ends with 1 and says `completion fenced`."""
    store = initialized(tmp_path, shards=1)
    clock = ("--lease-ms", "10", "--now-ms")
    with started("worker", "--store", store, "--worker-id", "old", *clock, "100",
                 "--delay-ms", "1000") as old:  # fmt: skip
        assert old.stdout is not None
        assert strict_json(old.stdout.readline())["version"] == 1
        os.kill(old.pid, signal.SIGSTOP)  # whatever the machine does, it publishes after the other
        assert farm("run", "--store", store, *clock, "110").code == 0
        before = fingerprint(store)
        os.kill(old.pid, signal.SIGCONT)
        out, err = old.communicate(timeout=30)
    assert old.returncode == 1
    assert out == b""
    assert b"completion fenced for shard-0 v1: version 1 is behind 2" in err
    assert fingerprint(store) == before


def test_a_hand_worker_whose_lease_ran_out_leaves_no_receipt(tmp_path: Path) -> None:
    """Nobody took the shard over, yet a first completion needs a live lease."""
    store = initialized(tmp_path, shards=1)
    with started("worker", "--store", store, "--worker-id", "slow", "--lease-ms", "1",
                 "--delay-ms", "5") as slow:  # fmt: skip
        _, err = slow.communicate(timeout=30)
    assert slow.returncode == 1
    assert b"completion fenced for shard-0 v1: the lease expired" in err
    assert os.listdir(os.path.join(store, "receipts")) == []


def test_workers_by_hand_finish_a_run(tmp_path: Path) -> None:
    """One line for the claim, one for the result; with nothing eligible `claimed` is false."""
    store = initialized(tmp_path, shards=4)
    worker = ("worker", "--store", store, "--worker-id", "w")
    for name, correct in (("shard-0", 1), ("shard-1", 1), ("shard-2", 0), ("shard-3", 1)):
        claim, result = farm(*worker).lines
        assert (claim["claimed"], claim["shard"], claim["version"]) == (True, name, 1)
        assert (result["correct"], result["total"]) == (correct, 1)
        assert result["worker_pid"] > 0
    idle = farm(*worker)
    assert (idle.code, idle.lines) == (0, [{"claimed": False}])
    report = farm("status", "--store", store).json
    assert (report["complete"], report["correct"]) == (True, 3)
    assert farm("verify", "--store", store).json["ok"] is True


def test_after_the_kill_of_a_supervisor_the_same_command_continues_at_once(tmp_path: Path) -> None:
    """Its leases hold for 30 more seconds, but its incarnation is provably gone."""
    store = str(tmp_path / "store")
    given = ("run", "--store", store, "--input", SAMPLE, "--shards", "2", "--workers", "2")
    with started(*given, "--delay-ms", "60000") as run:
        spawned = (event for event in log_of(run) if event["event"] == "worker.spawned")
        pids = [next(spawned)["worker_pid"], next(spawned)["worker_pid"]]
        run.kill()
        run.wait()
        began = time.monotonic()
        again = farm(*given)
    assert time.monotonic() - began < 15
    assert again.code == 0
    report = again.json
    assert (report["complete"], report["correct"]) == (True, 3)
    assert [shard["lease"]["Version"] for shard in report["shards"]] == [2, 2]
    assert [shard["attempts"] for shard in report["shards"]] == [0, 0]
    told = [event["event"] for event in again.events]
    assert told.count("shard.reclaimed") == 2
    for pid in pids:  # its workers went with it
        assert not os.path.exists(f"/proc/{pid}/exe")
    assert farm("verify", "--store", store).json["ok"] is True


def damage(path: Path, kind: str) -> None:
    data = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "emptied":
        path.write_bytes(b"")
    else:  # the same size, another content
        at = data.index(b"case-" if b"case-" in data else b"shard-")
        path.write_bytes(data[:at] + data[at : at + 1].upper() + data[at + 1 :])


DAMAGES = (
    ("plan.json", "truncated"),
    ("plan.json", "edited"),
    ("ledger.json", "truncated"),
    ("ledger.json", "edited"),
    ("ledger.json", "emptied"),
    ("cases.jsonl", "truncated"),
    ("cases.jsonl", "edited"),
    ("receipts/shard-0.v1.json", "truncated"),
    ("receipts/shard-0.v1.json", "edited"),
)


def test_a_damaged_file_is_reported_and_kept(walk: dict[str, Any], tmp_path: Path) -> None:
    """`verify` names the file, no command calls such a run done, and no byte is touched."""

    def judge(case: tuple[str, str]) -> None:
        name, kind = case
        store = tmp_path / f"{kind}-{os.path.basename(name)}"
        shutil.copytree(walk["store"], store)
        damage(store / name, kind)
        before = fingerprint(store)
        verified = farm("verify", "--store", str(store))
        assert verified.code == 1, case
        assert os.path.basename(name) in verified.err + verified.out.decode(), case
        for command in ("status", "run"):
            refused = farm(command, "--store", str(store))
            assert refused.code == 1, case
            assert refused.out == b"", case
            assert len(refused.failures) == 1, case
            assert "left as it is" in refused.failures[0], case
        assert fingerprint(store) == before, case

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(judge, DAMAGES))


def test_a_run_on_damaged_cases_stops_and_names_the_file(tmp_path: Path) -> None:
    """A worker that meets a damaged store stops the whole run and charges no shard."""
    store = initialized(tmp_path, shards=4)
    damage(Path(store) / "cases.jsonl", "edited")
    run = farm("run", "--store", store)
    assert run.code == 1
    assert len(run.failures) == 1
    assert "cases.jsonl" in run.failures[0]
    assert "left as it is" in run.failures[0]
    assert run.events[-1]["event"] == "run.failed"
