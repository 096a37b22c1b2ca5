"""One long run under two hundred kills: the report is the one nobody interfered with."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from farm.core.change import Claim, Publish
from farm.core.receipt import encode_receipt, read_receipt, receipt_name, refer
from farm.report.render import to_json
from farm.runtime.standing import report_of
from farm.runtime.worker import score_shard, scorer_of
from farm.store.directory import DirectoryStore
from farm.store.memory import MemoryStore
from tests.faults.runs import assert_complete, farm, follow, make_store, started

CASES, SHARDS, KILLS, SUPERVISORS = 20_000, 256, 200, 20
ATTEMPT_FACTS = {"Worker", "Version", "Until", "Result", "attempts", "worker_pid"}
OPTIONS = (
    "--workers", "4", "--shards-per-process", "32", "--delay-ms", "40", "--max-attempts", "1000",
    "--deadline-s", "0",
)  # fmt: skip


class Killer:
    """Kills a worker or the supervisor whenever the run is further than the killing."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kills: Counter[str] = Counter()
        self.completed = 0
        self.alive: set[int] = set()

    def see(self, event: dict[str, Any]) -> None:
        if event["event"] == "worker.spawned":
            self.alive.add(event["worker_pid"])
        elif event["event"] in {"worker.exited", "worker.failed"}:
            self.alive.discard(event["worker_pid"])
        elif event["event"] == "run.started":
            self.alive.clear()
            self.completed = event["completed_shards"]
        self.completed += event["event"] == "shard.completed"

    def is_due(self) -> bool:
        killed = self.kills.total()
        behind = killed / KILLS <= self.completed / SHARDS * 1.5
        return killed < KILLS and bool(self.alive) and (behind or self.chance.random() < 0.1)

    def strike(self, supervisor: int) -> bool:
        """Kill one process; tell whether it was the supervisor."""
        left = KILLS - self.kills.total()
        if self.chance.random() < (SUPERVISORS - self.kills["supervisor"]) / left:
            os.kill(supervisor, signal.SIGKILL)
            self.kills["supervisor"] += 1
            return True
        worker = self.chance.choice(sorted(self.alive))
        self.alive.discard(worker)
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:  # it had just ended by itself
            return False
        self.kills["worker"] += 1
        return False


def run_under(killer: Killer, store: str) -> int | None:
    """Run until it ends or its supervisor is killed, which gives None."""
    with started("run", "--store", store, *OPTIONS) as running:
        for event in follow(running):
            killer.see(event)
            if killer.is_due() and killer.strike(running.pid):
                return None
        running.communicate()
        return running.returncode


def undisturbed(store: str) -> dict[str, Any]:
    """Give the report of the pure expression: every shard scored once, in memory."""
    with DirectoryStore(store) as opened:
        plan = opened.plan
        cases = {shard.name: opened.read_cases(shard) for shard in plan.shards}
    memory = MemoryStore(plan, cases=cases)
    for shard in plan.shards:
        memory.commit([Claim(worker="w", ttl=10**6)])
        receipt = score_shard(cases[shard.name], shard, scorer_of(plan), worker_pid=1)
        data = encode_receipt(receipt)
        memory.put_receipts({receipt_name(shard.name, 1): data})
        published = Publish(shard=shard.name, worker="w", version=1, receipt=refer(receipt, data))
        memory.commit([published])
    report: dict[str, Any] = json.loads(to_json(report_of(memory, detail=True)))
    return {key: without_attempts(report[key]) for key in without_attempts(report)}


def without_attempts(report: Any) -> Any:
    """Leave out what may differ between equal runs."""
    if isinstance(report, dict):
        return {
            key: without_attempts(value)
            for key, value in report.items()
            if key not in ATTEMPT_FACTS | {"worker_processes", "worker_events"}
        }
    return [without_attempts(value) for value in report] if isinstance(report, list) else report


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_hundred_kills_change_nothing_in_the_report(tmp_path: Path) -> None:
    store = make_store(str(tmp_path), cases=CASES, shards=SHARDS)
    killer = Killer(random.Random(20_000))
    code: int | None = None
    while code != 0:
        code = run_under(killer, store)
        # 1: four workers in a row were killed before they had begun, which looks like a fault
        assert code in {None, 0, 1}
    assert killer.kills == {"worker": KILLS - SUPERVISORS, "supervisor": SUPERVISORS}

    report = farm("status", "--store", store, "--detail")
    assert without_attempts(json.loads(report.stdout)) == undisturbed(store)
    assert_complete(store)
    with DirectoryStore(store) as opened:
        counted = Counter(
            case.id
            for lease in opened.ledger().leases
            if lease.receipt is not None
            for case in read_receipt(opened.read_receipt(lease), lease.receipt, path="").cases
        )
    assert counted == {f"c{index}": 1 for index in range(CASES)}
