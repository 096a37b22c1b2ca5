"""The live log: the run's events on stderr and, if asked for, in a file.

On a terminal, lines for people and one progress line; in a pipe, the same JSON lines as in the
store. Text that comes from outside is stripped of control characters before a terminal sees it.
All is written by threads of `farm.outlet`, so that a reader who stalls stops nothing.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import orjson

from farm.config import Environment
from farm.core.event import Event, encode_event, to_dict
from farm.core.printable import printable, printable_json
from farm.errors import UsageError
from farm.files.atomic import storage_errors, write_fully
from farm.files.stream import STDERR, silence, write_in_time, write_stream
from farm.outlet import Outlet, dropped

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from rich.progress import Progress, TaskID

LogFormat = Literal["auto", "console", "json"]
_SHOWN_ON_CONSOLE = {"info", "warning", "error"}
_LAST_LINE_S = 0.2
# errnos of a name that no disk could make a file of: nothing is to be mended but the command
_NO_PLACE = {
    errno.EISDIR: "is a directory: name a file",
    errno.ENOENT: "its directory does not exist: make it first",
    errno.ENOTDIR: "what should be its directory is a file: name another",
    errno.ENAMETOOLONG: "the name is too long: give a shorter one",
    errno.ENXIO: "nobody reads this pipe: begin to read it first, or give a file",
}
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
        """Open the log; raises `UsageError` when there can be no `file` of that name.

        Raises `StorageError` when it cannot be appended to.

        Without `progress` there is no progress line: the command shows its own.
        """
        self._outlets: list[Outlet] = []
        self._file: _LogFile | None = None
        if file:
            self._file = _LogFile(file)
            self._outlets.append(Outlet(self._file.write, count=dropped))
        self._screen: _Screen | None = None
        if not quiet:
            self._screen = _Screen(environment, log_format=log_format, progress=progress)
            self._outlets.append(Outlet(self._screen.write, count=dropped))

    def write(self, events: Sequence[Event]) -> None:
        """Pass events on, in order; never waits for whoever reads them."""
        for outlet in self._outlets:
            outlet.put(events)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        all_written = [outlet.close() for outlet in self._outlets]
        # what a stalled reader did not take is still being written: it must stay open
        if all(all_written):
            if self._screen is not None:
                self._screen.close()
            if self._file is not None:
                self._file.close()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file to append to; a pipe that nobody reads is refused, not waited for."""
    try:
        fd = os.open(path, flags | os.O_NONBLOCK, 0o666)
    except OSError as error:
        reason = _NO_PLACE.get(error.errno or 0)
        if reason is None:
            raise
        raise UsageError(f"log file {path!r}: {reason}") from error
    os.set_blocking(fd, True)
    return fd


class _LogFile:
    """A file that events are appended to; one that fails is given up."""

    def __init__(self, path: str) -> None:
        self._path = path
        with storage_errors(path):
            self._file: BinaryIO | None = open(  # noqa: SIM115  see close
                path, "ab", buffering=0, opener=_open_at_once
            )

    def write(self, event: Event) -> None:
        if self._file is None:
            return
        try:
            write_fully(self._file.fileno(), encode_event(event))
        except OSError as error:
            # the run is worth more than its log, and the store keeps all events
            self.close()
            reason = os.strerror(error.errno or 0).lower()
            with contextlib.suppress(OSError):  # stderr may be on the same full disk
                print_to_stderr(f"farm: {self._path}: {reason}; the run goes on without this log")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Screen:
    """Standard error: lines for people on a terminal, JSON lines in a pipe."""

    def __init__(self, environment: Environment, *, log_format: LogFormat, progress: bool) -> None:
        on_terminal = os.isatty(STDERR)
        terminal = on_terminal and not environment.dumb
        self._progress: _ProgressLine | None = None
        self._log: Callable[[Event], None] | None
        if log_format == "json" or (log_format == "auto" and not on_terminal):
            self._log = _json_logger(on_terminal=on_terminal)
            return
        if terminal and log_format == "auto" and progress:
            self._progress = _ProgressLine(colours=not environment.no_color)
        self._log = _console_logger(
            colours=terminal and not environment.no_color, progress=self._progress
        )

    def write(self, event: Event) -> None:
        if self._log is None:
            return
        try:
            self._log(event)
            if self._progress is not None:
                self._progress.follow(event)
        except OSError:
            # its reader went away or its disk is full; who reads the store misses nothing
            self._log = self._progress = None
            silence(STDERR)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()


class _Stderr(io.RawIOBase):
    """Standard error as a file that takes all it is given, for libraries that want a file."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(STDERR)

    def fileno(self) -> int:
        return STDERR

    def write(self, data: Buffer) -> int:
        whole = bytes(data)
        write_stream(STDERR, whole)
        return len(whole)


def _json_logger(*, on_terminal: bool) -> Callable[[Event], None]:
    # here and not at the top: structlog loads for 50 ms, which commands without a log save
    import structlog

    def serialize(value: object, **_: object) -> bytes:
        data = orjson.dumps(value)
        return printable_json(data) if on_terminal else data

    logger = structlog.wrap_logger(
        structlog.BytesLogger(cast(BinaryIO, _Stderr())),
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
    if progress is None and os.isatty(STDERR):
        say = _print_above  # a view that a command draws by itself

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
    write_stream(STDERR, f"{text}\n".encode(errors="backslashreplace"))


def _print_above(text: str) -> None:
    """Write a line to what stands for stderr: above a live view, while there is one."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def last_line(text: str) -> None:
    """Tell why the process leaves at once, without waiting for a reader that has stalled."""
    # the progress line hides the cursor, and nothing else gives it back now
    cursor = "\r\x1b[K\x1b[?25h" if os.isatty(STDERR) else ""
    with contextlib.suppress(OSError):
        line = f"{cursor}farm: {printable(text)}\n".encode(errors="backslashreplace")
        write_in_time(STDERR, line, timeout_s=_LAST_LINE_S)


class _ProgressLine:
    """One line at the foot of a terminal: shards done, cases a second, time left."""

    def __init__(self, *, colours: bool) -> None:
        # here and not at the top: rich loads for 40 ms, and only a terminal has use for it
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        screen = io.TextIOWrapper(
            cast(BinaryIO, _Stderr()), "utf-8", errors="backslashreplace", write_through=True
        )
        console = Console(file=screen, no_color=not colours, highlight=False, markup=False)
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
