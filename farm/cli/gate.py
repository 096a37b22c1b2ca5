"""`farm gate`: whether a CI job may pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from farm.cli import deliver, options
from farm.cli.compare import common
from farm.cli.kinds import FilledPath
from farm.cli.main import fail
from farm.cli.overwriting import check_result
from farm.cli.sides import place_of, read_pair, read_side

if TYPE_CHECKING:
    from farm.report.gate import GateResult


@click.command()
@options.store
@click.option(
    "--baseline",
    metavar="STORE|FILE",
    type=FilledPath(),
    help="The run to measure from: a store, or a saved report that lists its cases.",
)
@click.option(
    "--min-accuracy", type=float, metavar="X", help="The least accuracy that passes, such as 0.8."
)
@click.option(
    "--max-regression",
    type=float,
    metavar="X",
    help="The largest drop from the baseline that passes, such as 0.02.  [default: any drop that "
    "may be chance]",
)
@common
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "markdown", "junit"]),
    default="json",
    show_default=True,
    help="junit and markdown are for CI.",
)
@deliver.output
@deliver.step_summary
@options.quiet
@click.pass_context
def command(
    ctx: click.Context,
    /,
    store: str,
    baseline: str | None,
    min_accuracy: float | None,
    max_regression: float | None,
    common: bool,
    kind: str,
    output: str | None,
    step_summary: bool,
    quiet: bool,
) -> None:
    """Pass or fail a run.

    Exit code 0: passed. 5: a regression, proved by the paired test at 0.05 or past a threshold
    given here. 6: the run or its baseline is not complete or has no scored case, or the run passes
    only because cases have no score.
    """
    # here and not at the top: numpy loads for 100 ms, which --help does not need
    from farm.report.gate import check_thresholds, decide_gate, render_gate_markdown

    summary = deliver.summary_file(step_summary)
    check_thresholds(min_accuracy, max_regression, baselined=baseline is not None)
    sides = [("--store", place_of(store))]
    if baseline is not None:
        sides.append(("--baseline", place_of(baseline)))
    check_result(output, summary=summary, sides=sides)
    if baseline is None:
        run, base = read_side(store), None
    else:
        base, run = read_pair(baseline, store)
    result = decide_gate(
        run,
        baseline=base,
        min_accuracy=min_accuracy,
        max_regression=max_regression,
        common=common,
    )
    deliver.deliver([_rendered(kind, result)], output, last=not summary)
    if summary:
        deliver.add_summary(summary, render_gate_markdown(result))
    for reason in result.reasons:
        fail(reason)
    ctx.exit(result.exit_code)


def _rendered(kind: str, result: GateResult) -> str:
    from farm.report.gate import gate_suite, render_gate_json, render_gate_markdown
    from farm.report.junit import render_junit

    if kind == "markdown":
        return render_gate_markdown(result)
    if kind == "junit":
        return render_junit([gate_suite(result)])
    return render_gate_json(result).decode()
