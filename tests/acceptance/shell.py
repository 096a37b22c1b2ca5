"""The installed command as a person or a program uses it, and what must hold of every call."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

FARM = os.path.join(sysconfig.get_path("scripts"), "farm")
SAMPLE = str(Path(__file__).resolve().parents[2] / "samples" / "cases.json")
_HEEDED = {"FARM_LOG_DIR", "NO_COLOR", "TERM"}  # not to be inherited from whoever runs the tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return strict_json(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON values on stdout, one a line."""
        return [strict_json(line) for line in self.out.splitlines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON lines of the log."""
        return [strict_json(line) for line in self.err.splitlines() if line.startswith("{")]

    @property
    def failures(self) -> list[str]:
        """What the command said it failed of."""
        return [line for line in self.err.splitlines() if line.startswith("farm: ")]


def strict_json(data: bytes | str) -> Any:
    """Read JSON without the liberties Python takes: no NaN, no other encoding."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(data.decode("utf-8") if isinstance(data, bytes) else data,
                      parse_constant=refuse)  # fmt: skip


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a call."""
    kept = {key: value for key, value in os.environ.items() if key not in _HEEDED}
    return kept | dict(variables or {})


def farm(
    *arguments: str | bytes,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    before: Callable[[], None] | None = None,
) -> Done:
    """Run the command to its end; `before` acts in its process, as a limit does."""
    ended = subprocess.run(
        [FARM, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(variables),
        cwd=cwd,
        timeout=60,
        check=False,
        preexec_fn=before,
    )
    done = Done(code=ended.returncode, out=ended.stdout, err=ended.stderr.decode("utf-8"))
    assert "Traceback" not in done.err, done.err
    assert "fault of farm" not in done.err, done.err
    return done


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command with pipes at its outputs; it is killed at the end of the block."""
    process = subprocess.Popen(
        [FARM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def log_of(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a running command, as they come."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"{"):
            yield strict_json(line)


def wait_for(process: subprocess.Popen[bytes], event: str) -> dict[str, Any]:
    """Read the log up to the next event of that name."""
    return next(told for told in log_of(process) if told["event"] == event)


def fingerprint(folder: str | Path) -> dict[str, tuple[str, int, int]]:
    """Digest, modification time and inode of every file, and of every folder its inode."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        stat = path.stat()
        digest = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (digest, stat.st_mtime_ns, stat.st_ino)
    return found


def initialized(tmp_path: Path, *, shards: int, input: str = SAMPLE) -> str:
    """Make a store and give its path."""
    store = str(tmp_path / "store")
    made = farm("init", "--store", store, "--input", input, "--shards", str(shards), "--quiet")
    assert made.code == 0, made.err
    return store
