"""`farm report`: one or several stores as a leaderboard, in four formats."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from farm.cli import deliver, options
from farm.cli.kinds import FilledPath, Name
from farm.cli.main import fail
from farm.cli.overwriting import check_result
from farm.cli.sides import models_of
from farm.core.ledger import Ledger
from farm.core.trial import has_trials
from farm.errors import UsageError
from farm.scoring.registry import scorer
from farm.wiring import open_store, program_runner

if TYPE_CHECKING:
    from farm.report.envelope import Envelope
    from farm.runtime.board import Board
    from farm.runtime.trials import Recorded
    from farm.scoring.programs import ProgramRunner
    from farm.store.directory import DirectoryStore


class ReportFlags(TypedDict):
    """The options that say what is printed, and where."""

    kind: str
    output: str | None
    title: str | None
    step_summary: bool
    detail: bool | None
    run_programs: bool
    quiet: bool
    require_isolation: str | None
    allow_unisolated: bool


@click.command()
@click.option(
    "--store",
    "stores",
    required=True,
    multiple=True,
    metavar="DIR",
    type=FilledPath(),
    help="The directory of a run; repeat for a leaderboard.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="MODEL",
    type=Name(),
    help="What the models of all stores are called, in order.  [default: as initialized, else the "
    "folder's name]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "markdown", "html", "junit"]),
    default="json",
    show_default=True,
    help="html is one self-contained page with every case.",
)
@deliver.output
@click.option("--title", metavar="TEXT", type=Name(), help="The title of the page.")
@deliver.step_summary
@click.option(
    "--run-programs",
    is_flag=True,
    help="Run each program of a code_exec run again, so that the page tells of every assertion.",
)
@options.isolation
@options.detail
@options.quiet
@click.pass_context
def command(
    ctx: click.Context, /, stores: Sequence[str], names: Sequence[str], **given: Unpack[ReportFlags]
) -> None:
    """Report recorded runs, several as one leaderboard.

    Cases pair up by their `task`, or by their id. A run that is not complete is reported as far
    as it is, says so, and ends with exit code 1 (4 when shards are quarantined).
    """
    # here and not at the top: numpy loads for 100 ms, which --help does not need
    from farm.report.build import DETAIL_CASES
    from farm.report.markdown import render_step_summary
    from farm.runtime.board import envelope_of, gather
    from farm.runtime.trials import recordings

    if given["run_programs"] and given["kind"] != "html":
        raise UsageError("--run-programs: only --format html tells of single assertions")
    summary = deliver.summary_file(given["step_summary"])
    sides = [("--store", path) for path in stores]
    check_result(given["output"], summary=summary, sides=sides)
    opened = [ctx.with_resource(open_store(path)) for path in stores]
    own = [models_of(store) for store in opened]
    if names and len(names) != sum(map(len, own)):
        raise UsageError(
            f"{len(names)} --name for {sum(map(len, own))} models in {len(stores)} --store: give "
            "one for each"
        )
    left = iter(names)
    called = [tuple(next(left) for _ in models) for models in own] if names else own
    runs = [
        run
        for store, models in zip(opened, called, strict=True)
        for run in recordings(store, names=models)
    ]
    board = gather(runs)
    listed = given["detail"]
    if listed is None:
        listed = len(board.runs) <= DETAIL_CASES
    envelope = envelope_of(runs, board, detail=listed and given["kind"] == "json")
    title = given["title"] or _title(runs)
    programs = _runners(ctx, runs, given) if given["run_programs"] else {}
    text = _rendered(given["kind"], title, envelope, runs, board, programs)
    deliver.deliver(text, given["output"], last=not summary)
    if summary:
        deliver.add_summary(summary, render_step_summary(envelope, title=title))
    ctx.exit(_exit_code(opened))


def _runners(
    ctx: click.Context, runs: Sequence[Recorded], given: ReportFlags
) -> dict[str, ProgramRunner]:
    """Open what runs the programs of each scorer that runs any, until the command ends."""
    names = {run.plan.identity.scorer.name for run in runs if not run.asked}
    names |= {task.metric_name for run in runs for task in run.tasks.values()}
    return {
        name: ctx.with_resource(
            program_runner(
                name,
                require_isolation=given["require_isolation"],
                allow_unisolated=given["allow_unisolated"],
            )
        )
        for name in sorted(names)
        if scorer(name).runs_programs
    }


def _title(runs: Sequence[Recorded]) -> str:
    return runs[0].model if len(runs) == 1 else f"{len(runs)} models compared"


def _rendered(
    kind: str,
    title: str,
    envelope: Envelope,
    runs: Sequence[Recorded],
    board: Board,
    programs: Mapping[str, ProgramRunner],
) -> Iterable[str]:
    """Return the text of a format, in pieces; the cases of a page are read while it is written."""
    if kind == "html":
        from farm.report.html import page_of, render_html
        from farm.runtime.casebook import case_rows

        cases = len(board.runs)
        subtitle = f"scored by {runs[0].scorer}, {cases:,} case{'s' if cases > 1 else ''}"
        rows = case_rows(sorted(runs, key=lambda run: run.model), programs=programs)
        return render_html(page_of(envelope, title=title, subtitle=subtitle, cases=rows))
    if kind == "markdown":
        from farm.report.markdown import render_markdown

        return [render_markdown(envelope)]
    if kind == "junit":
        from farm.report.junit import render_junit, suites_of

        return [render_junit(suites_of(board.runs), name=title)]
    from farm.report.envelope import to_json

    return [to_json(envelope).decode()]


def _exit_code(stores: Sequence[DirectoryStore]) -> int:
    ledgers = [store.ledger() for store in stores]
    for store, ledger in zip(stores, ledgers, strict=True):
        if not ledger.complete:
            done = sum(lease.done for lease in ledger.leases)
            fail(
                f"{store.path!r} is not complete, {done} of {len(ledger.leases)} shards are done: "
                f"{_way_on(store, ledger)}"
            )
    if all(ledger.complete for ledger in ledgers):
        return 0
    return 4 if all(ledger.settled for ledger in ledgers) else 1


def _way_on(store: DirectoryStore, ledger: Ledger) -> str:
    """Name the command that goes on; to run again does nothing for a quarantined shard."""
    path = shlex.quote(store.path)
    run = f"farm {'eval' if has_trials(store.plan) else 'run'} --store {path}"
    quarantined = [lease.shard for lease in ledger.leases if lease.quarantined]
    if not quarantined:
        return f"continue with: {run}"
    count = f"{len(quarantined)} {'is' if len(quarantined) == 1 else 'are'} quarantined"
    requeue = f"farm requeue --store {path} --shard {quarantined[0]}"
    more = " (and --shard for each of the others)" if len(quarantined) > 1 else ""
    return f"{count}, open them again with: {requeue}{more}, then continue with: {run}"
