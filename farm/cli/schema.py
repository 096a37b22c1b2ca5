"""`farm schema`: the JSON Schemas of what farm reads and writes."""

from __future__ import annotations

import click

from farm.cli import options
from farm.report.schemas import SCHEMA_NAMES, schema_of

# named here: a list in --help must not load what the schemas are made of
QUALIFICATION = (
    "qualify-config",
    "qualify-lease",
    "qualify-results",
    "qualify-summary",
    "qualify-comparison",
    "qualify-audit",
)


@click.command()
@click.argument("what", type=click.Choice((*SCHEMA_NAMES, *QUALIFICATION)))
@options.quiet
def command(what: str, quiet: bool) -> None:
    """Print the JSON Schema of a file, or of one line or record of a stream."""
    if what in QUALIFICATION:
        from farm.qualify import schemas

        options.print_json(schemas.schema_of(what))
        return
    options.print_json(schema_of(what))
