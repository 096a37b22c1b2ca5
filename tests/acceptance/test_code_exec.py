"""Recorded programs from the prediction file to the report, with the installed command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from farm.runtime.casebook import case_rows
from farm.runtime.trials import recorded
from farm.sandbox import kernel
from farm.sandbox.runner import Sandbox
from farm.wiring import open_store
from tests.acceptance.shell import farm, fingerprint, strict_json

NEW_USER = 0x10000000  # CLONE_NEWUSER
ADD = "def add(a, b):\n    return a + b\n"
POINT = (
    "class Point:\n    def __init__(self, x): self.x = x\n"
    "    def __eq__(self, other): return self.x == other.x\n"
)
# id, response, assertions; then what becomes of it: outcome, score
CASES: tuple[tuple[str, str, tuple[str, ...], str, float], ...] = (
    ("right", f"Sure:\n```python\n{ADD}```", ("add(1, 2) == 3", "add(0, 0) == 0"), "correct", 1.0),
    ("half", "def add(a, b):\n    return 3\n", ("add(1, 2) == 3", "add(0, 0) == 0"), "wrong", 0.5),
    ("raises", "def add(a, b):\n    return c\n", ("add(1, 2) == 3",), "wrong", 0.0),
    ("broken", "```python\ndef add(a, b:\n```", ("add(1, 2) == 3",), "wrong", 0.0),
    ("denied", f"import subprocess\n{ADD}", ("add(1, 2) == 3",), "wrong", 0.0),
    ("forged", "import os\nos._exit(0)\n", ("add(1, 2) == 3",), "wrong", 0.0),
    ("blank", "  ", ("add(1, 2) == 3",), "empty", 0.0),
    ("prose", "I am sorry, I cannot do that.", ("add(1, 2) == 3",), "unparsed", 0.0),
    ("spoilt", ADD, ("add(1, 2 ==",), "unscorable", 0.0),
    ("trusted", POINT, ("Point(1) == Point(1)",), "correct", 1.0),
)


def predictions(folder: Path, *, cases: tuple[Any, ...] = CASES) -> str:
    path = folder / "programs.jsonl"
    records = [
        {"id": name, "prompt": "add two numbers", "response": response, "targets": list(assertions)}
        for name, response, assertions, *_ in cases
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """A report without the facts of its attempts."""
    kept = {key: value for key, value in report.items() if key != "worker_events"}
    del kept["worker_processes"]
    kept["shards"] = [shard["case_ids"] for shard in kept["shards"]]
    kept["receipts"] = [receipt["cases"] for receipt in kept["receipts"]]
    return kept


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A finished run of the cases, and its report."""
    folder = tmp_path_factory.mktemp("programs")
    store = str(folder / "store")
    given = ("--scorer", "code_exec", "--shards", "3", "--require-isolation", "os-enforced")
    done = farm("run", "--store", store, "--input", predictions(folder), *given)
    assert done.code == 0, done.err
    return store, done.json


def test_every_case_ends_as_its_program_did(finished: tuple[str, dict[str, Any]]) -> None:
    """Scores are shares of assertions; only what could not be judged is not scored."""
    _, report = finished
    judged = {one["id"]: one for receipt in report["receipts"] for one in receipt["cases"]}
    for name, _, _, outcome, score in CASES:
        assert (judged[name]["outcome"], judged[name]["score"]) == (outcome, score), name
    assert judged["trusted"]["trust"] == ["remote_eq"]
    assert "trust" not in judged["right"]
    assert report["accuracy"]["n"] == 9
    assert report["accuracy"]["value"] == 2 / 9
    # 1 + 1/2 + 1 over nine scored cases
    assert report["mean_score"] == 2.5 / 9


