"""Whatever form an input has, the same records have the same identity."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.shell import FARM, SAMPLE, environment, farm, strict_json
from tests.acceptance.test_walk import SAMPLE_SHA256

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RECORDS = json.loads(Path(SAMPLE).read_text("utf-8"))
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
ARRAY = json.dumps(RECORDS, indent=3).encode()


def digest_of(tmp_path: Path, name: str, data: bytes, *options: str) -> str:
    """Make a store of a file and give its dataset's digest."""
    given = tmp_path / name
    given.write_bytes(data)
    made = farm("init", "--store", str(tmp_path / "s"), "--input", str(given), "--quiet", *options)
    assert made.code == 0, made.err
    assert made.err == ""
    digest: str = made.json["dataset_sha256"]
    return digest


def reference_digest(records: list[dict[str, object]]) -> str:
    """SHA-256 of the compact array; for records without the five characters that are escaped."""
    return hashlib.sha256(json.dumps(records, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.json", ARRAY),
        ("in.jsonl", LINES),
        ("in.ndjson", b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n\r\n")),
        ("in.json.gz", gzip.compress(ARRAY)),
        ("in.jsonl.gz", gzip.compress(LINES[:100]) + gzip.compress(LINES[100:])),
        ("in.jsonl.zst", zstd.compress(LINES)),
        ("no ending", LINES[:-1]),
        ("packed", gzip.compress(ARRAY)),
    ],
)
def test_the_form_of_a_file_does_not_matter(tmp_path: Path, name: str, data: bytes) -> None:
    """Array, lines, BOM, CRLF, blank lines, gz of two members, zst, a name that says nothing."""
    assert digest_of(tmp_path, name, data) == SAMPLE_SHA256


@pytest.mark.parametrize("data", [ARRAY, LINES, gzip.compress(LINES)], ids=["array", "lines", "gz"])
def test_standard_input_is_read_and_need_not_be_given_again(tmp_path: Path, data: bytes) -> None:
    """`-` is spooled; a later call holds it against the store once more, or leaves it out."""
    store = str(tmp_path / "store")
    done = farm("run", "--store", store, "--input", "-", stdin=data)
    assert done.code == 0, done.err
    assert (done.json["dataset_sha256"], done.json["correct"]) == (SAMPLE_SHA256, 3)
    assert sorted(path.name for path in Path(store).iterdir()) == [
        "cases.jsonl", "cases.order", "events.jsonl", "ledger.json", "lock", "plan.json",
        "receipts", "run.lock",
    ]  # fmt: skip
    assert farm("init", "--store", store, "--input", "-", stdin=data).code == 0
    other = farm("init", "--store", store, "--input", "-", stdin=LINES.split(b"\n")[0])
    assert other.code == 1
    assert "dataset_sha256" in other.failures[0]


def test_a_pipe_is_an_input(tmp_path: Path) -> None:
    """As the shell's process substitution gives it: a path that can be read only once."""
    reader = subprocess.run(
        ["bash", "-c", f'"$0" init --store "$1" --quiet --input <(cat {SAMPLE})',
         FARM, str(tmp_path / "store")],
        capture_output=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert reader.stderr == b""
    assert strict_json(reader.stdout)["dataset_sha256"] == SAMPLE_SHA256


def test_map_and_ignore_extra_read_what_others_wrote(tmp_path: Path) -> None:
    """Dotted paths reach inside, list places by number; what is left over is dropped."""
    foreign = [
        {"doc": {"key": record["id"]}, "messages": [{"content": record["prompt"]}],
         "target": record["expected"], "output": {"text": record["response"]}, "model": "m"}
        for record in RECORDS
    ]  # fmt: skip
    data = json.dumps(foreign).encode()
    mapping = ("--map", "id=doc.key,prompt=messages.0.content,expected=target,response=output.text")
    assert digest_of(tmp_path, "in.json", data, *mapping, "--ignore-extra") == SAMPLE_SHA256
    strict = farm("init", "--store", str(tmp_path / "t"), "--input", str(tmp_path / "in.json"),
                  *mapping)  # fmt: skip
    assert strict.code == 1
    assert "index 0: 'model': is no field of a case" in strict.failures[0]


def test_auto_id_makes_ids_of_the_content(tmp_path: Path) -> None:
    """`sha256:` and the digest of the canonical record without its id."""
    bare = [{key: record[key] for key in ("prompt", "expected", "response")} for record in RECORDS]
    named = [
        {"id": "sha256:" + hashlib.sha256(json.dumps(record, separators=(",", ":")).encode())
         .hexdigest(), **record}
        for record in bare
    ]  # fmt: skip
    data = json.dumps(bare).encode()
    assert digest_of(tmp_path, "in.json", data, "--auto-id") == reference_digest(named)
    status = farm("status", "--store", str(tmp_path / "s")).json
    ids = {case_id for shard in status["shards"] for case_id in shard["case_ids"]}
    assert ids == {record["id"] for record in named}


def test_coerce_takes_numbers_and_booleans_for_text(tmp_path: Path) -> None:
    """As they are written: no digit is lost, and booleans are JSON's words."""
    data = b"""{"id":1,"prompt":true,"expected":0.10,"response":1e400}
        {"id":12345678901234567890123,"prompt":"p","expected":false,"response":-0}"""
    wanted: list[dict[str, object]] = [
        {"id": "1", "prompt": "true", "expected": "0.10", "response": "1e400"},
        {"id": "12345678901234567890123", "prompt": "p", "expected": "false", "response": "-0"},
    ]
    assert digest_of(tmp_path, "in.jsonl", data, "--coerce") == reference_digest(wanted)


def test_two_models_on_the_same_tasks_share_the_tasks_digest(tmp_path: Path) -> None:
    """tasks_sha256 covers id, prompt, expected and targets only."""
    found = []
    for name, response in (("one", "no"), ("two", "yes")):
        given = tmp_path / f"{name}.json"
        given.write_text(json.dumps([{**record, "response": response} for record in RECORDS]))
        made = farm("init", "--store", str(tmp_path / name), "--input", str(given), "--name", name)
        found.append(made.json)
    assert found[0]["tasks_sha256"] == found[1]["tasks_sha256"]
    assert found[0]["dataset_sha256"] != found[1]["dataset_sha256"]
    assert found[0]["run_id"] != found[1]["run_id"]
    assert (found[0]["models"], found[1]["models"]) == (["one"], ["two"])


def test_the_shard_count_follows_the_number_of_cases(tmp_path: Path) -> None:
    """4 up to 10,000 cases, then cases / 2,500; and above 10,000 single cases are left out."""
    given = tmp_path / "in.jsonl"
    with given.open("w") as file:
        for number in range(12_500):
            record = {"id": f"c{number}", "prompt": "p", "expected": "e", "response": "e"}
            file.write(json.dumps(record) + "\n")
    store = str(tmp_path / "store")
    done = farm("run", "--store", store, "--input", str(given), "--quiet")
    assert done.code == 0
    report = done.json
    assert (report["active_shards"], report["correct"], report["detail"]) == (5, 12_500, False)
    assert all("case_ids" not in shard for shard in report["shards"])
    assert all("Result" not in shard["lease"] for shard in report["shards"])
    assert all("cases" not in receipt for receipt in report["receipts"])
    detailed = farm("status", "--store", store, "--detail").json
    assert detailed["detail"] is True
    assert sum(len(shard["case_ids"]) for shard in detailed["shards"]) == 12_500
    brief = farm("status", "--store", store, "--no-detail").json
    assert {**report, "worker_events": None} == {**brief, "worker_events": None}
