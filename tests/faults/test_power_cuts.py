"""What was acknowledged survives a power cut, whatever the disk had not flushed.

A run works on a disk that records every write and flush. Then the power is cut after any record,
and of what was written since the last flush none, all, or a random part survives. What is left is
mounted and must hold all that was acknowledged by that moment, whole, and the run must go on from
it. Killing processes can not show this: the kernel keeps what they wrote.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from farm.errors import FarmError
from farm.store.directory import DirectoryStore, exists
from tests.faults.disks import Disk, after_cut, cuts, read_log, recording_disk, scratch, sudo
from tests.faults.runs import (
    assert_one_line,
    done_set,
    farm,
    finish_by_hand,
    make_store,
    write_cases,
)

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.needs_fuse,
    pytest.mark.needs_loop,
    pytest.mark.slow,
]

SCRIPT = os.path.join(os.path.dirname(__file__), "acknowledging.py")
Acknowledged = list[tuple[int, list[str]]]  # by which moment of the disk, what was said


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="farm-cut-", dir=scratch()) as made:
        yield made


def work(disk: Disk, planted: str) -> Acknowledged:
    """Run on the disk to the end; a moment of the log for each thing acknowledged."""
    given = write_cases(os.path.join(disk.folder, "in.jsonl"), 9)
    command = [sys.executable, "-I", "-c", f"import runpy,sys;runpy.run_path({SCRIPT!r})"]
    said: Acknowledged = []
    with subprocess.Popen(
        [*command, os.path.join(disk.root, "store"), given, planted],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            said.append((disk.recorded(), line.split()))
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0
    assert [words[0] for _, words in said] == ["made", *["claimed", "done"] * 3]
    return said


def broken_promise(store: str, acknowledged: Sequence[list[str]]) -> str:
    """Say which promise does not hold of what a power cut left, "" when all do."""
    kinds = {words[0] for words in acknowledged}
    try:
        if not exists(store):
            return "the store is gone" if kinds else ""
        with DirectoryStore(store) as opened:
            versions = {lease.shard: lease.version for lease in opened.ledger().leases}
        done = done_set(store)
    except FarmError as error:
        return f"not whole: {error}"
    for word, *rest in acknowledged:
        if word == "claimed" and versions[rest[0]] < int(rest[1]):
            return f"the claim of {rest[0]} is gone"
        if word == "done" and done.get(rest[0]) != (int(rest[1]), rest[2]):
            return f"the receipt of {rest[0]} is gone"
    try:
        finish_by_hand(store)
    except FarmError as error:
        return f"the run does not go on: {error}"
    return "" if len(done_set(store)) == 3 else "the run does not complete"


def need(kind: str) -> None:
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"needs mkfs.{kind}")


def replay(folder: str, kind: str, *, planted: str, limit: int) -> tuple[int, list[str]]:
    """Cut the power at `limit` places; give how many were tried, and what did not hold."""
    chance = random.Random(3)
    with recording_disk(folder, kind) as disk:
        acknowledged = work(disk, planted)
    records = read_log(disk.log)
    wrong: list[str] = []
    tried = 0
    for cut in cuts(records, limit=limit, chance=chance):
        moment = records[cut.count - 1].end
        due = [words for end, words in acknowledged if end <= moment]
        with after_cut(disk, cut.surviving(records, chance)) as root:
            problem = broken_promise(os.path.join(root, "store"), due)
        tried += 1
        if problem:
            wrong.append(f"{cut}: {problem}")
            if planted != "none":
                break
    return tried, wrong


@pytest.mark.parametrize(("kind", "limit"), [("ext4", 300), ("xfs", 80)])
def test_what_was_acknowledged_survives_any_power_cut(kind: str, limit: int, folder: str) -> None:
    need(kind)
    tried, wrong = replay(folder, kind, planted="none", limit=limit)
    assert wrong == []
    assert tried == limit


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("planted", ["no_fsync", "no_folder_fsync"])
def test_a_missing_sync_is_found(planted: str, kind: str, folder: str) -> None:
    """The same replay finds what it is there for."""
    need(kind)
    _, wrong = replay(folder, kind, planted=planted, limit=80)
    assert len(wrong) == 1


def test_a_disk_that_fails_stops_the_run_and_keeps_what_was_acknowledged(folder: str) -> None:
    """EIO from the device itself: exit 3, one line; after the repair the run completes."""
    with recording_disk(folder, "ext4") as disk:
        store = make_store(disk.root)
        assert farm("worker", "--store", store, "--worker-id", "w").returncode == 0
        before = done_set(store)
        disk.fail(failing=True)
        failed = farm("run", "--store", store, "--quiet")
        assert failed.returncode == 3, failed.stderr
        assert_one_line(failed.stderr)
        disk.fail(failing=False)
    image = os.path.join(disk.folder, "image")
    root = Path(folder) / "again"
    root.mkdir()
    sudo("mount", "-o", "loop", image, str(root))
    try:
        assert done_set(f"{root}/store") == before
        assert len(before) == 1
        assert farm("run", "--store", f"{root}/store", "--quiet").returncode == 0
    finally:
        sudo("umount", str(root))
