"""Runs to be broken: small stores, commands on them, and what must hold whatever happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from farm.core.event import Event
from farm.core.partition import shard_index
from farm.core.receipt import read_receipt
from farm.runtime.by_hand import HandSettings, work_once
from farm.runtime.prospects import Ending
from farm.runtime.settings import RunSettings
from farm.runtime.verify import verify
from farm.runtime.worker import score_shard, scorer_of
from farm.store.casefile import ShardCases
from farm.store.caseorder import dataset_digests
from farm.store.directory import DirectoryStore
from farm.wiring import InitOptions, ensure_store, run, run_settings

FARM = (sys.executable, "-I", "-m", "farm")
Done = dict[str, tuple[int, str]]  # shard -> version and digest of its accepted receipt


def write_cases(path: str, count: int) -> str:
    """Write predictions of which every third is wrong."""
    with open(path, "w", encoding="utf-8") as file:
        for index in range(count):
            answer = "no" if index % 3 == 0 else "yes"
            case = {"id": f"c{index}", "prompt": "p", "expected": "yes", "response": answer}
            file.write(json.dumps(case) + "\n")
    return path


def make_store(folder: str, *, cases: int = 12, shards: int = 3) -> str:
    """Make a store under `folder`, and its input beside it."""
    given = write_cases(os.path.join(folder, "cases.jsonl"), cases)
    store = os.path.join(folder, "store")
    ensure_store(store, InitOptions(input=given, shards=shards), on_events=lambda events: None)
    return store


def farm(
    *arguments: str, before: Sequence[str] = (), timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `before` is put in front of it, as a tracer is."""
    return subprocess.run(
        [*before, *FARM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def supervise(
    store: str, *, command: Sequence[str] | None = None, **options: object
) -> tuple[Ending, list[Event]]:
    """Run a store in this process with real worker processes; give the ending and the events."""
    events: list[Event] = []
    settings = run_settings(store, RunSettings(**options))  # type: ignore[arg-type]
    if command is not None:
        settings = replace(settings, worker_command=[*command, *settings.worker_command[4:]])
    with DirectoryStore(store) as opened:
        return run(opened, settings, on_events=events.extend), events


def finish_by_hand(store: str, *, now_ms: int = 10**9) -> None:
    """Do all that is left, at a time when every lease has expired."""
    settings = HandSettings(worker_id="last", worker_pid=1, now_ms=now_ms)
    with DirectoryStore(store) as opened:
        while work_once(opened, settings, on_claim=lambda lease: None) is not None:
            pass


def done_set(store: str) -> Done:
    """Give what counts as done, with every receipt held against its digest and its cases."""
    with DirectoryStore(store) as opened:
        done: Done = {}
        for lease, shard in zip(opened.ledger().leases, opened.plan.shards, strict=True):
            if lease.receipt is None:
                continue
            receipt = read_receipt(opened.read_receipt(lease), lease.receipt, path=lease.shard)
            cases = opened.read_cases(shard)
            again = score_shard(cases, shard, scorer_of(opened.plan), worker_pid=0)
            assert list(receipt.cases) == list(again.cases), f"{lease.shard}: other verdicts"
            done[lease.shard] = (lease.version, lease.receipt.sha256)
        return done


def assert_complete(store: str) -> None:
    """Hold that a store is done, whole, and tells the same story in ledger and events."""
    with DirectoryStore(store) as opened:
        assert opened.ledger().complete
        places = [
            ShardCases(
                index=shard_index(shard.name),
                cases=shard.cases,
                sha256=shard.sha256,
                extents=shard.extents,
            )
            for shard in opened.plan.shards
        ]
        found = verify(opened, digests=lambda: dataset_digests(store, places), receipt_names=list)
    assert found.problems == ()
    assert len(done_set(store)) == len(opened.plan.shards)


def assert_one_line(text: str) -> None:
    """Hold that a failure was told as people read it: no traceback, no fault of farm."""
    assert "Traceback" not in text
    assert "unexpected" not in text
    said = [line for line in text.splitlines() if line.startswith("farm: ")]
    assert len(said) == 1, text


def temporaries(store: str) -> list[str]:
    """List what unfinished writers left behind."""
    return [
        os.path.join(folder, name)
        for folder, folders, names in os.walk(store)
        for name in (*names, *folders)
        if name.startswith(".")
    ]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command whose log is read line by line; whatever is left of it is killed."""
    process = subprocess.Popen(
        [*FARM, *arguments, "--log-format", "json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        with process:
            yield process
    finally:
        if process.poll() is None:
            process.kill()


def follow(process: subprocess.Popen[bytes]) -> Iterator[dict[str, object]]:
    """Give the events of a started command as they come."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"{"):
            yield json.loads(line)
