"""Where a report goes: to a file, to stdout, and to the summary of a CI job."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from farm.cli import options
from farm.cli.kinds import FilledPath
from farm.cli.main import conclude
from farm.config import read_environment
from farm.core.printable import printable
from farm.errors import UsageError
from farm.files.output import append_output, write_output

output = click.option(
    "--output",
    metavar="FILE",
    type=FilledPath(),
    callback=lambda _ctx, _param, path: None if path == "-" else path,  # as for every input
    help="Write here instead of stdout; the file is replaced whole.",
)

step_summary = click.option(
    "--step-summary",
    is_flag=True,
    help="Also append Markdown to the file that GITHUB_STEP_SUMMARY names.",
)


def deliver(pieces: Iterable[str], path: str | None, *, last: bool = True) -> None:
    """Write text to a file, or to stdout and then harmless for the terminal that it may be.

    With what is not `last` the command has more to do; see `farm.cli.options.write_out`.
    """
    if path is not None:
        write_output(path, (piece.encode() for piece in pieces))
        if last:
            conclude()
        return
    held = ""
    for piece in pieces:
        if held and not options.write_plain(_harmless(held)):
            return
        held = piece
    options.write_plain(_harmless(held), last=last)


def _harmless(text: str) -> bytes:
    if sys.stdout.isatty():
        text = "\n".join(printable(line) for line in text.split("\n"))
    return text.encode()


def summary_file(wanted: bool) -> str:
    """Give the file of the CI job's summary, "" when none is wanted; asked for before any work."""
    if not wanted:
        return ""
    path = read_environment().step_summary
    if not path:
        raise UsageError("--step-summary: GITHUB_STEP_SUMMARY names no file here")
    return path


def add_summary(path: str, text: str) -> None:
    """Append Markdown to the summary file, set apart from what stands there; nothing follows."""
    append_output(path, f"{text}\n".encode())
    conclude()
