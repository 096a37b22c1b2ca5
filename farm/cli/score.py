"""`farm score`: the score of one prediction, from the shell, with its reasons if asked."""

from __future__ import annotations

import json

import click
import msgspec

from farm.cli import options
from farm.core.result import UNSCORABLE
from farm.core.vocabulary import POST_PROCESSES
from farm.errors import SpecError, UsageError
from farm.scoring.explain import explain
from farm.scoring.registry import scorer
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
@click.option("--explain", "reasons", is_flag=True, help="Show span, steps and deciding rule.")
@options.quiet
def score(
    metric: str,
    prediction: str,
    targets: tuple[str, ...],
    post_process: str,
    reasons: bool,
    quiet: bool,
) -> None:
    """Score one prediction against its targets.

    Prints one JSON object with metric, version, score, correct and outcome.
    """
    try:
        scorer(metric)
    except SpecError as error:  # on the command line an unknown name is wrong usage
        raise UsageError(f"--metric: {error}") from error
    explained = explain(metric, prediction, targets, post_process_rule=post_process)
    told = msgspec.to_builtins(explained)
    if explained.outcome == UNSCORABLE and explained.extracted.found:
        # no verdict counts here, but the definition still gives the two texts a score
        told["score"] = value_of(scorer(metric), explained.extracted.text, targets) or 0.0
    if not reasons:
        kept = ("metric", "version", "post_process", "score", "correct", "outcome")
        told = {name: told[name] for name in kept}
    # arguments that were no UTF-8 arrive as lone surrogates, which no output can carry
    options.write_out(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


command = score
