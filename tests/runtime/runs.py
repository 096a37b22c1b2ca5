"""Supervised runs in this process, with real worker processes that may be told to misbehave."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from farm.core.event import Event
from farm.core.lease import Lease
from farm.runtime.prospects import Ending
from farm.runtime.settings import RunSettings
from farm.store.directory import DirectoryStore
from farm.wiring import InitOptions, ensure_store, run, run_settings

# The worker process of farm, with a hook that runs when the scoring of a shard begins.
HOOKED = """
import os, signal, sys
from farm.runtime import worker, worker_main
plain = worker.Worker.score
def score(self, assignment):
    {hook}
    return plain(self, assignment)
worker.Worker.score = score
sys.exit(worker_main.main(sys.argv[1:]))
"""


def make_store(folder: Path, *, shards: int, cases: int = 64) -> str:
    """Make a store of `cases` cases of which every third is wrong."""
    given = folder / "cases.jsonl"
    lines = [
        {"id": f"c{number}", "prompt": "p", "expected": "yes",
         "response": "no" if number % 3 == 0 else "yes"}
        for number in range(cases)
    ]  # fmt: skip
    given.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    store = str(folder / "store")
    ensure_store(store, InitOptions(input=str(given), shards=shards), on_events=lambda told: None)
    return store


def supervise(
    store: str, *, command: Sequence[str] = (), hook: str = "", **options: Any
) -> tuple[Ending, list[Event]]:
    """Run a store to its end; `command` or `hook` stand for another worker than farm's own."""
    settings = run_settings(store, RunSettings(**options))
    own = settings.worker_command
    if hook:
        command = (sys.executable, "-I", "-c", HOOKED.format(hook=hook), *own[4:])
    events: list[Event] = []
    with DirectoryStore(store) as opened:
        ending = run(
            opened, replace(settings, worker_command=command or own), on_events=events.extend
        )
    return ending, events


def leases_of(store: str) -> tuple[Lease, ...]:
    """The leases as the ledger has them now."""
    with DirectoryStore(store) as opened:
        return opened.ledger().leases


def names(events: Sequence[Event]) -> list[str]:
    """The names of events, in order."""
    return [event.event for event in events]
