"""`farm requeue`: open quarantined shards again."""

from __future__ import annotations

import click

from farm.cli import options
from farm.core.change import Requeue, apply
from farm.errors import FarmError
from farm.runtime.standing import report_of
from farm.wiring import open_store


@click.command()
@options.store
@click.option(
    "--shard",
    "shards",
    required=True,
    multiple=True,
    metavar="NAME",
    help="Which one; repeat for more.",
)
@options.quiet
def command(store: str, shards: tuple[str, ...], quiet: bool) -> None:
    """Open a quarantined shard again, with a clean count of attempts; then the run goes on."""
    with open_store(store) as opened:
        changes = [Requeue(shard=shard) for shard in dict.fromkeys(shards)]
        # tried on a copy first: one name that is wrong must not leave the others half done
        for outcome in apply(opened.ledger(), changes, now=0)[1]:
            if isinstance(outcome, FarmError):
                raise outcome
        for outcome in opened.commit(changes).outcomes:
            if isinstance(outcome, FarmError):
                raise outcome
        options.print_json(report_of(opened))
