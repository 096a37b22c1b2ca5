"""Servers and runs for the tests: the scripted one as a process of its own, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# the command as installed, with this group in it whether it is registered yet or not
_COMMAND = (
    "import farm.cli.main as m;"
    "m.COMMANDS.setdefault('qualify', ('farm.cli.qualify', 'Measure a served model.'));"
    "m.main()"
)
COMPLETE: dict[str, Any] = {
    "model": "scripted",
    "nodes": ["localhost"],
    "model_sha256": "1" * 64,
    "engine_commit": "scripted-1",
    "template_sha256": "2" * 64,
    "engine_binary_sha256": None,
    "quantization": None,
    "draft_model": None,
    "draft_sha256": None,
    "reasoning_mode": None,
    "sampler": {"temperature": 0},
    "max_context_per_request": 4096,
    "min_mem_available_gib": 0,
    "min_disk_free_gib": 0,
    "resource_check": "resources",
    "token_counter": "llama-count",
    "reset_cache": "llama-reset",
    "contexts": [512],
    "concurrency": [2],
    "repeats": 1,
    "max_tokens": 256,
    "timeout_s": 20,
    "hook_timeout_s": 5,
}


@contextmanager
def scripted_server(*arguments: str) -> Iterator[str]:
    """Run the scripted server; gives its URL. It ends when its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-m", "farm.qualify.scripted", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = json.loads(process.stdout.readline())["port"]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.stdin.close()
            process.wait(timeout=10)


def farm(*arguments: str, timeout: float = 110) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_farm(*arguments: str) -> subprocess.Popen[str]:
    """Start the command; its live log is on stderr."""
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_config(folder: Path, *, url: str, **changes: Any) -> str:
    """Write a complete configuration with some fields changed; gives its path."""
    path = folder / "config.json"
    path.write_text(json.dumps({**COMPLETE, "url": url, **changes}), "utf-8")
    return str(path)


def write_lease(folder: Path, **changes: Any) -> str:
    """Write a device lease that is good for an hour; gives its path."""
    path = folder / "lease.json"
    lease = {
        "nodes": ["localhost"],
        "expires_unix": time.time() + 3600,
        "lock_path": str(folder / "device.lock"),
        "allowed_gpu_pids": [],
    }
    path.write_text(json.dumps({**lease, **changes}), "utf-8")
    return str(path)


def results(output: Path) -> list[dict[str, Any]]:
    """Read results.jsonl."""
    return [json.loads(line) for line in (output / "results.jsonl").read_text("utf-8").splitlines()]
