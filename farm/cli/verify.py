"""`farm verify`: re-derive everything in a store."""

from __future__ import annotations

import os
from functools import partial
from typing import Unpack

import click

from farm.cli import options
from farm.core.partition import shard_index
from farm.core.trial import has_trials
from farm.runtime.verify import verify
from farm.store.casefile import ShardCases
from farm.store.caseorder import dataset_digests
from farm.store.directory import RECEIPTS, DirectoryStore
from farm.wiring import is_qualification, open_store, programs_of


@click.command()
@options.store
@options.isolation
@options.quiet
@click.pass_context
def command(
    ctx: click.Context, /, store: str, quiet: bool, **given: Unpack[options.IsolationFlags]
) -> None:
    """Re-derive everything in a store from its cases, digests included; say what does not hold.

    Programs are run again, where it is by running them that a store was scored. Models are not
    asked again: their answers are judged anew. A qualification is checked against the records of
    its cells and its fixtures.

    Prints one JSON object; exit code 1 when anything does not hold.
    """
    with open_store(store, qualification=True) as opened:
        names, digests = partial(_receipt_names, opened), partial(_digests, opened)
        if is_qualification(opened):
            # here and not at the top: other stores need nothing of it
            from farm.wiring_qualify import verify_qualification

            found = verify_qualification(opened, digests=digests, receipt_names=names)
        elif has_trials(opened.plan):
            # here and not at the top: it loads HTTP clients, which other stores have no use for
            from farm.wiring_evalreport import recheck

            found = recheck(opened, digests=digests, receipt_names=names, **given)
        else:
            with programs_of(opened.plan, **given) as programs:
                found = verify(opened, digests=digests, receipt_names=names, programs=programs)
    options.print_json(found)
    ctx.exit(0 if found.ok else 1)


def _receipt_names(store: DirectoryStore) -> list[str]:
    try:
        names = os.listdir(os.path.join(store.path, RECEIPTS))
    except FileNotFoundError:  # each receipt that the ledger counts on is then a problem already
        return []
    return [name for name in names if not name.startswith(".")]


def _digests(store: DirectoryStore) -> tuple[str, str, int]:
    shards = [
        ShardCases(
            index=shard_index(shard.name),
            cases=shard.cases,
            sha256=shard.sha256,
            extents=shard.extents,
        )
        for shard in store.plan.shards
    ]
    return dataset_digests(store.path, shards)
