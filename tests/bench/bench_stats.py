"""How long the statistics take on boards of the promised size; prints one JSON object.

    python -m tests.bench.bench_stats            one core: set OMP_NUM_THREADS=1
    python -m tests.bench.bench_stats --check    exits 1 when a promise is not kept

Promises: 1,000,000 scores x 20 models, leaderboard with intervals and all 190 paired comparisons,
under 5 s and 2 GB; 10,000 resamples of 10,000 distinct scores under 0.7 s. Seconds are of the
process's own CPU, best of three for the short one, since the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from farm.stats.bootstrap import bootstrap_mean_ci
from farm.stats.evalrun import ScoreTable
from farm.stats.leaderboard import aggregate
from farm.stats.pairwise import pairwise_diffs

MODELS, TASKS = 20, 1_000_000


def cpu_seconds(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def peak_gigabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)  # bytes there, kilobytes here


def board_seconds(*, graded: bool) -> dict[str, float]:
    rng = np.random.default_rng(1)
    scores = rng.random((MODELS, TASKS))
    if not graded:
        scores = (scores < np.linspace(0.5, 0.7, MODELS)[:, None]).astype(np.float64)
    names = [f"model-{index}" for index in range(MODELS)]
    table = ScoreTable.of(scores, model_ids=names)
    spent = {
        "check_s": cpu_seconds(lambda: ScoreTable.of(scores, model_ids=names)),
        "leaderboard_s": cpu_seconds(lambda: aggregate(table)),
        "pairwise_s": cpu_seconds(lambda: pairwise_diffs(table)),
    }
    return {**spent, "total_s": sum(spent.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    scores = np.random.default_rng(2).random(10_000)
    yes_no, graded = board_seconds(graded=False), board_seconds(graded=True)
    resampled = min(cpu_seconds(lambda: bootstrap_mean_ci(scores)) for _ in range(3))
    peak = peak_gigabytes()
    figures = {
        "yes_no": yes_no,
        "graded": graded,
        "bootstrap_10k_of_10k_s": resampled,
        "peak_gb": peak,
    }
    print(json.dumps(figures, indent=1))
    slowest = max(yes_no["total_s"], graded["total_s"])
    kept = slowest < 5.0 and resampled < 0.7 and peak < 2.0
    return 0 if kept or not check else 1


if __name__ == "__main__":
    sys.exit(main())
