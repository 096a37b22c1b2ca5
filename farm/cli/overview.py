"""Which commands there are, and the page that lists them; printed without loading click."""

from __future__ import annotations

# command -> (module, one line for the list of commands)
COMMANDS = {
    "init": ("farm.cli.init", "Bind a prediction file to a store."),
    "run": ("farm.cli.run", "Run to the end and print the report."),
    "worker": ("farm.cli.worker", "Claim, score and publish one shard by hand."),
    "eval": ("farm.cli.eval", "Ask models, score their answers and print the report."),
    "status": ("farm.cli.status", "Print the report of where a run stands."),
    "verify": ("farm.cli.verify", "Re-derive everything in a store and say what does not hold."),
    "events": ("farm.cli.events", "Print the events of a run."),
    "requeue": ("farm.cli.requeue", "Open a quarantined shard again."),
    "rescore": ("farm.cli.rescore", "Score a store's cases by another scorer, into a new store."),
    "report": ("farm.cli.report", "Report runs: JSON, Markdown, JUnit, or a page to look at."),
    "compare": ("farm.cli.compare", "Compare two runs of the same tasks, case by case."),
    "gate": ("farm.cli.gate", "Pass or fail a run, for CI."),
    "tasks": ("farm.cli.tasks", "Check a file of tasks."),
    "score": ("farm.cli.score", "Score one prediction, and say why."),
    "sandbox": ("farm.cli.sandbox", "Run model-written code, and say how isolated that is."),
    "qualify": ("farm.cli.qualify", "Measure a served model in matched runs, with evidence."),
    "schema": ("farm.cli.schema", "Print the JSON Schema of a file or stream."),
    "demo": ("farm.cli.demo", "Show a crash and its recovery, with real processes."),
}
_HELP = """\
Usage: farm [OPTIONS] COMMAND [ARGS]...

  LLM evaluation runs that survive anything.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
{commands}

  Every command prints JSON on stdout; the log and all failures go to stderr.
"""


def overview() -> str:
    """Give the text of `farm --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return _HELP.format(commands="\n".join(lines))
