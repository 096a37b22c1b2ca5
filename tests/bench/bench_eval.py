"""Measure `farm eval` against an endpoint that answers at once, beside a plain loop and inspect_ai.

    python -m tests.bench.bench_eval [--trials 10000] [--concurrency 64] [--rounds 2]

(a) a plain aiohttp loop that posts a ready body and parses the reply: the floor;
(b) one process that asks, from its assignments to durable receipts: trials per CPU-second;
(c) the whole command, from tasks and models to the report and its page: CPU of all processes;
(d) inspect_ai on the same tasks with its mock model, which asks nobody: wall time, when it is
    installed (`pip install inspect-ai`).

The server's CPU is not counted. The best of the rounds stands: the machine only adds time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import uvloop

from farm.core.change import Claim
from farm.core.lease import Lease
from farm.core.message import Assignment, Batch, Message
from farm.runtime.asker_main import serve
from farm.wiring import open_store
from farm.wiring_eval import AskOptions, Selection, ensure_evaluation
from tests.bench.bench_client import PROMPT, SERVER, plain

INSPECT = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import exact
count, prompt, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dataset = MemoryDataset([Sample(input=f"{prompt}{n}", target="The answer is 42.", id=n)
                         for n in range(count)])
from inspect_ai.model import ModelOutput, ModelUsage, get_model
# without a usage of its own the mock counts tokens, by a vocabulary that it fetches
usage = ModelUsage(input_tokens=20, output_tokens=6, total_tokens=26)
def answers():
    while True:
        output = ModelOutput.from_content("mockllm/model", "The answer is 42.")
        output.usage = usage
        yield output
model = get_model("mockllm/model", custom_outputs=answers())
log = eval(Task(dataset=dataset, scorer=exact()), model=model, display="none", log_dir=folder,
           max_connections=int(sys.argv[4]), max_samples=int(sys.argv[4]))[0]
assert log.status == "success", log.error
"""


def write_inputs(folder: Path, url: str, *, trials: int, concurrency: int) -> tuple[str, str]:
    """Write tasks and models; give their paths."""
    tasks, models = folder / "tasks.jsonl", folder / "models.toml"
    lines = [
        {
            "task_id": f"t{number}",
            "category": "open",
            "prompt": f"{PROMPT}{number}",
            "targets": ["The answer is 42."],
            "metric_name": "exact_match",
            "post_process": "strip_whitespace",
        }
        for number in range(trials)
    ]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    models.write_text(
        f'[models.m]\nadapter = "openai"\nbase_url = "{url}/v1"\nmodel = "m"\n'
        f"concurrency = {concurrency}\nrequest = {{temperature = 0, max_tokens = 64}}\n"
    )
    return str(tasks), str(models)


def asking(folder: Path, url: str, *, trials: int, concurrency: int) -> float:
    """Ask everything in this process as a worker does; give its CPU seconds."""
    tasks, models = write_inputs(folder, url, trials=trials, concurrency=concurrency)
    path = str(folder / "store")
    ensure_evaluation(path, Selection(tasks=tasks, models=models), on_events=lambda events: None)
    with open_store(path) as store:
        outcome = store.commit([Claim(worker="bench", ttl=3_600_000, limit=1024)]).outcomes[0]
    assert isinstance(outcome, tuple)
    options = AskOptions(models=models, cache=f"{path}/g.sqlite", costs=f"{path}/c.jsonl")
    scored: list[Message] = []
    began = time.process_time()
    uvloop.run(serve(path, options, say=scored.append, batches=_one_batch(outcome)))
    spent = time.process_time() - began
    assert sum(type(message).__name__ == "Scored" for message in scored) == len(outcome)
    return spent


async def _one_batch(leases: tuple[Lease, ...]) -> AsyncIterator[Batch]:
    assignments = (Assignment(shard=x.shard, version=x.version, until=x.until) for x in leases)
    yield Batch(assignments=tuple(assignments))


def whole_command(folder: Path, url: str, *, trials: int, concurrency: int) -> tuple[float, float]:
    """Run `farm eval`; give CPU seconds of all its processes and wall seconds."""
    tasks, models = write_inputs(folder, url, trials=trials, concurrency=concurrency)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "farm", "eval", "--store", str(folder / "whole"),
         "--tasks", tasks, "--models", models, "--quiet"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def inspect_ai(folder: Path, *, trials: int, concurrency: int) -> float:
    """Run the same tasks in inspect_ai with its mock model; give wall seconds."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", INSPECT, str(trials), PROMPT, str(folder), str(concurrency)],
        check=True,
    )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    sizes = {"trials": options.trials, "concurrency": options.concurrency}
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    floor, asked, whole, walls, theirs = [], [], [], [], []
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                floor.append(asyncio.run(plain(url, **sizes)))
                asked.append(asking(Path(folder), url, **sizes))
                cpu, wall = whole_command(Path(folder), url, **sizes)
                whole.append(cpu)
                walls.append(wall)
                if find_spec("inspect_ai") is not None:
                    with contextlib.redirect_stdout(io.StringIO()):
                        theirs.append(inspect_ai(Path(folder), **sizes))
    finally:
        server.kill()
        server.wait()
    trials = options.trials
    print(f"{trials} trials, {options.concurrency} at a time, best of {options.rounds}")
    print(f"(a) plain aiohttp loop: {trials / min(floor):,.0f} per CPU-second")
    print(
        f"(b) asking, to durable receipts: {trials / min(asked):,.0f} per CPU-second, "
        f"{min(floor) / min(asked):.2f} of (a)"
    )
    print(
        f"(c) the whole command: {trials / min(whole):,.0f} per CPU-second, {min(walls):.1f} s of "
        "wall time"
    )
    if theirs:
        print(
            f"(d) inspect_ai's mock model: {min(theirs):.1f} s of wall time, farm takes "
            f"{min(walls) / min(theirs):.2f} of it"
        )
    else:
        print("(d) inspect_ai is not installed: nothing to compare with")


if __name__ == "__main__":
    main()
