"""`farm worker`: one shard by hand."""

from __future__ import annotations

import os
from typing import Unpack

import click

from farm.cli import again, options
from farm.cli.kinds import Name
from farm.cli.main import Interrupted
from farm.core.lease import Lease
from farm.runtime.by_hand import HandSettings, give_back, work_once
from farm.wiring import open_store, programs_of, tell_if_untold

EXIT_INJECTED_CRASH = 86


class WorkerFlags(options.LeaseFlags, options.IsolationFlags):
    """The options besides its own."""

    quiet: bool


@click.command()
@options.store
@click.option("--worker-id", required=True, metavar="NAME", type=Name(), help="Who claims.")
@options.lease
@click.option("--crash-after-claim", is_flag=True, help="Exit 86 once the claim is durable.")
@options.isolation
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    /,
    store: str,
    worker_id: str,
    crash_after_claim: bool,
    **given: Unpack[WorkerFlags],
) -> None:
    """Claim, score and publish one eligible shard by hand.

    Prints one JSON line for the claim and one for the result; with nothing eligible,
    `{"claimed": false}`. A worker that lost its lease meanwhile ends with exit code 1.
    """
    again.remember(ctx)
    settings = HandSettings(
        worker_id=worker_id,
        worker_pid=os.getpid(),
        ttl_ms=given["lease_ms"],
        now_ms=options.logical_clock(given),
        delay_ms=given["delay_ms"],
    )

    claimed: list[Lease] = []

    def on_claim(lease: Lease) -> None:
        claimed.append(lease)
        _say(claimed=True, shard=lease.shard, version=lease.version, until=lease.until)
        if crash_after_claim:
            os._exit(EXIT_INJECTED_CRASH)

    with (
        open_store(store) as opened,
        programs_of(
            opened.plan,
            require_isolation=given["require_isolation"],
            allow_unisolated=given["allow_unisolated"],
        ) as programs,
    ):
        tell_if_untold(opened, lambda events: None)
        try:
            done = work_once(
                opened,
                settings,
                on_claim=on_claim,
                open_programs=None if programs is None else lambda: programs,
            )
        except Interrupted:
            for lease in claimed:
                give_back(opened, lease, reason="the worker was interrupted")
            raise
    if done is None or done.receipt is None:
        _say(last=True, claimed=False)
        return
    _say(
        last=True,
        claimed=True,
        shard=done.shard,
        version=done.version,
        correct=done.receipt.correct,
        total=done.receipt.total,
        worker_pid=done.receipt.worker_pid,
    )


def _say(*, last: bool = False, **fields: object) -> None:
    options.print_line(fields, last=last)
