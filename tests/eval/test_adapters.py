"""Adapters other than HTTP through whole runs: programs, recorded answers, plugins, code tasks."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.acceptance.shell import farm
from tests.eval.asking import Evaluation, figures, write_tasks

PROGRAM = """
import json, os, sys, time
asked = json.load(sys.stdin)
with open({calls!r}, "a") as file:
    file.write(asked["task"]["task_id"] + "\\n")
number = int(asked["task"]["task_id"][1:])
if number == 3:
    sys.exit("no answer today")
print(json.dumps({{"text": "right" if number % 2 else "wrong", "confidence": 0.75,
                   "usage": {{"prompt_tokens": 2, "completion_tokens": 3}}}}))
"""
PLUGIN = """
import asyncio
import os
import sys
import threading
from farm.core.generation import Generation

begun, enough = [], threading.Event()  # calls of models with an option "first"

class Model:
    def __init__(self, name, options):
        self.model_id = name
        self.options = options
        if options.get("trouble") == "exits":
            sys.exit("no licence")
        if options.get("trouble") == "make":
            raise ValueError("no such weights")

    def generate(self, prompt, task):
        trouble = self.options.get("trouble", "")
        if "waits" in self.options:
            enough.wait(30)
        if trouble == "raises" and task.task_id == "t3":
            raise ZeroDivisionError("of the plugin")
        if trouble == "text":
            return "right"
        if trouble == "dies" and task.task_id == "t3":
            os._exit(7)
        return Generation(self.options.get("text", "right"))

class Slow(Model):
    async def generate(self, prompt, task, *, sample=0):
        if "first" in self.options:
            begun.append(task.task_id)
            if len(begun) == self.options["first"]:
                enough.set()
            await asyncio.sleep(0.5)  # still on its way when the other's fault is known
        return Generation(f"right")
"""
ENTRY_POINTS = """
[farm.adapters]
teatime = teatime_adapter:Model
slow = teatime_adapter:Slow
lost = teatime_adapter:Lost
"""


def tables(folder: Path, **models: dict[str, Any]) -> str:
    """Write a models file of any adapters."""
    path = folder / "models.toml"
    lines = []
    for name, settings in models.items():
        lines.append(f"[models.{name}]")
        for field, value in settings.items():
            if isinstance(value, dict):
                inner = ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items())
                lines.append(f"{field} = {{ {inner} }}")
            else:
                lines.append(f"{field} = {json.dumps(value)}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def test_a_program_is_run_once_for_each_answer(tmp_path: Path) -> None:
    """One that fails is asked again, then left; the others' answers are kept and counted."""
    calls = tmp_path / "calls"
    program = tmp_path / "model.py"
    program.write_text(PROGRAM.format(calls=str(calls)))
    settings = {
        "adapter": "command",
        "argv": [sys.executable, str(program)],
        "attempts": 2,
        "concurrency": 2,
    }
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 6),
        models=tables(tmp_path, program=settings),
        more=("--shards", "1"),
    )
    done = evaluation.run()
    assert done.code == 1
    assert "program|t3|0" in done.failures[-1]
    assert "no answer today" in done.failures[-1]
    assert sorted(calls.read_text().split()) == ["t0", "t1", "t2", "t3", "t3", "t4", "t5"]
    done = evaluation.run("--accept-errors")
    assert done.code == 0, done.err
    assert sorted(calls.read_text().split())[3:7] == ["t3"] * 4  # and none of the others again
    report = evaluation.report()
    counts = {word: n for word, n in report["outcomes"]["program"].items() if n}
    assert counts == {"correct": 2, "wrong": 3, "error": 1}
    assert evaluation.spending()["completion_tokens"] == 15
    assert report["calibration"]["program"]["brier"] == pytest.approx(
        (2 * 0.25**2 + 3 * 0.75**2) / 5
    )


def test_a_program_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    """As a wrong address does."""
    settings = {"adapter": "command", "argv": [str(tmp_path / "nothing")]}
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 40),
        models=tables(tmp_path, program=settings),
    )
    done = evaluation.run()
    assert done.code == 1
    assert "program:" in done.failures[-1]
    assert str(tmp_path / "nothing") in done.failures[-1]
    assert "check the program in argv" in done.failures[-1]


