"""`farm run`: from a prediction file, or from where a store stands, to the report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import click

from farm.cli import again, options
from farm.cli.init import init_options
from farm.cli.kinds import Seconds
from farm.cli.main import fail
from farm.config import read_environment
from farm.log import Log
from farm.wiring import ensure_store, open_store, run, run_settings

if TYPE_CHECKING:
    from farm.runtime.settings import RunSettings


class RunFlags(options.SourceFlags, options.LeaseFlags, options.IsolationFlags, options.LogFlags):
    """Everything but the store and the detail."""

    workers: int
    deadline_s: float
    wait: bool
    max_attempts: int
    shards_per_process: int
    stall_s: float
    grace_s: float


@click.command()
@options.store
@options.source
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="At a time."
)
@options.lease
@click.option(
    "--deadline-s",
    type=Seconds(0),
    default=120.0,
    show_default=True,
    help="End as pending after so long; 0 is none.",
)
@click.option("--wait", is_flag=True, help="Wait for leases of other owners to expire.")
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 1_000_000),
    default=3,
    show_default=True,
    help="Failed executions before a shard is quarantined.",
)
@click.option(
    "--shards-per-process",
    type=click.IntRange(0, 1024),
    default=0,
    help="Shards that a worker process takes before a fresh one.  [default: by workers]",
)
@click.option(
    "--stall-s",
    type=Seconds(0.1),
    default=600.0,
    show_default=True,
    help="End a worker that says nothing for so long.",
)
@click.option(
    "--grace-s",
    type=Seconds(0),
    default=10.0,
    show_default=True,
    help="For workers to finish their shard after Ctrl-C or SIGTERM.",
)
@options.isolation
@options.detail
@options.log
@click.pass_context
def command(
    ctx: click.Context, /, store: str, detail: bool | None, **given: Unpack[RunFlags]
) -> None:
    """Run to the end and print the report.

    Makes the store when there is none. On an existing store, options that are not given are
    taken from it, so `farm run --store DIR` continues whatever was interrupted. What says how it is
    run or how --input is read is not kept: give it again, as the command that a run prints does.
    """
    # here and not at the top: anyio loads for 40 ms, which --help does not need
    from farm.runtime.evaluate import exit_code_of, explain
    from farm.runtime.standing import report_of

    again.remember(ctx)
    if given["wait"] and given["now_ms"] >= 0:
        raise click.UsageError(
            "--wait: the clock of --now-ms stands still, under it no lease ever ends: leave one of "
            "the two out."
        )
    environment = read_environment()
    settings = run_settings(store, settings_of(given))
    with Log(
        environment=environment,
        log_format=given["log_format"],
        quiet=given["quiet"],
        file=options.log_path(
            given["log_file"], environment, store, inputs={"--input": given["input"]}
        ),
    ) as log:
        ensure_store(store, init_options(given), on_events=log.write)
        opened = ctx.with_resource(open_store(store))
        settings = replace(settings, again=again.command_line(ctx))
        ending = run(opened, settings, on_events=log.write)
    options.print_json(report_of(opened, detail=detail, published=ending.published))
    ledger = opened.ledger()
    why = explain(
        ledger,
        ending,
        events=opened.events,
        deadline_s=settings.deadline_s,
        command=settings.again,
    )
    if why:
        fail(why)
    ctx.exit(exit_code_of(ledger, ending))


def settings_of(given: RunFlags) -> RunSettings:
    """Turn the flags into how a run is run; raises `UsageError` for a lease without an end."""
    from farm.runtime.settings import RunSettings  # here as above

    return RunSettings(
        workers=given["workers"],
        ttl_ms=given["lease_ms"],
        now_ms=options.logical_clock(given),
        deadline_s=given["deadline_s"],
        wait=given["wait"],
        max_attempts=given["max_attempts"],
        shards_per_process=given["shards_per_process"],
        delay_ms=given["delay_ms"],
        stall_s=given["stall_s"],
        grace_s=given["grace_s"],
        require_isolation=given["require_isolation"],
        allow_unisolated=given["allow_unisolated"],
    )
