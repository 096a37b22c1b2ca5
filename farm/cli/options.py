"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

import click

from farm.cli.kinds import FilledPath, Name
from farm.cli.main import conclude
from farm.cli.overwriting import check_written
from farm.config import Environment
from farm.core.isolation import LEVELS
from farm.core.printable import printable_json
from farm.errors import StorageError, UsageError
from farm.files.atomic import make_folders
from farm.files.stream import silence, write_stream
from farm.log import LogFormat
from farm.report.render import to_json

F = TypeVar("F", bound=Callable[..., Any])
LARGEST = 2**63 - 1


class LogFlags(TypedDict):
    """The options of `log`."""

    log_format: LogFormat
    log_file: str | None
    quiet: bool


class SourceFlags(TypedDict):
    """The options of `source`."""

    input: str | None
    shards: int | None
    scorer: str | None
    name: str | None
    mapping: str
    ignore_extra: bool
    auto_id: bool
    coerce: bool
    max_text_bytes: int


class LeaseFlags(TypedDict):
    """The options of `lease`."""

    lease_ms: int
    now_ms: int
    delay_ms: int


class IsolationFlags(TypedDict):
    """The options of `isolation`."""

    require_isolation: str | None
    allow_unisolated: bool


def apply_all(options: list[Callable[[F], F]]) -> Callable[[F], F]:
    """Make one decorator of many, the first one shown first in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


store = click.option(
    "--store", required=True, metavar="DIR", type=FilledPath(), help="The directory of the run."
)

quiet = click.option("--quiet", is_flag=True, help="No log on stderr, only failures.")
# for commands that log nothing anyway: every command takes the option
always_quiet = click.option(
    "--quiet", is_flag=True, expose_value=False, help="No log on stderr, only failures."
)

log = apply_all(
    [
        click.option(
            "--log-format",
            type=click.Choice(["auto", "console", "json"]),
            default="auto",
            show_default=True,
            help="auto: for people on a terminal, JSON lines in a pipe.",
        ),
        click.option(
            "--log-file", metavar="FILE", type=FilledPath(), help="Append the events here as well."
        ),
        quiet,
    ]
)

source = apply_all(
    [
        click.option(
            "--input",
            metavar="FILE",
            type=FilledPath(allow_dash=True),
            help="Predictions: .json, .jsonl, .ndjson, each also .gz or .zst; - is stdin.",
        ),
        click.option(
            "--shards",
            type=click.IntRange(1, 1024),
            help="Shard count of a new store.  [default: by the number of cases]",
        ),
        click.option("--scorer", metavar="NAME", help="How cases are scored."),
        click.option("--name", metavar="MODEL", type=Name(), help="Whose predictions these are."),
        click.option(
            "--map",
            "mapping",
            default="",
            metavar="FIELD=PATH,...",
            help="Rename fields; dotted paths reach inside.",
        ),
        click.option("--ignore-extra", is_flag=True, help="Drop fields that farm does not know."),
        click.option("--auto-id", is_flag=True, help="Make ids from the content."),
        click.option("--coerce", is_flag=True, help="Turn numbers and booleans into text."),
        click.option(
            "--max-text-bytes",
            type=click.IntRange(1, 100_000_000),
            default=100_000,
            show_default=True,
            help="Limit of each text.",
        ),
    ]
)

lease = apply_all(
    [
        click.option(
            "--lease-ms",
            type=click.IntRange(1, LARGEST),
            default=30_000,
            show_default=True,
            help="How long a claim holds.",
        ),
        click.option(
            "--now-ms",
            type=click.IntRange(-1, LARGEST),
            default=-1,
            show_default=True,
            help="A fixed logical clock; -1 is the wall clock.",
        ),
        click.option(
            "--delay-ms",
            type=click.IntRange(0, 60_000),
            default=0,
            show_default=True,
            help="A pause after each claim.",
        ),
    ]
)

isolation = apply_all(
    [
        click.option(
            "--require-isolation",
            type=click.Choice(LEVELS),
            help="Refuse to run programs under less than this.",
        ),
        click.option(
            "--allow-unisolated",
            is_flag=True,
            help="Run programs also where the machine isolates nothing.",
        ),
    ]
)

detail = click.option(
    "--detail/--no-detail",
    default=None,
    help="List single cases.  [default: up to 10,000 cases]",
)


def logical_clock(given: LeaseFlags) -> int | None:
    """Give the fixed time of a logical clock, None for the wall clock.

    A lease that would end past the last moment there is, is wrong usage.
    """
    now_ms = given["now_ms"] if given["now_ms"] >= 0 else int(time.time() * 1000)
    if now_ms + given["lease_ms"] > LARGEST:
        raise click.UsageError(
            f"--lease-ms: a lease of {given['lease_ms']} ms would end past 2**63 - 1."
        )
    return None if given["now_ms"] < 0 else now_ms


def log_path(
    log_file: str | None,
    environment: Environment,
    store: str,
    *,
    inputs: Mapping[str, str | None],
    cache: str | None = None,
) -> str:
    """Give the file that events are appended to besides the store's; "" for none.

    The folder of the environment is made when it is missing. Raises `UsageError` where it cannot
    be, or events would be written into what the command reads; see `check_written`.
    """
    path, option = log_file or "", "--log-file"
    if not path and environment.log_dir:
        name = os.path.basename(os.path.abspath(store)) or "run"
        path, option = os.path.join(environment.log_dir, f"{name}.jsonl"), "FARM_LOG_DIR:"
    if path:
        check_written(path, option=option, stores=[store], inputs=inputs, cache=cache)
    if not log_file and path:
        try:
            make_folders(environment.log_dir)
        except StorageError as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                raise
            reason = "lies below a file: name another directory"
            raise UsageError(f"FARM_LOG_DIR: {environment.log_dir!r} {reason}") from error
    return path


def print_json(value: object) -> None:
    """Print what a command was called for: one line in a pipe, spread out on a terminal."""
    write_out(to_json(value, indent=2 if sys.stdout.isatty() else 0), last=True)


def print_line(value: object, *, last: bool = False) -> None:
    """Print a value on stdout as one line of JSON, wherever that goes."""
    write_out(to_json(value), last=last)


def write_out(data: bytes, *, last: bool = False) -> bool:
    """Write JSON on stdout at once, harmless for the terminal that it may be.

    With the `last` of it a command has told what it was called for: whoever has read it finds
    that no signal changes how the command ends.

    A reader that went away, as `| head` does, is no failure: the answer is then False. Raises
    `StorageError` when a file or device behind stdout does not take it.
    """
    return write_plain(printable_json(data) if sys.stdout.isatty() else data, last=last)


def write_plain(data: bytes, *, last: bool = False) -> bool:
    """Write bytes on stdout as they are, and otherwise as `write_out` does."""
    try:
        sys.stdout.flush()
        if isinstance(sys.stdout.buffer, io.FileIO | io.BufferedWriter):
            write_stream(sys.stdout.fileno(), data, before_last=conclude if last else None)
        else:  # captured in memory, where no write is short
            sys.stdout.buffer.write(data)
    except OSError as error:
        # what was done is done; the interpreter must not fail again when it flushes at exit
        silence(sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            reason = (error.strerror or str(error)).lower()
            raise StorageError(path="standard output", reason=reason) from error
        return False
    return True
