"""`farm tasks check FILE`: say what is wrong with a task file before a run needs it."""

from __future__ import annotations

import click

from farm.cli import options
from farm.cli.kinds import FilledPath
from farm.files.tasks import validate_file


@click.group(help="Work with task files.")
def tasks() -> None:
    """Hold the commands about task files."""


@tasks.command()
@click.argument("file", type=FilledPath())
@options.quiet
@click.pass_context
def check(context: click.Context, file: str, quiet: bool) -> None:
    """Check every line of a task FILE (JSON Lines).

    Prints one JSON object: `validated`, the number of good tasks, and `errors`, one record
    for each fault. Exit code 1 if there is any.
    """
    found = validate_file(file)
    options.print_json({"validated": found.validated, "errors": found.errors})
    if found.errors:
        context.exit(1)


command = tasks
