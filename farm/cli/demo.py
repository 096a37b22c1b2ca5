"""`farm demo`: scripted shows that end by themselves, on data that farm brings along."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.resources import as_file, files

import click

from farm.cli import again, options
from farm.cli.kinds import FilledPath
from farm.cli.main import Interrupted
from farm.cli.worker import EXIT_INJECTED_CRASH
from farm.errors import FarmError
from farm.runtime.standing import report_of
from farm.wiring import InitOptions, ensure_store, open_store, run, run_settings

_CLAIMED_AT = 100  # of a logical clock, which makes the show the same every time
_LEASE_MS = 10


@click.command()
@click.argument("what", type=click.Choice(["recovery", "eval", "qualify"]), default="recovery")
@click.option(
    "--input",
    metavar="FILE",
    type=FilledPath(allow_dash=True),
    help="Predictions.  [default: a sample of four cases]",
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--shards", type=click.IntRange(1, 1024), default=4, show_default=True)
@options.quiet
@click.pass_context
def command(
    ctx: click.Context, /, what: str, input: str | None, workers: int, shards: int, quiet: bool
) -> None:
    """Show a crash and its recovery, an evaluation, or a qualification.

    recovery: a real worker crashes after its durable claim; the incomplete snapshot is printed.
    At the instant its lease expires replacement workers take over; the complete one is printed.

    eval: three mock models answer ten tasks; their leaderboard is printed.

    qualify: a scripted server is measured in four cells; totals and summary are printed.
    """
    again.keep_nothing(ctx)  # its folder goes with it
    if what == "eval":
        from farm.cli.demo_eval import show as show_eval  # here: it loads all that asks models

        ctx.exit(show_eval())
    if what == "qualify":
        from farm.cli.demo_qualify import show  # here: it loads an HTTP client

        show()
        return
    with (
        tempfile.TemporaryDirectory(prefix="farm-demo-") as folder,
        as_file(files("farm.data") / "cases.json") as sample,
    ):
        store = f"{folder}/store"
        given = InitOptions(input=input or str(sample), shards=shards)
        ensure_store(store, given, on_events=lambda events: None)
        _crash_a_worker(store)
        _print_phase("after_worker_crash", store)
        _recover(store, workers=workers)
        _print_phase("after_recovery", store, last=True)


def _crash_a_worker(store: str) -> None:
    crashed = subprocess.run(
        [
            sys.executable, "-I", "-m", "farm", "worker", "--store", store,
            "--worker-id", "crashes", "--now-ms", str(_CLAIMED_AT), "--lease-ms", str(_LEASE_MS),
            "--crash-after-claim",
        ],
        stdout=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    if crashed.returncode != EXIT_INJECTED_CRASH:
        raise FarmError(f"the worker was to crash with 86, it ended with {crashed.returncode}")


def _recover(store: str, *, workers: int) -> None:
    # here and not at the top: anyio loads for 40 ms, which --help does not need
    from farm.runtime.settings import RunSettings

    settings = RunSettings(workers=workers, ttl_ms=_LEASE_MS, now_ms=_CLAIMED_AT + _LEASE_MS)
    with open_store(store) as opened:
        ending = run(opened, run_settings(store, settings), on_events=lambda events: None)
        if ending.signal is not None:
            raise Interrupted(ending.signal)
        if not opened.ledger().complete:
            raise FarmError("the recovery did not finish: run the demo again")


def _print_phase(phase: str, store: str, *, last: bool = False) -> None:
    with open_store(store) as opened:
        options.print_line({"phase": phase, "snapshot": report_of(opened)}, last=last)
