"""`farm requeue`: open quarantined shards again."""

from __future__ import annotations

import click

from farm.cli import options
from farm.core.change import Requeue
from farm.errors import FarmError
from farm.runtime.standing import report_of
from farm.wiring import open_store


@click.command()
@options.store
@click.option("--shard", "shards", required=True, multiple=True, metavar="NAME", help="Which one.")
@options.quiet
def command(store: str, shards: tuple[str, ...], quiet: bool) -> None:
    """Open a quarantined shard again, with a clean count of attempts; then `farm run` goes on."""
    with open_store(store) as opened:
        committed = opened.commit([Requeue(shard=shard) for shard in shards])
        for outcome in committed.outcomes:
            if isinstance(outcome, FarmError):
                raise outcome
        options.print_json(report_of(opened))
