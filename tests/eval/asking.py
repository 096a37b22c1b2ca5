"""`farm eval` as tests call it: tasks, models files, commands, and what a store then says."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.shell import FARM, Done, environment, farm, strict_json
from tests.eval.endpoint import Key

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
FIXTURE = str(SAMPLES / "tasks.jsonl")
KEY = "sk-of-the-tests-0123456789abcdef"  # looks like a key, and must be found nowhere
ATTEMPT_FACTS = frozenset({"latency_s", "wall_seconds", "costs"})
_PATIENCE_S = 50.0


def write_tasks(folder: Path, count: int, **more: Any) -> str:
    """Write tasks whose first line of an answer must be ``right``; prompts begin with their id."""
    path = folder / "tasks.jsonl"
    records = [
        {
            "task_id": f"t{number}",
            "category": "classification",
            "prompt": f"t{number}: is this right or wrong?",
            "targets": ["right"],
            "metric_name": "exact_match",
            "post_process": "extract_first_line",
            **more,
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def write_models(
    folder: Path, url: str, *names: str, file: str = "models.toml", **more: Any
) -> str:
    """Write a models file of models at one server; a sample's seed is its index."""
    path = folder / file
    lines = []
    for name in names or ("m",):
        settings = {
            "adapter": "openai",
            "base_url": f"{url}/v1",
            "model": name,
            "seed": 0,
            "concurrency": 8,
            **more,
        }
        lines.append(f"[models.{name}]")
        lines += [f"{field} = {json.dumps(value)}" for field, value in settings.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def mocks(folder: Path) -> str:
    """Write the models file of the three mocks."""
    path = folder / "mocks.toml"
    names = ("rule_based", "noisy", "biased")
    path.write_text("".join(f'[models.{n}]\nadapter = "{n}"\n' for n in names), "utf-8")
    return str(path)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation that is asked for again and again, by one command."""

    store: str
    tasks: str
    models: str
    more: Sequence[str] = ()

    @property
    def arguments(self) -> list[str]:
        given = ["--store", self.store, "--tasks", self.tasks, "--models", self.models]
        return ["eval", *given, *self.more]

    def run(self, *more: str, variables: Mapping[str, str] | None = None) -> Done:
        """Run the command to its end."""
        return farm(*self.arguments, *more, variables=variables)

    @contextmanager
    def started(
        self, *more: str, variables: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start the command in a session of its own; what is left of it is killed."""
        process = subprocess.Popen(
            [FARM, *self.arguments, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(variables),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def events(self) -> list[dict[str, Any]]:
        """The events that the store holds."""
        return [strict_json(line) for line in self.path("events.jsonl").read_bytes().splitlines()]

    def path(self, name: str) -> Path:
        """A file of the store."""
        return Path(self.store) / name

    def report(self) -> dict[str, Any]:
        """The report in the store."""
        found: dict[str, Any] = strict_json(self.path("report.json").read_bytes())
        return found

    def spending(self, model: str = "") -> dict[str, Any]:
        """What the report says of calls: of one model, or of all."""
        costs = self.report()["costs"]
        found: dict[str, Any] = costs["models"][model] if model else costs["total"]
        return found


def figures(report: dict[str, Any]) -> Any:
    """A report without the facts of its attempts."""
    return _without_facts(report)


def _without_facts(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_facts(v) for k, v in value.items() if k not in ATTEMPT_FACTS}
    return [_without_facts(one) for one in value] if isinstance(value, list) else value


def finish(process: subprocess.Popen[bytes]) -> Done:
    """Wait for a command that was started."""
    out, err = process.communicate(timeout=_PATIENCE_S)
    said = err.decode("utf-8")
    assert "Traceback" not in said, said
    assert "fault of farm" not in said, said
    return Done(code=process.returncode, out=out, err=said)


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (thread / "children").read_text().split()]
    return found


def worker_of(process: subprocess.Popen[bytes]) -> int:
    """The one worker process of a started command; call it when it has asked something."""
    (pid,) = [
        child
        for child in children(process.pid)
        if b"asker_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return pid


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until something that tells nobody of itself, a file or a process, is as it should."""
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {_PATIENCE_S:g} s"
        time.sleep(0.005)


def gone(pid: int) -> None:
    """Wait until a process of somebody else's is no more, or a zombie."""
    wait_until(lambda: _is_gone(pid))


def _is_gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


def kill(pid: int) -> None:
    """Kill a process that may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kept(cache: Path) -> set[Key]:
    """What answers a cache holds, told by their own words; none where there is no cache yet."""
    if not cache.exists():
        return set()
    connection = sqlite3.connect(f"file:{cache}?mode=ro", uri=True)
    try:
        values = [row[0] for row in connection.execute("SELECT value FROM generations")]
    except sqlite3.OperationalError:  # killed before the table was made
        return set()
    finally:
        connection.close()
    words = [json.loads(value)["text"].split("\n")[1].split(" ") for value in values]
    return {Key(model, task, int(sample)) for model, task, sample in words}


def everything_in(folder: str | Path) -> bytes:
    """All bytes of all files below a folder, names included."""
    found = b""
    for path in sorted(Path(folder).rglob("*")):
        found += os.fsencode(path) + b"\n" + (path.read_bytes() if path.is_file() else b"")
    return found
