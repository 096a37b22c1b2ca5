"""`farm eval` against servers that nobody here wrote: a real model, and a judge of clients."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.shell import farm
from tests.adapters.test_real_servers import (
    LLMOCK,
    NOT_TOLD,
    TOLD_TO_WAIT,
    llama,
    needs_llama,
    needs_llmock,
    serving,
)
from tests.eval.asking import (
    FIXTURE,
    Evaluation,
    gone,
    kill,
    wait_until,
    worker_of,
    write_models,
    write_tasks,
)

GREEDY = {"temperature": 0, "max_tokens": 32}


def answered(evaluation: Evaluation) -> int:
    costs = evaluation.path("costs.jsonl")
    return costs.read_bytes().count(b'"how":"answered"') if costs.exists() else 0


@needs_llama
def test_a_real_model_is_evaluated_through_kills(tmp_path: Path) -> None:
    """The ten fixture tasks, twice each; killed with some answers there and some in flight.

    Four calls are out at a time, so a kill costs at most these. Every answer has the
    probabilities of its tokens, and programs it wrote were run isolated.
    """
    with llama() as (url, _):
        path = tmp_path / "models.toml"
        given = ", ".join(f"{name} = {value}" for name, value in GREEDY.items())
        path.write_text(
            f'[models.smollm2]\nadapter = "openai"\nmodel = "smollm2"\nbase_url = "{url}/v1"\n'
            f"logprobs = true\nconcurrency = 4\nseed = 1\nrequest = {{ {given} }}\n"
        )
        evaluation = Evaluation(
            store=str(tmp_path / "s"),
            tasks=FIXTURE,
            models=str(path),
            more=("--samples", "2", "--require-isolation", "os-enforced"),
        )
        for victims, enough in (("supervisor", 4), ("both", 10)):
            with evaluation.started() as process:
                wait_until(lambda enough=enough: answered(evaluation) >= enough)  # type: ignore[misc]
                worker = worker_of(process)
                kill(process.pid)
                if victims == "both":
                    kill(worker)
                gone(worker)
        done = evaluation.run("--stream", "-")
    assert done.code == 0, done.err
    assert len(done.lines) == 20
    for line in done.lines:
        assert line["outcome"] != "error"
        assert line["token_count"] >= 1
        assert line["confidence"] == pytest.approx(
            math.exp(-line["token_nll"] / line["token_count"])
        )
        assert line["usage"]["completion_tokens"] >= line["token_count"]
    spending = evaluation.spending()
    assert spending["calls"] - spending["wasted"] == 20
    assert spending["wasted"] <= 2 * 4
    report = evaluation.report()
    assert report["perplexity"]["smollm2"]["total_tokens"] == sum(
        line["token_count"] for line in done.lines
    )
    assert report["runs"]["smollm2"]["isolation"]["level"].startswith("os-enforced")
    verified = farm("verify", "--store", evaluation.store)
    assert verified.code == 0, verified.out


@needs_llmock
@pytest.mark.parametrize(("chaos", "stream"), [(TOLD_TO_WAIT, False), (NOT_TOLD, True)])
def test_the_judge_of_clients_finds_no_misbehaviour_of_a_run(
    chaos: list[str], stream: bool, tmp_path: Path
) -> None:
    """429 and 503 with Retry-After, 500s and broken streams at random; its verdict is strict."""
    command = [str(LLMOCK), "serve", "--host", "127.0.0.1", "--port", "{port}", *chaos]
    with serving(command, health="/health") as (url, _):
        evaluation = Evaluation(
            store=str(tmp_path / "s"),
            tasks=write_tasks(tmp_path, 60),
            models=write_models(tmp_path, url, stream=stream, attempts=8),
        )
        done = evaluation.run()
        assert done.code == 0, done.err
        verdict = subprocess.run(
            [str(LLMOCK), "report", "--strict", "--json", "--url", url],
            capture_output=True,
            text=True,
            timeout=60,
        )
    told = json.loads(verdict.stdout)
    assert verdict.returncode == 0, told["findings"]
    assert told["faults_injected"] >= 3  # at these rates fewer are next to impossible
    spending = evaluation.spending()
    assert told["attempts"] == spending["calls"]
    assert (spending["answered"], spending["wasted"]) == (60, 0)
    retried = [event for event in evaluation.events() if event["event"] == "call.retried"]
    assert len(retried) == spending["retries"] == spending["failed"]
