"""The live log: the run's events on stderr and, if asked for, in a file.

On a terminal, lines for people and one progress line; in a pipe, the same JSON lines as in the
store. Text that comes from outside is stripped of control characters before a terminal sees it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import orjson

from farm.config import Environment
from farm.core.event import Event, encode_event, to_dict
from farm.core.printable import printable, printable_json
from farm.files.atomic import storage_errors

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LogFormat = Literal["auto", "console", "json"]
_SHOWN_ON_CONSOLE = {"info", "warning", "error"}
_TOO_MANY = {"shard.claimed"}  # a line for each start and each end of a shard is one too many


class Log(AbstractContextManager["Log"]):
    """Where events go while a command runs; `write` takes them as they happen."""

    def __init__(
        self,
        *,
        environment: Environment,
        log_format: LogFormat = "auto",
        quiet: bool = False,
        file: str = "",
        progress: bool = True,
    ) -> None:
        """Open the log; raises `StorageError` when `file` cannot be appended to.

        Without `progress` there is no progress line: the command shows its own.
        """
        terminal = sys.stderr.isatty() and not environment.dumb
        console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
        self._file: BinaryIO | None = None
        if file:
            with storage_errors(file):
                self._file = open(file, "ab", buffering=0)  # noqa: SIM115  closed in __exit__
        self._log: Callable[[Event], None] | None = None
        self._progress: _ProgressLine | None = None
        if quiet:
            return
        if not console:
            self._log = _json_logger(on_terminal=sys.stderr.isatty())
            return
        if terminal and log_format == "auto" and progress:
            self._progress = _ProgressLine(colours=not environment.no_color)
        self._log = _console_logger(
            colours=terminal and not environment.no_color, progress=self._progress
        )

    def write(self, events: Sequence[Event]) -> None:
        """Pass events on, in order."""
        for event in events:
            if self._file is not None:
                self._write_to_file(self._file, event)
            if self._log is not None:
                self._write_to_stderr(self._log, event)

    def _write_to_file(self, file: BinaryIO, event: Event) -> None:
        try:
            file.write(encode_event(event))
        except OSError as error:
            # the run is worth more than its log, and the store keeps all events
            self._file = None
            file.close()
            reason = os.strerror(error.errno or 0).lower()
            with contextlib.suppress(OSError):  # stderr may be on the same full disk
                print_to_stderr(f"farm: {file.name}: {reason}; the run goes on without this log")

    def _write_to_stderr(self, log: Callable[[Event], None], event: Event) -> None:
        try:
            log(event)
            if self._progress is not None:
                self._progress.follow(event)
        except OSError:
            # its reader went away or its disk is full; who reads the store misses nothing
            self._log = self._progress = None
            silence_stderr()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.close()
        if self._file is not None:
            self._file.close()


def _json_logger(*, on_terminal: bool) -> Callable[[Event], None]:
    # here and not at the top: structlog loads for 50 ms, which commands without a log save
    import structlog

    def serialize(value: object, **_: object) -> bytes:
        data = orjson.dumps(value)
        return printable_json(data) if on_terminal else data

    logger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[_as_in_the_store, structlog.processors.JSONRenderer(serializer=serialize)],
    )

    def log(event: Event) -> None:
        # one method for all levels: the level stands in the event
        logger.info(**to_dict(event))

    return log


def _as_in_the_store(_: object, method: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    """Put the fields in their order again; structlog moves the event's name to the end."""
    head = {name: fields.pop(name) for name in ("ts", "level", "event")}
    return {**head, **fields}


def _console_logger(*, colours: bool, progress: _ProgressLine | None) -> Callable[[Event], None]:
    import structlog

    renderer = structlog.dev.ConsoleRenderer(colors=colours, sort_keys=False, pad_event_to=18)
    say = print_to_stderr if progress is None else progress.print

    def log(event: Event) -> None:
        if event.level not in _SHOWN_ON_CONSOLE or event.event in _TOO_MANY:
            return
        flat = to_dict(event)
        shown: dict[str, Any] = {
            key: printable(value) if isinstance(value, str) else value
            for key, value in flat.items()
            if key not in {"run_id", "invocation_id", "seq", "ts"}
        }
        shown["timestamp"] = event.ts[11:23]
        say(str(renderer(None, event.level, shown)))

    return log


def print_to_stderr(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def silence_stderr() -> None:
    """Send stderr nowhere, so that the interpreter does not fail on it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class _ProgressLine:
    """One line at the foot of a terminal: shards done, cases a second, time left."""

    def __init__(self, *, colours: bool) -> None:
        # here and not at the top: rich loads for 40 ms, and only a terminal has use for it
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True, no_color=not colours, highlight=False, markup=False)
        self._progress: Progress = RichProgress(
            TextColumn("shards"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} cases/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._cases = 0
        self._began = time.monotonic()

    def follow(self, event: Event) -> None:
        """Move with the events of a run."""
        if event.event == "run.started":
            self._began = time.monotonic()
            self._task = self._progress.add_task(
                "run",
                total=int(event.fields["active_shards"] or 0),
                completed=int(event.fields["completed_shards"] or 0),
                rate="-",
            )
            self._progress.start()
        elif event.event == "shard.completed" and self._task is not None:
            self._cases += int(event.fields["total"] or 0)
            rate = self._cases / max(0.001, time.monotonic() - self._began)
            self._progress.update(self._task, advance=1, rate=f"{rate:,.0f}")

    def print(self, text: str) -> None:
        """Print a line above the progress line."""
        from rich.text import Text

        self._progress.console.print(Text.from_ansi(text), soft_wrap=True)

    def close(self) -> None:
        """Take the line away."""
        self._progress.stop()