def test_recorded_answers_are_replayed_with_their_figures(tmp_path: Path) -> None:
    """From a file of one's own; a missing answer is an error, and never a wrong one."""
    recorded = tmp_path / "answers.jsonl"
    lines = [
        {"task": "t0", "sample": 0, "text": "right", "confidence": 0.5, "extra": "passed over"},
        {"task": "t1", "text": "wrong", "token_nll": 2.0, "token_count": 4},
        {"task": "t2", "text": "right", "finish_reason": "length"},
    ]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 4),
        models=tables(tmp_path, old={"adapter": "recorded", "file": str(recorded)}),
    )
    done = evaluation.run("--stream", "-")
    assert done.code == 0, done.err
    ended = {line["task_id"]: line["outcome"] for line in done.lines}
    assert ended == {"t0": "correct", "t1": "wrong", "t2": "correct", "t3": "error"}
    assert evaluation.report()["perplexity"]["old"]["total_tokens"] == 4


def test_what_was_not_judged_by_its_text_is_told_with_its_cause(tmp_path: Path) -> None:
    """The failure's kind and detail, or the finish reason: on the page, in JUnit, in the stream."""
    recorded = tmp_path / "answers.jsonl"
    lines = [
        {"task": "t0", "text": "I cannot", "finish_reason": "content_filter"},
        {"task": "t1", "text": "wro", "finish_reason": "length"},
        {"task": "t2", "text": "wrong", "finish_reason": "stop"},
    ]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 4),
        models=tables(tmp_path, old={"adapter": "recorded", "file": str(recorded)}),
    )
    done = evaluation.run("--stream", "-")
    assert done.code == 0, done.err
    # a row has the same names whatever became of its trial
    assert len({tuple(sorted(line)) for line in done.lines}) == 1
    last = next(line for line in done.lines if line["task_id"] == "t3")
    assert [last[name] for name in ("usage", "finish_reason")] == [None, None]
    told = {line["task_id"]: line["metadata"] for line in done.lines}
    failure = told["t3"]["error"]
    assert failure.startswith("unrecorded: ")
    assert [told[task].get("finish_reason") for task in ("t0", "t1", "t2")] == [
        "content_filter", "length", None,
    ]  # fmt: skip
    page = (tmp_path / "s" / "report.html").read_text("utf-8")
    packed = re.findall(r'id="cases-\d+">([^<]*)<', page)
    rows = [row for block in packed for row in json.loads(zlib.decompress(b64decode(block)))]
    assert sorted(row[4] for row in rows) == sorted([
        "exact_match@1: refused: finish reason 'content_filter'",
        "exact_match@1: truncated: finish reason 'length'",
        "exact_match@1: no target gives a score (wrong)",
        f"no answer came: {failure}",
    ])  # fmt: skip
    junit = farm("report", "--store", str(tmp_path / "s"), "--format", "junit")
    suite = ElementTree.fromstring(junit.out)[0]
    (error,) = suite.findall("testcase/error")
    assert (error.get("message"), error.text) == (
        f"error: {failure}; exact_match no score",
        failure,
    )
    assert [one.text for one in suite.findall("testcase/failure")] == [
        "finish reason 'content_filter'", "finish reason 'length'", None,
    ]  # fmt: skip


def test_the_stream_of_a_run_can_be_replayed(tmp_path: Path) -> None:
    """What one run streams, another takes as recorded answers, and ends in the same figures."""
    tasks = write_tasks(tmp_path, 6)
    first = Evaluation(
        store=str(tmp_path / "first"), tasks=tasks, models=tables(tmp_path, m={"adapter": "noisy"})
    )
    done = first.run("--stream", "-")
    assert done.code == 0, done.err
    recorded = tmp_path / "answers.jsonl"
    lines = [
        {
            "task": line["task_id"],
            "sample": line["sample"],
            "text": line["response"],
            "confidence": line["confidence"],
            "token_nll": line["token_nll"],
            "token_count": line["token_count"],
        }
        for line in done.lines
    ]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    models = tables(tmp_path, m={"adapter": "recorded", "file": str(recorded)})
    second = Evaluation(store=str(tmp_path / "second"), tasks=tasks, models=models)
    assert second.run().code == 0
    assert figures(second.report()) == figures(first.report())


