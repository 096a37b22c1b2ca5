"""Whatever happens on the way, the report is the pure expression of plan and cases.

The processes are real, and so are the kills: at a random event of the stream a worker or the
supervisor gets SIGKILL, and then the same command is given again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from farm.core.canonical import DatasetDigest, canonical
from farm.core.case import Case
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.partition import bucket, shard_name
from farm.core.plan import Identity, Plan, ScorerName, Shard, make_plan
from farm.core.receipt import encode_receipt, refer
from farm.report.build import Detail, build
from farm.report.render import to_json
from farm.runtime.worker import score_shard, scorer_of
from tests.acceptance.shell import farm, log_of, started, strict_json

SEEDS = range(14)
_TEXTS = ("yes", "no", " Yes ", "", "  ", "né \u2028<&>", "a\tb\n", "\x00\x1b[31m", "長い" * 9)


def random_cases(chance: random.Random) -> list[Case]:
    """Cases of every outcome, with texts that JSON, HTML and terminals stumble over."""
    count = chance.choice([1, 2, 7, 60, 400])
    return [
        Case(
            id=f"{chance.choice(_TEXTS)}{number}",
            prompt=chance.choice(_TEXTS),
            expected=chance.choice([text for text in _TEXTS if text]),
            response=chance.choice(_TEXTS),
        )
        for number in range(count)
    ]


def planned(cases: list[Case], shards: int) -> tuple[Plan, dict[str, bytes]]:
    """The plan of a run and each shard's records, made without a store."""
    digest = DatasetDigest()
    digest.update([canonical(case) for case in cases])
    records: dict[int, list[Case]] = {}
    for case in cases:
        records.setdefault(bucket(case.id, shards), []).append(case)
    texts = {
        shard_name(index): b"".join(canonical(case) + b"\n" for case in records[index])
        for index in sorted(records)
    }
    plan = make_plan(
        identity=Identity(
            dataset_sha256=digest.dataset_sha256,
            shards=shards,
            scorer=ScorerName(name="normalized_match", version="1"),
        ),
        tasks_sha256=digest.tasks_sha256,
        cases=len(cases),
        shards=tuple(
            Shard(
                name=shard_name(index),
                cases=len(records[index]),
                sha256=sha256(texts[shard_name(index)]).hexdigest(),
            )
            for index in sorted(records)
        ),
    )
    return plan, texts


def expected_report(cases: list[Case], shards: int) -> dict[str, Any]:
    """The whole run as one expression: build(plan, [score_shard(s) for s in plan.shards])."""
    plan, texts = planned(cases, shards)
    scorer = scorer_of(plan)
    receipts = {
        shard.name: score_shard(texts[shard.name], shard, scorer, worker_pid=1)
        for shard in plan.shards
    }
    encoded = {name: encode_receipt(receipt) for name, receipt in receipts.items()}
    leases = tuple(
        Lease(shard=name, worker="w", version=1, receipt=refer(receipt, encoded[name]))
        for name, receipt in receipts.items()
    )
    decode = msgspec.json.Decoder(Case).decode
    report = build(
        plan,
        Ledger(run_id=plan.run_id, leases=leases),
        detail=Detail(
            case_ids={
                name: [decode(line).id for line in text.split(b"\n")[:-1]]
                for name, text in texts.items()
            },
            receipts=receipts,
            texts=encoded,
        ),
        scores=[case.score for receipt in receipts.values() for case in receipt.cases],
    )
    found: dict[str, Any] = strict_json(to_json(report))
    return found


def without_attempts(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what may differ: pids, owners, versions, expiries, charged attempts."""
    attempts = {"worker_processes", "worker_events"}
    report = {key: value for key, value in report.items() if key not in attempts}
    shards = []
    for shard in report["shards"]:
        lease = {key: shard["lease"][key] for key in ("Shard", "Done")}
        result = strict_json(shard["lease"]["Result"])
        del result["worker_pid"]
        kept = {key: value for key, value in shard.items() if key != "attempts"}
        shards.append({**kept, "lease": {**lease, "Result": result}})
    receipts = [
        {key: value for key, value in receipt.items() if key != "worker_pid"}
        for receipt in report["receipts"]
    ]
    return {**report, "shards": shards, "receipts": receipts}


def kill_at(victim: str, moment: int, *command: str) -> bool:
    """Start a run and kill a process of it at its `moment`-th event; tell whether it came to it."""
    with started(*command) as run:
        workers: list[int] = []
        for seen, event in enumerate(log_of(run), start=1):
            if event["event"] == "worker.spawned":
                workers.append(event["worker_pid"])
            if event["event"] in ("worker.exited", "worker.failed"):
                workers.remove(event["worker_pid"])
            if seen < moment or (victim == "worker" and not workers):
                continue
            if victim == "supervisor":
                run.kill()
                return True
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[-1], signal.SIGKILL)
            run.communicate(timeout=60)
            assert run.returncode == 0
            return True
        run.communicate(timeout=60)
        assert run.returncode == 0
        return False


def tried(folder: Path, seed: int) -> bool:
    """One random run with one random kill, held against the expression; was anything killed?"""
    chance = random.Random(seed)
    cases = random_cases(chance)
    shards = chance.choice([1, 2, 3, 16, 100, 1024])
    given = folder / f"{seed}.jsonl"
    given.write_bytes(b"".join(msgspec.json.encode(case) + b"\n" for case in cases))
    store = str(folder / f"{seed}")
    command = ("run", "--store", store, "--input", str(given), "--shards", str(shards),
               "--workers", str(chance.randint(1, 8)))  # fmt: skip
    victim = chance.choice(["worker", "supervisor"])
    killed = kill_at(victim, chance.randint(2, 6 + 2 * min(shards, len(cases))), *command)
    again = farm(*command)
    assert again.code == 0, again.err
    assert without_attempts(again.json) == without_attempts(expected_report(cases, shards))
    verified = farm("verify", "--store", store)
    assert verified.json["problems"] == []
    events = farm("events", "--store", store).lines
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    completed = [event["shard"] for event in events if event["event"] == "shard.completed"]
    assert sorted(completed) == sorted(shard["lease"]["Shard"] for shard in again.json["shards"])
    return killed


def test_a_run_that_was_killed_and_resumed_is_the_pure_expression(tmp_path: Path) -> None:
    """For every seed: workers 1 to 8, shards 1 to 1024, SIGKILL of one process, the same call."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        killed = list(pool.map(lambda seed: tried(tmp_path, seed), SEEDS))
    assert sum(killed) > len(SEEDS) // 2  # else the kills come too late to prove anything


def test_the_expression_is_not_blind(tmp_path: Path) -> None:
    """One response more or less is another report, so equality above means something."""
    chance = random.Random(3)
    cases = random_cases(chance)
    other = [*cases[:-1], msgspec.structs.replace(cases[-1], response="something else")]
    one, two = expected_report(cases, 3), expected_report(other, 3)
    assert without_attempts(one) != without_attempts(two)
    assert json.dumps(one) != json.dumps(two)
