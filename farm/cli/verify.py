"""`farm verify`: re-derive everything in a store."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Unpack

import click

from farm.cli import options
from farm.core.partition import shard_index
from farm.core.trial import has_trials
from farm.runtime.verify import verify
from farm.scoring.programs import ProgramRunner
from farm.scoring.trial import TrialJudge
from farm.store.casefile import ShardCases
from farm.store.caseorder import dataset_digests
from farm.store.directory import RECEIPTS, DirectoryStore
from farm.wiring import open_store, programs_of


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
    asked again: the answers in the receipts are judged anew.
    Prints one JSON object; exit code 1 when anything does not hold.
    """
    with open_store(store) as opened, _programs(opened, given) as programs:
        found = verify(
            opened,
            digests=lambda: _digests(opened),
            receipt_names=lambda: _receipt_names(opened),
            programs=programs,
            judge=TrialJudge(programs) if has_trials(opened.plan) else None,
        )
    options.print_json(found)
    ctx.exit(0 if found.ok else 1)


def _programs(
    store: DirectoryStore, given: options.IsolationFlags
) -> AbstractContextManager[ProgramRunner | None]:
    if not has_trials(store.plan):
        return programs_of(store.plan, **given)
    # here and not at the top: it loads HTTP clients, which other stores have no use for
    from farm.runtime.settings import RunSettings
    from farm.wiring_eval import programs_for

    return programs_for(store, RunSettings(**given), slots=1)


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
