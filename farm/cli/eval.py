"""`farm eval`: models answer tasks, and the answers become a report."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import click

from farm.cli import again, eval_options, options
from farm.cli.eval_options import EvalFlags
from farm.cli.kinds import FilledPath
from farm.cli.main import conclude, fail
from farm.cli.overwriting import check_written
from farm.config import Environment, read_environment
from farm.core.printable import printable
from farm.log import Log
from farm.wiring import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from farm.report.envelope import Envelope
    from farm.runtime.tally import Tally


@click.command()
@options.store
@eval_options.selection
@eval_options.asking
@options.isolation
@click.option(
    "--format",
    "kind",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
    help="What is printed; the store gets report.json, report.md and report.html.",
)
@click.option(
    "--stream",
    metavar="FILE",
    type=FilledPath(allow_dash=True),
    help="Write a JSON line for each finished trial; - is stdout, instead of the report.",
)
@options.log
@click.pass_context
def command(ctx: click.Context, /, store: str, **given: Unpack[EvalFlags]) -> None:
    """Ask models, score their answers and print the report.

    Makes the store when there is none. The same command again continues what was interrupted and
    asks nothing twice that was answered; a complete store needs no --tasks and no --models.
    """
    # here and not at the top: an evaluation loads for 300 ms, which --help does not need
    from farm.files.output import open_output
    from farm.runtime.evaluate import exit_code_of, explain
    from farm.runtime.tally import Tally
    from farm.wiring_eval import costs_of, ensure_evaluation, run_evaluation
    from farm.wiring_evalreport import Onlooker, write_reports

    again.remember(ctx)
    environment = read_environment()
    asking = eval_options.asking_of(given)
    log_file = _log_file(store, given, environment)
    with Log(
        environment=environment,
        log_format=given["log_format"],
        quiet=given["quiet"],
        file=log_file,
        progress=False,
    ) as log:
        selection = eval_options.selection_of(given)
        for line in ensure_evaluation(store, selection, on_events=log.write):
            fail(f"left out: {line}")
        opened = ctx.with_resource(open_store(store))
        plan = opened.plan
        models = plan.identity.models
        tally = Tally(models, trials=plan.cases // len(models), clock=time.monotonic)
        write: Callable[[bytes], object] | None = None
        if given["stream"] == "-":
            write = options.write_plain
        elif given["stream"] is not None:
            write = ctx.with_resource(open_output(given["stream"]))
        watch = Onlooker(opened, tally, write=write)
        with _view(tally, environment, given):
            continuing = again.command_line(ctx)
            settings = replace(eval_options.settings_of(given), again=continuing)
            ending = run_evaluation(opened, asking, settings, on_events=log.write, watch=watch)
    envelope = write_reports(opened, costs=costs_of(opened))
    if given["stream"] != "-":
        _print(envelope, given["kind"])
    conclude()
    ledger = opened.ledger()
    why = explain(
        ledger, ending, events=opened.events, deadline_s=given["deadline_s"], command=continuing
    )
    if why:
        fail(why)
    if watch.failure is not None:  # the same command writes the whole stream
        raise watch.failure
    ctx.exit(exit_code_of(ledger, ending))


def _log_file(store: str, given: EvalFlags, environment: Environment) -> str:
    """Give the log's file; refuse it, or a stream, over what the run is made of."""
    path = given["stream"] if given["stream"] != "-" else None
    if path is None and not given["log_file"] and not environment.log_dir:
        return ""
    from farm.store.cacheplace import remembered_place

    inputs = {
        "--tasks": given["tasks"],
        "--models": given["models"],
        "--prices": given["prices"],
    }
    if given["models"] is not None:
        from farm.wiring_eval import files_of_models

        inputs |= files_of_models(given["models"])
    cache = given["cache"] or remembered_place(store)
    log_file = options.log_path(given["log_file"], environment, store, inputs=inputs, cache=cache)
    if path is not None:
        inputs["--log-file"] = log_file or None
        check_written(path, option="--stream", stores=[store], inputs=inputs, cache=cache)
    return log_file


def _view(
    tally: Tally, environment: Environment, given: EvalFlags
) -> AbstractContextManager[object]:
    """Open the live view where there is a terminal to draw on."""
    plain = given["quiet"] or given["log_format"] != "auto" or environment.dumb
    if plain or not sys.stderr.isatty():
        return nullcontext()
    from farm.view import EvalView

    return EvalView(tally, environment=environment)


def _print(envelope: Envelope, kind: str) -> None:
    if kind == "json":
        options.print_json(envelope)
        return
    from farm.report.markdown import render_markdown

    text = render_markdown(envelope)
    if sys.stdout.isatty():
        text = "\n".join(printable(line) for line in text.split("\n"))
    options.write_plain(text.encode(), last=True)
