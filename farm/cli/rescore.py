"""`farm rescore`: score a store's cases by another scorer, into a store of its own."""

from __future__ import annotations

from typing import Unpack

import click

from farm.cli import again, options
from farm.cli.kinds import FilledPath
from farm.cli.main import fail
from farm.cli.overwriting import check_written
from farm.config import read_environment
from farm.log import Log
from farm.wiring import open_store, run, run_settings, start_rescore


@click.command()
@options.store
@click.option("--scorer", required=True, metavar="NAME", help="How cases are scored now.")
@click.option("--into", required=True, metavar="DIR", type=FilledPath(), help="The new store.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="At a time."
)
@options.isolation
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    /,
    store: str,
    scorer: str,
    into: str,
    workers: int,
    quiet: bool,
    **given: Unpack[options.IsolationFlags],
) -> None:
    """Score a store's cases anew and say which verdicts changed.

    The first store is only read. The second is a run like any other: what was interrupted is
    continued by the same command.
    """
    # here and not at the top: anyio loads for 40 ms, which --help does not need
    from farm.runtime.evaluate import exit_code_of, explain
    from farm.runtime.settings import RunSettings
    from farm.runtime.verdicts import rescoring

    again.remember(ctx)
    check_written(into, option="--into", stores=[store], inputs={})
    with Log(environment=read_environment(), quiet=quiet) as log:
        old = ctx.with_resource(open_store(store))
        start_rescore(old, into, scorer, on_events=log.write)
        new = ctx.with_resource(open_store(into))
        settings = run_settings(into, RunSettings(workers=workers, **given))
        ending = run(new, settings, on_events=log.write)
    options.print_json(rescoring(old, new))
    ledger = new.ledger()
    why = explain(ledger, ending, events=new.events, deadline_s=0, command=settings.again)
    if why:
        fail(why)
    ctx.exit(exit_code_of(ledger, ending))
