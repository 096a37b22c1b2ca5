"""`farm schema`: the JSON Schemas of what farm reads and writes."""

from __future__ import annotations

import click

from farm.cli import options
from farm.report.schemas import SCHEMA_NAMES, schema_of


@click.command()
@click.argument("what", type=click.Choice(SCHEMA_NAMES))
@options.quiet
def command(what: str, quiet: bool) -> None:
    """Print the JSON Schema of a file, or of one line or record of a stream."""
    options.print_json(schema_of(what))