def test_the_isolation_in_force_stands_in_header_receipts_and_report(
    finished: tuple[str, dict[str, Any]],
) -> None:
    store, report = finished
    assert report["isolation"]["level"] in ("os-enforced", "os-enforced+ns")
    assert report["isolation"]["grading"] == "split"
    assert report["isolation"]["trust"] == ["remote_eq"]
    told = farm("events", "--store", store).lines
    header = [event["event"] for event in told[:3]]
    assert header == ["store.initialized", "run.started", "run.isolated"]
    assert told[2]["isolation"] == report["isolation"]["level"]
    receipts = [strict_json(path.read_bytes()) for path in Path(store, "receipts").iterdir()]
    levels = {made["isolation"]["level"] for made in receipts if "isolation" in made}
    assert levels == {report["isolation"]["level"]}
    assert farm("status", "--store", store).json["isolation"] == report["isolation"]


def test_reports_events_and_files_are_as_their_schemas_say(
    finished: tuple[str, dict[str, Any]],
) -> None:
    store, report = finished

    def hold(name: str, value: object) -> None:
        Draft202012Validator(farm("schema", name).json).validate(value)

    hold("report", report)
    hold("ledger", strict_json(Path(store, "ledger.json").read_bytes()))
    for event in farm("events", "--store", store).lines:
        hold("events", event)
    for path in Path(store, "receipts").iterdir():
        hold("receipt", strict_json(path.read_bytes()))


def test_verify_runs_the_programs_again(finished: tuple[str, dict[str, Any]]) -> None:
    store, _ = finished
    found = farm("verify", "--store", store)
    assert (found.code, found.json["problems"]) == (0, [])