@pytest.fixture
def plugin() -> Iterator[None]:
    """Install a package with adapters for as long as a test takes."""
    site = Path(sysconfig.get_path("purelib"))
    module, info = site / "teatime_adapter.py", site / "teatime-1.0.dist-info"
    module.write_text(PLUGIN)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: teatime\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    try:
        yield
    finally:
        module.unlink()
        for file in info.iterdir():
            file.unlink()
        info.rmdir()


@pytest.mark.usefixtures("plugin")
def test_adapters_of_another_package_are_asked_like_ours(tmp_path: Path) -> None:
    """By the name of their entry point; plain and async, with options of their own."""
    models = tables(
        tmp_path,
        plain={"adapter": "teatime", "options": {"text": "wrong"}},
        waits={"adapter": "slow"},
    )
    evaluation = Evaluation(
        store=str(tmp_path / "s"), tasks=write_tasks(tmp_path, 3), models=models
    )
    done = evaluation.run("--format", "json", "--samples", "2")
    assert done.code == 0, done.err
    assert {row["model_id"]: row["mean_score"] for row in done.json["leaderboard"]} == {
        "waits": 1.0,
        "plain": 0.0,
    }


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"adapter": "teatime", "options": {"trouble": "make"}}, ("ValueError: no such weights",)),
        ({"adapter": "teatime", "options": {"trouble": "exits"}}, ("SystemExit: no licence",)),
        ({"adapter": "lost"}, ("teatime_adapter", "Lost")),
    ],
)
def test_an_adapter_that_cannot_be_made_ends_the_run_in_one_line(
    settings: dict[str, Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    """Before anything is asked; the model is named, and no worker is started anew for it."""
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 3),
        models=tables(tmp_path, odd=settings, good={"adapter": "noisy"}),
    )
    done = evaluation.run()
    assert (done.code, len(done.failures)) == (1, 1), done.err
    for word in ("model 'odd'", *words):
        assert word in done.failures[0]
    told = evaluation.events()
    assert sum(event["event"] == "worker.spawned" for event in told) == 1
    assert not any(event["event"] == "shard.failed" for event in told)


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("raises", ("odd", "ZeroDivisionError", "of the plugin")),
        ("text", ("odd", "gave str, not a Generation")),
    ],
)
def test_an_adapter_that_raises_ends_the_run_and_costs_no_other_answer(
    trouble: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    """Its fault is named; no shard is charged for it, and what is answered is kept."""
    models = str(tmp_path / "models.toml")
    Path(models).write_text(
        f'[models.odd]\nadapter = "teatime"\noptions = {{ trouble = "{trouble}", waits = true }}\n'
        '[models.good]\nadapter = "slow"\noptions = { first = 8 }\n'
    )
    evaluation = Evaluation(
        store=str(tmp_path / "s"), tasks=write_tasks(tmp_path, 8), models=models
    )
    done = evaluation.run()
    assert done.code == 1
    assert len(done.failures) == 1, done.err
    for word in words:
        assert word in done.failures[0], done.failures
    assert sum(event["event"] == "worker.spawned" for event in evaluation.events()) == 1
    good = evaluation.spending("good")
    assert (good["calls"], good["answered"], good["wasted"]) == (8, 8, 0)
    status = farm("status", "--store", evaluation.store).json
    assert all(shard["lease"]["Worker"] == "" for shard in status["shards"])


@pytest.mark.usefixtures("plugin")
def test_a_shard_that_ends_its_workers_is_found_among_others_and_it_alone_is_charged(
    tmp_path: Path,
) -> None:
    """Twenty-four shards are open at a time; the one that kills is quarantined, and named."""
    models = tables(
        tmp_path, odd={"adapter": "teatime", "concurrency": 24, "options": {"trouble": "dies"}}
    )
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=write_tasks(tmp_path, 24),
        models=models,
        more=("--shards", "1024", "--max-attempts", "2"),
    )
    done = evaluation.run()
    assert done.code == 4, done.err
    events = evaluation.events()
    failed = {event["shard"] for event in events if event["event"] == "shard.failed"}
    (quarantined,) = [event["shard"] for event in events if event["event"] == "shard.quarantined"]
    assert failed == {quarantined}
    assert f"{quarantined} failed too often and is quarantined ({quarantined}: " in done.err
    assert "exit code 7" in done.failures[-1]
    counted = evaluation.report()["outcomes"]["odd"]
    assert (counted["correct"], counted["pending"]) == (23, 1)


