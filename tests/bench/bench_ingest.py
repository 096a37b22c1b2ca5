"""Print what it costs to bring a prediction file into a store, against a plain loop.

`python -m tests.bench.bench_ingest [RECORDS]` (1,000,000 by default). The plain loop parses each
line with orjson and writes the four fields out again: no checks, no digests, no shards. Times
are processor seconds, the least of three rounds, since the clock on the wall tells as much about
the neighbours; wall seconds stand beside them.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable

import orjson

from farm.core.partition import default_shards
from farm.files.records import count_cases, read_cases
from farm.files.source import Source, find_source
from farm.store.caseorder import dataset_digests
from farm.store.casewriter import write_cases

ROUNDS = 3
WORDS = ("alpha", "beta", "gamma", "status", "retry", "lease", "shard", "token", "fence", "ledger")


def write_input(path: str, records: int) -> None:
    chance = random.Random(7)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(records):
            expected = chance.choice(WORDS)
            record = {
                "id": f"case-{number:07d}",
                "prompt": " ".join(chance.choices(WORDS, k=7)),
                "expected": expected,
                "response": chance.choice([expected, f"the answer is {expected}"]),
            }
            file.write(json.dumps(record) + "\n")


def plain_loop(path: str) -> None:
    with open(path, "rb") as file:
        for line in file:
            record = orjson.loads(line)
            fields = ("id", "prompt", "expected", "response")
            orjson.dumps({field: record[field] for field in fields})


def stage(source: Source, shards: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write_cases(read_cases(source), shards=shards, directory=directory)


def read(source: Source) -> None:
    for _ in read_cases(source):
        pass


def least(act: Callable[[], object]) -> tuple[float, float]:
    """The least processor and wall seconds of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        busy, wall = time.process_time(), time.perf_counter()
        act()
        rounds.append((time.process_time() - busy, time.perf_counter() - wall))
    return min(busy for busy, _ in rounds), min(wall for _, wall in rounds)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    shards = default_shards(records)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "cases.jsonl")
        write_input(path, records)
        source = find_source(path)
        print(f"{records} records, {os.path.getsize(path) / 1e6:.0f} MB, {shards} shards")
        plain = least(lambda: plain_loop(path))
        store = os.path.join(directory, "store")
        os.mkdir(store)
        staged = write_cases(read_cases(source), shards=shards, directory=store)
        rows = {
            "plain loop": plain,
            "count": least(lambda: count_cases(source)),
            "read": least(lambda: read(source)),
            "read and stage": least(lambda: stage(source, shards)),
            "derive again": least(lambda: dataset_digests(store, staged.shards)),
        }
    for name, (busy, wall) in rows.items():
        print(f"{name:15} {busy:6.2f} s busy {busy / plain[0]:5.2f}x   {wall:6.2f} s wall")
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(f"peak {peak / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
