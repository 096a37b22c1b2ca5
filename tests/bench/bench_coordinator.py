"""Measure the main job beside a plain loop, in one run, as ratios.

    python tests/bench/bench_coordinator.py [--records 1000000] [--rounds 3] [--skip-large]

(a) `farm run` from nothing to the report with 2 workers, against one process that parses each
    line with orjson and compares the normalised strings in memory;
(b) 10,000 records at 4, 64, 256 and 1,024 shards, slowest against fastest;
(c) the largest process of (a), and of five times as many records;
(d) CPU of `farm --help` and of a worker process until it is ready, beside a bare interpreter.

Each figure is the best of the rounds: the machine only ever adds time. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

PLAIN_LOOP = """
import sys, orjson
right = 0
with open(sys.argv[1], "rb") as file:
    for line in file:
        record = orjson.loads(line)
        expected = " ".join(record["expected"].lower().split())
        right += expected == " ".join(record["response"].lower().split())
print(right)
"""
WORDS = ("alpha", "beta", "gamma", "the", "of", "retry", "lease", "shard", "yes", "no", "42")


def write_records(path: Path, count: int) -> None:
    """Write records of about 130 bytes: two fifths equal, a third equal but for case."""
    import orjson

    rng = random.Random(1)
    with path.open("wb") as file:
        for index in range(count):
            expected = " ".join(rng.choices(WORDS, k=3))
            draw = rng.random()
            response = expected.upper() if draw < 0.3 else expected if draw < 0.72 else "wrong"
            record = {
                "id": f"case-{index:07d}",
                "prompt": " ".join(rng.choices(WORDS, k=6)),
                "expected": expected,
                "response": response,
            }
            file.write(orjson.dumps(record) + b"\n")


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; give wall seconds and the CPU milliseconds of it and its children."""
    before = os.times()
    began = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    after = os.times()
    cpu = after.children_user + after.children_system
    return wall, (cpu - before.children_user - before.children_system) * 1000


def cpu_ms(command: Sequence[str]) -> float:
    """Run a command; give the CPU milliseconds of it and its children."""
    return timed(command)[1]


def farm(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("farm")), *arguments]


def run_command(store: Path, records: Path, more: Sequence[str] = ()) -> list[str]:
    return farm(
        "run", "--store", str(store), "--input", str(records), "--workers", "2",
        "--deadline-s", "0", "--quiet", *more,
    )  # fmt: skip


def best(rounds: int, once: Callable[[], float]) -> float:
    return min(once() for _ in range(rounds))


def fresh(command: Callable[[Path], list[str]], folder: Path) -> Callable[[], float]:
    """Make a function that runs a command on a new store and gives its wall time."""

    def once() -> float:
        store = folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        return timed(command(store))[0]

    return once


def peak_mib(command: Sequence[str]) -> float:
    """Give the largest resident set of a command or of any process under it, in MiB."""
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    # the largest child of a child is counted once that one was waited for, as ours are
    done = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1024


def against_plain_loop(folder: Path, count: int, rounds: int) -> None:
    records = folder / "records.jsonl"
    write_records(records, count)
    size = records.stat().st_size / 1e6
    plain: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):  # in turn, so that a slow spell hits both
        plain.append(timed([sys.executable, "-c", PLAIN_LOOP, str(records)])[0])
        ours.append(fresh(partial(run_command, records=records), folder)())
    print(f"(a) {count:,} records, {size:.0f} MB: plain loop {min(plain):.2f} s, "
          f"farm run {min(ours):.2f} s, ratio {min(ours) / min(plain):.2f}")  # fmt: skip
    for loop, run in zip(plain, ours, strict=True):
        print(f"    round: {loop:.2f} s, {run:.2f} s, ratio {run / loop:.2f}")


def over_shards(folder: Path, rounds: int) -> None:
    records = folder / "ten-thousand.jsonl"
    write_records(records, 10_000)
    times: dict[int, float] = {}
    for shards in (4, 64, 256, 1024):
        more = ("--shards", str(shards))
        times[shards] = best(
            rounds, fresh(partial(run_command, records=records, more=more), folder)
        )
    shown = ", ".join(f"{shards}: {wall:.2f} s" for shards, wall in times.items())
    print(f"(b) 10,000 records by shards: {shown}; "
          f"slowest / fastest {max(times.values()) / min(times.values()):.2f}")  # fmt: skip


def memory(folder: Path, counts: Sequence[int]) -> None:
    for count in counts:
        records = folder / "records.jsonl"
        write_records(records, count)
        store = folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        peak = peak_mib(run_command(store, records))
        print(f"(c) {count:,} records: largest process {peak:.0f} MiB")


def start_up(folder: Path, rounds: int) -> None:
    store = folder / "ready"
    records = folder / "ten.jsonl"
    write_records(records, 10)
    timed(farm("init", "--store", str(store), "--input", str(records), "--quiet"))
    worker = [
        sys.executable, "-I", "-m", "farm.runtime.worker_main",
        "--store", str(store), "--parent", str(os.getpid()),
    ]  # fmt: skip
    commands = {
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
        "farm --help": farm("--help"),
        "worker, ready and out": worker,
    }
    bare = 0.0
    for name, command in commands.items():
        cpu = best(rounds * 5, partial(cpu_ms, command))
        bare = bare or cpu
        print(f"(d) {name}: {cpu:.0f} ms of CPU, {cpu / bare:.1f} times the interpreter")


def main(arguments: Iterator[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--skip-large", action="store_true", help="leave out the second part of (c)"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as name:
        folder = Path(name)
        start_up(folder, options.rounds)
        over_shards(folder, options.rounds)
        against_plain_loop(folder, options.records, options.rounds)
        factor = (1,) if options.skip_large else (1, 5)
        memory(folder, [options.records * times for times in factor])


if __name__ == "__main__":
    main()