def code_tasks(folder: Path) -> str:
    path = folder / "code.jsonl"
    base = {
        "category": "code_exec",
        "metric_name": "code_exec",
        "post_process": "extract_code_block",
        "targets": ["assert one() == 1"],
        "prompt": "Write one().",
    }
    records = [
        {**base, "task_id": "right"},
        {**base, "task_id": "wrong"},
        {**base, "task_id": "endless", "metadata": {"timeout_s": 0.5}},
        {**base, "task_id": "silent"},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_programs_are_run_isolated_and_within_their_tasks_time(tmp_path: Path) -> None:
    """The limit stands in the task's metadata; the report says what stood around programs."""
    recorded = tmp_path / "answers.jsonl"
    answers = {
        "right": "```python\ndef one():\n    return 1\n```",
        "wrong": "```python\ndef one():\n    return 2\n```",
        "endless": "```python\ndef one():\n    while True: pass\n```",
        "silent": "",
    }
    recorded.write_text(
        "".join(json.dumps({"task": task, "text": text}) + "\n" for task, text in answers.items())
    )
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=code_tasks(tmp_path),
        models=tables(tmp_path, coder={"adapter": "recorded", "file": str(recorded)}),
        more=("--require-isolation", "os-enforced"),
    )
    done = evaluation.run("--format", "json")
    assert done.code == 0, done.err
    ended = {case["id"].split("|")[1]: case["outcome"] for case in done.json["cases"]["coder"]}
    assert ended == {"right": "correct", "wrong": "wrong", "endless": "timeout", "silent": "empty"}
    assert done.json["runs"]["coder"]["isolation"]["level"].startswith("os-enforced")
    verified = farm("verify", "--store", evaluation.store)
    assert verified.code == 0, verified.out


def test_isolation_that_is_not_there_refuses_before_anything_is_asked(tmp_path: Path) -> None:
    """No answer is bought that could not be judged: the machine is looked at first."""
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=code_tasks(tmp_path),
        models=tables(tmp_path, m={"adapter": "rule_based"}),
    )
    done = evaluation.run("--require-isolation", "vm")
    assert done.code in (1, 2)
    assert not evaluation.path("costs.jsonl").exists()


def test_answers_of_other_settings_are_not_taken_from_a_shared_cache(tmp_path: Path) -> None:
    """What decides on an answer is part of what it is kept under, whatever the adapter."""
    cache = ("--cache", str(tmp_path / "shared.sqlite"))
    tasks = write_tasks(tmp_path, 8)
    recorded = tmp_path / "answers.jsonl"
    recorded.write_text("".join(json.dumps({"task": f"t{n}", "text": "right"}) + "\n"
                                for n in range(8)))  # fmt: skip
    kinds: tuple[dict[str, Any], ...] = (
        {"adapter": "noisy", "accuracy": 0.0},
        {"adapter": "noisy", "accuracy": 1.0},
        {"adapter": "recorded", "file": str(recorded)},
    )
    means = []
    for number, settings in enumerate(kinds):
        evaluation = Evaluation(
            store=str(tmp_path / f"s{number}"),
            tasks=tasks,
            models=tables(tmp_path, m=settings),
            more=cache,
        )
        done = evaluation.run("--format", "json", "--quiet")
        assert done.code == 0, done.err
        means.append(done.json["leaderboard"][0]["mean_score"])
    assert means == [0.0, 1.0, 1.0]
    # targets of the same name and prompt are another question to those who see them
    other = tmp_path / "other"
    other.mkdir()
    evaluation = Evaluation(
        store=str(tmp_path / "other-targets"),
        tasks=write_tasks(other, 8, targets=["else"]),
        models=tables(tmp_path, m={"adapter": "noisy", "accuracy": 1.0}),
        more=cache,
    )
    done = evaluation.run("--format", "json", "--quiet")
    assert done.code == 0, done.err
    assert done.json["leaderboard"][0]["mean_score"] == 1.0
