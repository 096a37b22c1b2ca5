"""`farm schema` describes what farm really reads and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.shell import SAMPLE, farm, initialized, started, strict_json, wait_for

NAMES = ("predictions", "report", "events", "plan", "ledger", "receipt", "worker-stdin",
         "worker-stdout")  # fmt: skip


@pytest.fixture(scope="module")
def schemas() -> dict[str, Draft202012Validator]:
    """Every schema the command prints, itself checked against the dialect it names."""
    found = {}
    for name in NAMES:
        schema = farm("schema", name).json
        Draft202012Validator.check_schema(schema)
        found[name] = Draft202012Validator(schema)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A finished run of the sample that was drained once, so that its events are of many kinds."""
    path = str(tmp_path_factory.mktemp("schemas") / "store")
    given = ("run", "--store", path, "--input", SAMPLE, "--shards", "4")
    with started(*given, "--delay-ms", "60000", "--grace-s", "0") as run:
        wait_for(run, "worker.spawned")
        run.terminate()
        run.wait()
    assert farm(*given).code == 0
    return path


def hold(schema: Draft202012Validator, value: object) -> None:
    problems = [error.message for error in schema.iter_errors(value)]
    assert problems == [], value


def refuse(schema: Draft202012Validator, value: object) -> None:
    assert not schema.is_valid(value), value


def test_the_sample_is_as_the_predictions_schema_says(schemas: dict[str, Any]) -> None:
    schema = schemas["predictions"]
    records = json.loads(Path(SAMPLE).read_text("utf-8"))
    for record in records:
        hold(schema, record)
    hold(schema, {"id": "a", "prompt": "", "response": "", "targets": ["x"], "sample": 0})
    refuse(schema, {"id": "a", "prompt": "", "response": ""})
    refuse(schema, {**records[0], "score": 1})
    refuse(schema, {**records[0], "id": ""})
    refuse(schema, {**records[0], "expected": 1})


def test_reports_are_as_their_schema_says(
    schemas: dict[str, Any], store: str, tmp_path: Path
) -> None:
    """Of a store that is new, pending, complete; of `run`, `init` and `status`; with no detail."""
    schema = schemas["report"]
    new = farm("init", "--store", str(tmp_path / "new"), "--input", SAMPLE, "--name", "m").json
    hold(schema, new)
    fresh = initialized(tmp_path, shards=1)
    claim = ("worker", "--store", fresh, "--worker-id", "w", "--crash-after-claim")
    assert farm(*claim).code == 86
    pending = farm("run", "--store", fresh)
    assert pending.code == 1
    hold(schema, pending.json)
    complete = farm("run", "--store", store).json
    hold(schema, complete)
    hold(schema, farm("status", "--store", store).json)
    brief = farm("status", "--store", store, "--no-detail").json
    hold(schema, brief)
    assert "case_ids" not in brief["shards"][0]
    refuse(schema, {key: value for key, value in complete.items() if key != "run_id"})
    refuse(schema, {**complete, "complete": 1})


def test_demo_snapshots_are_reports(schemas: dict[str, Any]) -> None:
    for line in farm("demo").lines:
        hold(schemas["report"], line["snapshot"])


def test_every_event_line_is_as_its_schema_says(schemas: dict[str, Any], store: str) -> None:
    schema = schemas["events"]
    told = farm("events", "--store", store).lines
    for event in told:
        hold(schema, event)
    kinds = {event["event"] for event in told}
    assert kinds >= {
        "store.initialized", "run.started", "shard.claimed", "worker.spawned", "run.draining",
        "shard.released", "worker.exited", "run.interrupted", "shard.completed", "run.completed",
    }  # fmt: skip
    refuse(schema, {**told[0], "surprise": 1})
    refuse(schema, {**told[0], "event": "store.forgotten"})


def test_files_of_a_store_are_as_their_schemas_say(schemas: dict[str, Any], store: str) -> None:
    """plan.json, ledger.json with its checksum, each receipt."""
    for name in ("plan", "ledger"):
        value = strict_json((Path(store) / f"{name}.json").read_bytes())
        hold(schemas[name], value)
        refuse(schemas[name], {**value, "surprise": 1})
    receipts = sorted((Path(store) / "receipts").iterdir())
    assert len(receipts) == 4
    for path in receipts:
        hold(schemas["receipt"], strict_json(path.read_bytes()))


def test_worker_lines_are_as_their_schemas_say(schemas: dict[str, Any], tmp_path: Path) -> None:
    """A worker driven by hand: ready, started, scored for each shard; end of input ends it."""
    store = initialized(tmp_path, shards=2)
    batch = {"assignments": [{"shard": "shard-0", "version": 1, "until": 9},
                             {"shard": "shard-1", "version": 1, "until": 9}]}  # fmt: skip
    hold(schemas["worker-stdin"], batch)
    worker = subprocess.run(
        [sys.executable, "-I", "-m", "farm.runtime.worker_main", "--store", store,
         "--parent", str(os.getpid())],
        input=json.dumps(batch).encode() + b"\n",
        capture_output=True,
        timeout=30,
        check=False,
    )  # fmt: skip
    assert (worker.returncode, worker.stderr) == (0, b"")
    said = [strict_json(line) for line in worker.stdout.splitlines()]
    for message in said:
        hold(schemas["worker-stdout"], message)
    assert [message["event"] for message in said] == [
        "worker.ready", "shard.started", "shard.started", "shard.scored", "shard.scored",
    ]  # fmt: skip
    refuse(schemas["worker-stdout"], {**said[0], "event": "worker.bored"})


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"assignments":[{"shard":"shard-0"}]}\n', b"{}"])
def test_a_worker_refuses_a_line_that_is_no_batch(
    schemas: dict[str, Any], tmp_path: Path, line: bytes
) -> None:
    """It says why in a message of the schema, on stdout, and ends with 1."""
    worker = subprocess.run(
        [sys.executable, "-I", "-m", "farm.runtime.worker_main",
         "--store", initialized(tmp_path, shards=1), "--parent", str(os.getpid())],
        input=line, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert worker.returncode == 1
    ready, stopped = (strict_json(said) for said in worker.stdout.splitlines())
    hold(schemas["worker-stdout"], stopped)
    assert (ready["event"], stopped["event"]) == ("worker.ready", "worker.stopped")