def test_the_report_is_the_same_for_any_number_of_workers(
    finished: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    """No time, order or process stands in a verdict; one of the shards is done by hand."""
    store = str(tmp_path / "store")
    given = ("--store", store, "--scorer", "code_exec", "--shards", "3")
    farm("init", *given, "--input", predictions(tmp_path), "--quiet")
    by_hand = farm("worker", "--store", store, "--worker-id", "hand")
    assert by_hand.code == 0
    assert [line["claimed"] for line in by_hand.lines] == [True, True]
    done = farm("run", "--store", store, "--workers", "1")
    assert figures(done.json) == figures(finished[1])


def forbid_namespaces() -> None:
    """Make this process one whose kernel grants no further user namespace."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(NEW_USER)
    for name, line in (
        ("self/setgroups", "deny"),
        ("self/uid_map", f"{user} {user} 1"),
        ("self/gid_map", f"{group} {group} 1"),
        ("sys/user/max_user_namespaces", "0"),
    ):
        with open(f"/proc/{name}", "w") as file:
            file.write(line)


def test_what_the_machine_does_not_grant_is_refused_before_anything_is_claimed(
    tmp_path: Path,
) -> None:
    """Without user namespaces "os-enforced" is the best there is; the run does not degrade."""
    store = str(tmp_path / "store")
    given = ("--store", store, "--scorer", "code_exec")
    farm("init", *given, "--input", predictions(tmp_path, cases=CASES[:1]), "--quiet")
    before = fingerprint(store)
    wanted = ("--store", store, "--require-isolation", "os-enforced+ns")
    for command in (("run",), ("worker", "--worker-id", "hand"), ("verify",)):
        done = farm(*command, *wanted, before=forbid_namespaces)
        assert done.code == 1
        assert "isolation 'os-enforced' is all this machine grants" in done.failures[0]
    changed = {name for name, seen in fingerprint(store).items() if before.get(name) != seen}
    assert changed <= {"run.lock"}
    enough = ("run", "--store", store, "--require-isolation", "os-enforced")
    done = farm(*enough, before=forbid_namespaces)
    assert (done.code, done.json["isolation"]["level"]) == (0, "os-enforced")


def test_an_unknown_level_is_wrong_usage(tmp_path: Path) -> None:
    done = farm("run", "--store", str(tmp_path), "--require-isolation", "total")
    assert (done.code, "'total' is not one of" in done.err) == (2, True)


def test_a_store_of_texts_is_scored_anew_as_programs(tmp_path: Path) -> None:
    """`rescore` takes any scorer of farm's own; partial scores do not count as correct."""
    store, into = str(tmp_path / "store"), str(tmp_path / "again")
    given = predictions(tmp_path, cases=CASES[:2])
    assert farm("run", "--store", store, "--input", given, "--quiet").json["correct"] == 0
    done = farm("rescore", "--store", store, "--scorer", "code_exec", "--into", into, "--quiet")
    assert (done.code, done.json["became_correct"]) == (0, 1)
    assert farm("status", "--store", into).json["mean_score"] == 0.75


def test_a_page_tells_of_each_program_and_with_another_run_of_each_assertion(
    finished: tuple[str, dict[str, Any]],
) -> None:
    """The code that was taken out; the share that passed, or how every assertion ended and why."""
    with open_store(finished[0]) as store:
        run = recorded(store, model="m")
        rows = {row.id: row for row in case_rows([run])}
        with Sandbox() as sandbox:
            again = {row.id: row for row in case_rows([run], programs={"code_exec": sandbox})}
    assert rows["right"].extracted == ADD
    assert rows["half"].rule == "code_exec@2: 1 of 2 assertions passed"
    assert rows["half"].steps == ("assertion: 'add(1, 2) == 3'", "assertion: 'add(0, 0) == 0'")
    assert rows["prose"].rule == "code_exec@2: the response holds no program"
    assert again["half"].steps == (
        "pass: 'add(1, 2) == 3'",
        "assertion_fail ('the expression is false'): 'add(0, 0) == 0'",
    )
    assert again["denied"].rule.startswith("code_exec@2: 0 of 1 assertion passed; denied import")


def test_a_page_can_run_programs_and_other_formats_cannot(
    finished: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    page = str(tmp_path / "page.html")
    given = ("--store", finished[0], "--run-programs")
    assert farm("report", *given, "--format", "html", "--output", page).code == 0
    done = farm("report", *given, "--format", "json")
    assert (done.code, "only --format html" in done.err) == (2, True)


def test_time_and_imports_stand_in_the_scorers_name(tmp_path: Path) -> None:
    """They change verdicts: a run's identity has them, and a verification runs alike."""
    store = str(tmp_path / "store")
    sleeper = "import time\ndef add(a, b):\n    time.sleep(0.8)\n    return a + b\n"
    shell = f"import subprocess\n{ADD}"
    cases = (("late", sleeper, ("add(1, 2) == 3",)), ("shell", shell, ("add(1, 2) == 3",)))
    given = ("--input", predictions(tmp_path, cases=cases), "--scorer", "code_exec@0.5s,allow")
    done = farm("run", "--store", store, *given)
    judged = {one["id"]: one["outcome"] for part in done.json["receipts"] for one in part["cases"]}
    assert judged == {"late": "timeout", "shell": "correct"}
    assert done.json["scorer"] == {"name": "code_exec@0.5s,allow", "version": "2"}
    assert farm("verify", "--store", store).json["ok"] is True
    other = farm("run", "--store", store, *given[:2], "--scorer", "code_exec")
    assert other.code == 1


def test_one_program_is_scored_and_explained_from_the_shell() -> None:
    given = ("score", "--metric", "code_exec", "--prediction", ADD, "--target", "add(1, 2) == 4")
    assert farm(*given).json["score"] == 0.0
    told = farm(*given, "--explain").json
    assert (told["code"], told["rule"]) == (ADD, "0 of 1 assertion passed")
    assert told["assertions"] == [
        {"text": "add(1, 2) == 4", "outcome": "assertion_fail", "detail": "the expression is false"}
    ]
    assert told["isolation"]["grading"] == "split"
    wrong = farm(*given, "--post-process", "lower")
    assert (wrong.code, "takes the program out of the prediction" in wrong.err) == (2, True)
