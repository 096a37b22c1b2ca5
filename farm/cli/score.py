"""`farm score`: the score of one prediction, from the shell, with its reasons if asked."""

from __future__ import annotations

import json
from typing import Any, Unpack

import click
import msgspec

from farm.cli import options
from farm.core.result import UNSCORABLE
from farm.core.vocabulary import POST_PROCESSES
from farm.errors import SpecError, UsageError
from farm.scoring.explain import explain
from farm.scoring.registry import Scorer, scorer
from farm.scoring.score import value_of


@click.command()
@click.option("--metric", required=True, help="Name of the metric, such as f1 or number@0.01.")
@click.option("--prediction", required=True, help="What the model answered.")
@click.option("--target", "targets", required=True, multiple=True, help="A right answer; repeat.")
@click.option(
    "--post-process",
    type=click.Choice(POST_PROCESSES),
    default="none",
    show_default=True,
    help="What to do to the prediction first.",
)
@click.option(
    "--explain", "reasons", is_flag=True, help="Show span, steps and rule; or code and assertions."
)
@options.isolation
@options.quiet
def score(
    metric: str,
    prediction: str,
    targets: tuple[str, ...],
    post_process: str,
    reasons: bool,
    quiet: bool,
    **isolation: Unpack[options.IsolationFlags],
) -> None:
    """Score one prediction against its targets.

    Prints one JSON object with metric, version, score, correct and outcome. With code_exec the
    program in the prediction is run, and the targets are assertions.
    """
    try:
        found = scorer(metric)
    except SpecError as error:  # on the command line an unknown name is wrong usage
        raise UsageError(f"--metric: {error}") from error
    if found.runs_programs:
        told = _run(found, prediction, targets, post_process, isolation)
    else:
        told = _score(metric, prediction, targets, post_process)
    if not reasons:
        kept = ("metric", "version", "post_process", "score", "correct", "outcome")
        told = {name: told[name] for name in kept}
    # arguments that were no UTF-8 arrive as lone surrogates, which no output can carry
    line = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    options.write_out(line, last=True)


def _run(
    metric: Scorer,
    prediction: str,
    targets: tuple[str, ...],
    post_process: str,
    isolation: options.IsolationFlags,
) -> dict[str, Any]:
    # here and not at the top: a sandbox is started for the one metric that needs it
    from farm.scoring.programcase import explain_program
    from farm.wiring import program_runner

    if post_process != "none":
        raise UsageError(
            f"--post-process: {post_process!r} is for texts; {metric.name!r} takes the program "
            "out of the prediction itself, leave the option away"
        )
    with program_runner(metric.name, **isolation) as runner:
        return dict(msgspec.to_builtins(explain_program(metric, prediction, targets, runner)))


def _score(
    metric: str, prediction: str, targets: tuple[str, ...], post_process: str
) -> dict[str, Any]:
    explained = explain(metric, prediction, targets, post_process_rule=post_process)
    told = msgspec.to_builtins(explained)
    if explained.outcome == UNSCORABLE and explained.extracted.found:
        # no verdict counts here, but the definition still gives the two texts a score
        told["score"] = value_of(scorer(metric), explained.extracted.text, targets) or 0.0
        if told["score"]:
            told["rule"] += "; the score is what its definition gives, and counts nowhere"
    return dict(told)


command = score
