"""`farm qualify`: plan, run, summary, compare and audit of matched runs of a served model."""

from __future__ import annotations

import shlex
from typing import Unpack

import click

from farm.cli import options
from farm.cli.kinds import FilledPath, Seconds
from farm.cli.main import fail
from farm.version import VERSION

_FORMATS = click.Choice(["json", "markdown"])


@click.group()
def command() -> None:
    """Measure a served model under a device lease, with evidence.

    A protocol and small code-task qualification; it gives no general quality rank.
    """


@command.command()
@click.argument("config", type=FilledPath())
@click.option(
    "--prefill-tokens-s",
    type=Seconds(0.001),
    default=1000.0,
    show_default=True,
    help="Assumed for the estimate.",
)
@click.option(
    "--decode-tokens-s",
    type=Seconds(0.001),
    default=20.0,
    show_default=True,
    help="Assumed for the estimate, for each request.",
)
@options.always_quiet
def plan(config: str, prefill_tokens_s: float, decode_tokens_s: float) -> None:
    """Print what a run would do: cells, tokens, time, and what provenance is missing.

    Sends no request and runs no hook.
    """
    from farm.files.runfiles import read_file
    from farm.qualify.config import read_config
    from farm.qualify.estimate import planned

    manifest = read_config(read_file(config), file=config)
    options.print_json(
        planned(manifest, prefill_tokens_s=prefill_tokens_s, decode_tokens_s=decode_tokens_s)
    )


@command.command()
@click.argument("config", type=FilledPath())
@click.option("--lease", required=True, metavar="FILE", type=FilledPath(), help="The device lease.")
@click.option(
    "--output", required=True, metavar="DIR", type=FilledPath(), help="Where the run lives."
)
@options.log
@click.pass_context
def run(
    ctx: click.Context, /, config: str, lease: str, output: str, **given: Unpack[options.LogFlags]
) -> None:
    """Measure every open cell; the same command continues an interrupted run."""
    from farm.config import read_environment
    from farm.files.runfiles import read_run
    from farm.log import Log
    from farm.qualify.summary import totals_of
    from farm.wiring_qualify import load_config, load_device_lease, qualify

    environment = read_environment()
    log_file = options.log_path(
        given["log_file"], environment, output, inputs={"CONFIG": config, "--lease": lease}
    )
    loaded, device_lease = load_config(config), load_device_lease(lease)
    with Log(
        environment=environment,
        log_format=given["log_format"],
        quiet=given["quiet"],
        file=log_file,
    ) as log:
        ended = qualify(
            loaded, device_lease, output=output, on_events=log.write, farm_version=VERSION
        )
    options.print_json(totals_of(*read_run(output), complete=ended.complete))
    again = shlex.join(["farm", "qualify", "run", config, "--lease", lease, "--output", output])
    if ended.signal is not None:
        fail(f"interrupted by {ended.signal.name}; finished cells are kept, continue with: {again}")
        ctx.exit(128 + ended.signal)
    if not ended.complete:
        fail(f"pending: open cells are leased by another process, continue later with: {again}")
        ctx.exit(1)


@command.command()
@click.argument("directory", metavar="DIR", type=FilledPath())
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json", "html"]),
    default="markdown",
    show_default=True,
)
@options.always_quiet
def summary(directory: str, form: str) -> None:
    """Print a table of the cells of a run: min, median and max over repeats, successes."""
    from farm.files.runfiles import read_run
    from farm.qualify.summary import summarize

    found = summarize(*read_run(directory))
    if form == "json":
        options.print_json(found)
    elif form == "html":
        from farm.report.qualification_page import render_page

        options.write_out("".join(render_page(found)).encode(), last=True)
    else:
        from farm.report.qualification import summary_markdown

        options.write_out(summary_markdown(found).encode(), last=True)


@command.command()
@click.argument("baseline", type=FilledPath())
@click.argument("candidate", type=FilledPath())
@click.option(
    "--across",
    multiple=True,
    metavar="DIMENSION",
    help="protocol, template, reasoning_mode, quantization, draft_model or engine: they are "
    "known to differ in it. Repeat for more.",
)
@click.option("--format", "form", type=_FORMATS, default="json", show_default=True)
@options.always_quiet
@click.pass_context
def compare(
    ctx: click.Context, /, baseline: str, candidate: str, across: tuple[str, ...], form: str
) -> None:
    """Print the differences of two runs per cell, with their ranges.

    Both must have measured the same fixtures. Runs that differ in protocol, template, reasoning
    mode, quantization, draft model or engine are separate experiments: unless --across names
    each such dimension, it is reported, no cell is compared and the exit code is 1.
    """
    from farm.files.runfiles import read_fixtures, read_run
    from farm.qualify.compare import compare_runs

    found = compare_runs(
        read_run(baseline),
        read_run(candidate),
        fixtures=(read_fixtures(baseline), read_fixtures(candidate)),
        names=(baseline, candidate),
        across=across,
    )
    if form == "json":
        options.print_json(found)
    else:
        from farm.report.qualification import comparison_markdown

        options.write_out(comparison_markdown(found).encode(), last=True)
    if not found.comparable:
        fail(found.reason)
        ctx.exit(1)


@command.command()
@click.argument("directory", metavar="DIR", type=FilledPath())
@click.option("--baseline", default="baseline", show_default=True, help="The configuration's name.")
@click.option("--format", "form", type=_FORMATS, default="json", show_default=True)
@options.always_quiet
def audit(directory: str, baseline: str, form: str) -> None:
    """Say where saved outputs of drafts differ from the baseline's, and whether drafts agree.

    Reads DIR/outputs.jsonl. Prints the follow-up steps; it runs none.
    """
    from farm.qualify.audit import audit_outputs, read_outputs
    from farm.wiring_qualify import outputs_of

    path, data = outputs_of(directory)
    found = audit_outputs(read_outputs(data, file=path), baseline=baseline)
    if form == "json":
        options.print_json(found)
    else:
        from farm.report.qualification import audit_markdown

        options.write_out(audit_markdown(found).encode(), last=True)
