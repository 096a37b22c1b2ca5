"""`farm compare`: two runs of the same tasks, case by case."""

from __future__ import annotations

import click

from farm.cli import deliver, options
from farm.cli.kinds import FilledPath
from farm.cli.main import fail
from farm.cli.overwriting import check_result
from farm.cli.sides import place_of, read_pair

common = click.option(
    "--common", is_flag=True, help="Pair the cases both have, though the tasks differ."
)


@click.command()
@click.argument("first", metavar="A", type=FilledPath())
@click.argument("second", metavar="B", type=FilledPath())
@common
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "markdown"]),
    default="json",
    show_default=True,
    help="markdown is for people.",
)
@deliver.output
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    /,
    first: str,
    second: str,
    common: bool,
    kind: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Compare run B with run A, paired by task.

    A and B are stores, or reports that were saved with their cases listed. Runs of other tasks,
    or of another scorer, are refused.
    """
    # here and not at the top: numpy loads for 100 ms, which --help does not need
    from farm.report.compare import (
        compare_runs,
        render_comparison_json,
        render_comparison_markdown,
    )

    sides = [("A", place_of(first)), ("B", place_of(second))]
    check_result(output, summary="", sides=sides)
    one, two = read_pair(first, second)
    comparison = compare_runs(one, two, common=common)
    text = (
        render_comparison_markdown(comparison)
        if kind == "markdown"
        else render_comparison_json(comparison).decode()
    )
    deliver.deliver([text], output)
    if not comparison.n:
        fail(f"{two.label!r} and {one.label!r} have no scored case in common")
        ctx.exit(1)
