"""`farm demo eval`: three mock models answer ten tasks through real worker processes."""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import msgspec

from farm.cli import options
from farm.cli.main import Interrupted, fail
from farm.files.tasks import validate_file
from farm.report.envelope import Envelope, failed, to_json
from farm.report.markdown import render_markdown
from farm.runtime.settings import RunSettings
from farm.wiring import open_store
from farm.wiring_eval import Asking, Selection, costs_of, ensure_evaluation, run_evaluation
from farm.wiring_evalreport import write_reports

MODELS: Final = ("rule_based", "noisy", "biased")
_WORKERS: Final = 2
_SHARDS: Final = 4


def show() -> int:
    """Run the demo and print its table; give the exit code.

    0 only if every task is valid, every trial was scored, calibration was aggregated for each
    model, and `rule_based` ranks strictly above `noisy`. Else the envelope is printed, and its
    error says what does not hold.
    """
    with (
        tempfile.TemporaryDirectory(prefix="farm-demo-") as folder,
        as_file(files("farm.data") / "tasks.jsonl") as tasks,
    ):
        envelope = _evaluate(Path(folder), str(tasks))
        wrong = faults_of(envelope, tasks=validate_file(tasks).validated)
    if not wrong:
        options.write_plain(render_markdown(envelope).encode(), last=True)
        return 0
    told = failed(envelope, code="demo_failed", detail="; ".join(wrong))
    options.write_plain(to_json(told), last=True)
    for line in wrong:
        fail(line)
    return 1


def _evaluate(folder: Path, tasks: str) -> Envelope:
    models = folder / "models.toml"
    models.write_text("".join(f'[models.{name}]\nadapter = "{name}"\n' for name in MODELS))
    store = str(folder / "store")
    selection = Selection(tasks=tasks, models=str(models), shards=_SHARDS)
    ensure_evaluation(store, selection, on_events=lambda events: None)
    with open_store(store) as opened:
        ending = run_evaluation(
            opened,
            Asking(models=str(models)),
            RunSettings(workers=_WORKERS, allow_unisolated=True),
            on_events=lambda events: None,
            watch=None,
        )
        if ending.signal is not None:
            raise Interrupted(ending.signal)
        return write_reports(opened, costs=costs_of(opened))


def faults_of(envelope: Envelope, *, tasks: int) -> list[str]:
    """Say what a clean run's report does not show; `tasks` is how many are valid."""
    found: list[str] = []
    if not isinstance(envelope.error, msgspec.UnsetType):
        found.append(f"the run failed: {envelope.error.detail}")
    if envelope.summary.tasks != tasks or envelope.summary.models != len(MODELS):
        found.append(f"{envelope.summary.tasks} of {tasks} tasks were asked")
    for name in MODELS:
        accuracy = envelope.accuracy.get(name)
        if accuracy is None or accuracy.scored != tasks:
            found.append(f"{name}: not every task was scored")
        calibration = envelope.calibration.get(name)
        if calibration is None or calibration.ece is None:
            found.append(f"{name}: calibration was not aggregated")
    means = {row.model_id: row.mean_score for row in envelope.leaderboard}
    best, noisy = means.get("rule_based"), means.get("noisy")
    if best is None or noisy is None or not best > noisy:
        found.append(f"rule_based ({best}) does not rank strictly above noisy ({noisy})")
    return found
