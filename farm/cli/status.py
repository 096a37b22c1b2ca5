"""`farm status`: the report of where a run stands."""

from __future__ import annotations

import click

from farm.cli import options
from farm.runtime.standing import report_of
from farm.wiring import open_store


@click.command()
@options.store
@options.detail
@options.quiet
def command(store: str, detail: bool | None, quiet: bool) -> None:
    """Check plan, ledger and receipt sizes, and print the report of where a run stands."""
    with open_store(store) as opened:
        options.print_json(report_of(opened, detail=detail))
