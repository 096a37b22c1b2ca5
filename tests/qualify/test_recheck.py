"""`farm verify` on a qualification, and what commands for predictions say to one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.qualify.servers import farm, scripted_server, write_config, write_lease


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two cells, cold and primed, one stream each."""
    folder = tmp_path_factory.mktemp("finished")
    with scripted_server("--pause-s", "0") as url:
        done = farm(
            "qualify", "run", write_config(folder, url=url, concurrency=[1]),
            "--lease", write_lease(folder), "--output", str(folder / "out"), "--quiet",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "out"


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def fixture_of(run: Path) -> Path:
    (path,) = (run / "fixtures").iterdir()
    return path


def test_a_run_that_nobody_touched_holds(finished: Path, tmp_path: Path) -> None:
    """Nothing is written and no server is asked: it is gone by now."""
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    done = farm("verify", "--store", str(finished))
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert (found["ok"], found["problems"], found["receipts"]) == (True, [], 2)
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*")}


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a faster first token in the results": (
        lambda run: edited(run / "results.jsonl", '"ttft_any_s":0.', '"ttft_any_s":0.0'),
        "results.jsonl: is not what the cells give",
    ),
    "a faster first token in the cell": (
        lambda run: edited(run / "cells/shard-0.v1.json", '"ttft_any_s":0.', '"ttft_any_s":0.0'),
        "shard-0.v1.json: its verdicts or its digest are not those of the cell's record",
    ),
    "a failed task made right": (
        lambda run: edited(run / "cells/shard-1.v1.json", '"success":true', '"success":false'),
        "shard-1.v1.json: its verdicts or its digest",
    ),
    "a cell taken away": (
        lambda run: (run / "cells/shard-1.v1.json").unlink(),
        "missing, and the ledger counts on it",
    ),
    "a record that is none": (
        lambda run: (run / "cells/shard-1.v1.json").write_text("{}"),
        "not the record of a cell",
    ),
    "another archive": (
        lambda run: edited(fixture_of(run), "def ", "def the_"),
        "its messages are not what its seed gives",
    ),
    "a fixture taken away": (lambda run: fixture_of(run).unlink(), "json: missing"),
    "another configuration in the provenance": (
        lambda run: edited(run / "provenance.json", '"repeats": 1', '"repeats": 2'),
        "its configuration is not the one of the plan",
    ),
    "another model's hash shown": (
        lambda run: edited(run / "provenance.json", "1" * 64, "3" * 64),
        "what it shows is not what its configuration says",
    ),
    "no provenance": (lambda run: (run / "provenance.json").unlink(), "provenance.json: missing"),
    "a provenance that is none": (
        lambda run: (run / "provenance.json").write_text("[]"),
        "not a JSON object",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_by_hand_is_named(finished: Path, tmp_path: Path, change: str) -> None:
    """Exit 1 and the file's name; a run is evidence only while its files bear each other out."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    act, complaint = CHANGES[change]
    act(run)
    done = farm("verify", "--store", str(run))
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    problems = json.loads(done.stdout)["problems"]
    assert any(complaint in problem for problem in problems), done.stdout
    assert len(problems) == len(set(problems))  # also of a fixture that several cells asked


def test_results_edited_by_hand_are_made_again_by_the_next_run(
    finished: Path, tmp_path: Path
) -> None:
    """They are derived from the cells; the same command puts them right, with no server there."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    whole = (run / "results.jsonl").read_bytes()
    (run / "results.jsonl").write_bytes(whole[:100])
    folder = finished.parent
    done = farm(
        "qualify", "run", str(folder / "config.json"), "--lease", str(folder / "lease.json"),
        "--output", str(run), "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (run / "results.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--store", "{}"),
        ("report", "--store", "{}"),
        ("run", "--store", "{}"),
        ("worker", "--store", "{}", "--worker-id", "w"),
        ("compare", "{}", "{}"),
        ("gate", "--store", "{}", "--min-accuracy", "0.5"),
        ("rescore", "--store", "{}", "--scorer", "f1", "--into", "{}-again"),
        ("requeue", "--store", "{}", "--shard", "shard-0"),
    ],
)
def test_commands_for_predictions_say_what_it_is_and_who_can_read_it(
    finished: Path, arguments: tuple[str, ...]
) -> None:
    """Neither an unknown metric nor figures that would mean something else; nothing is changed."""
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    done = farm(*(argument.format(finished) for argument in arguments))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "is a qualification, not a run of predictions" in done.stderr
    assert "farm qualify summary" in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*")}


def test_its_events_are_read_as_those_of_any_run(finished: Path) -> None:
    """A qualification is a run of cells."""
    done = farm("events", "--store", str(finished))
    assert done.returncode == 0, done.stderr
    told = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert told.count("shard.completed") == 2
    assert told[-1] == "run.completed"
