"""One scored trial, and many of them as a table of models by tasks.

A trial is a row, however it was made; a table is what the statistics need. Building the table is
where bad rows are refused by name, so nothing downstream meets a score that is not one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from farm.core.result import OUTCOMES, counts
from farm.errors import BadNumbers
from farm.stats.arrays import Floats, Ints
from farm.stats.means import cluster_codes

# Never a wrong answer, never in a mean. A timeout is: one that has a score was a program's, and a
# request that ran out of time has none.
NOT_SCORED = frozenset(name for name in OUTCOMES if not counts(name))
_NAMES: Final = (
    ("model_id", str, "a text"),
    ("task_id", str, "a text"),
    ("category", str, "a text"),
    ("sample", int, "a whole number"),
)
_SHOWN = 80  # characters of a foreign value in a message


class EvalRun(Struct, frozen=True, kw_only=True):
    """One sample of one task by one model.

    `score` lies in [0, 1]; None means the trial ended without one (an error, a request's
    timeout, an unscorable case) and it counts as missing, never as 0. `confidence` is the
    model's own; `token_nll` the summed negative log-likelihood of `token_count` tokens;
    `latency_s` in seconds. (model_id, task_id, sample) is unique; neither name is empty, samples
    count from 0.
    """

    model_id: str
    task_id: str
    sample: int = 0
    category: str = ""
    metric_name: str = ""
    score: float | None
    correct: bool | None = None
    outcome: str = ""
    confidence: float | None = None
    token_nll: float | None = None
    token_count: int | None = None
    latency_s: float | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """True when the trial counts in a mean."""
        return self.score is not None and self.outcome not in NOT_SCORED

    @property
    def ended(self) -> str:
        """The outcome; where the row gives none, what its verdict amounts to."""
        if self.outcome:
            return self.outcome
        if self.score is None:
            return "error"
        return "correct" if self.correct else "wrong"

    @property
    def place(self) -> str:
        """The row's name in messages."""
        return f"model {self.model_id!r}, task {self.task_id!r}, sample {self.sample!r}"


# A trial, or its fields by name, as `farm eval --stream` writes them; further ones are passed over.
TrialRow = EvalRun | Mapping[str, object]


class ScoreTable(Struct, frozen=True, kw_only=True):
    """Scores of models (rows) on tasks (columns); NaN where a model has none.

    Build it with `tabulate` from trials or `ScoreTable.of` from an array: both check. `categories`
    and `clusters`, when given, hold one code per task; `category_names` names the former.
    """

    model_ids: tuple[str, ...]
    task_ids: tuple[str, ...]
    scores: npt.NDArray[np.float64]
    category_names: tuple[str, ...] = ()
    categories: npt.NDArray[np.int64] | None = None
    clusters: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        scores: npt.ArrayLike,
        *,
        model_ids: Sequence[str],
        task_ids: Sequence[str] = (),
        categories: Sequence[str] | None = None,
        clusters: Sequence[object] | None = None,
    ) -> ScoreTable:
        """Check an array of models by tasks (NaN is missing) and wrap it, without a copy.

        `task_ids` may be left out: columns then pair up by place.
        """
        array = np.asarray(scores, dtype=np.float64)
        if array.ndim != 2 or array.shape[0] != len(model_ids):
            raise BadNumbers(
                f"scores: shape {array.shape} does not give one row for each of "
                f"{len(model_ids)} models"
            )
        for name in model_ids:
            if not isinstance(name, str):
                raise BadNumbers(f"model_ids: {_shown(name)} must be a text")
        if len(set(model_ids)) != len(model_ids):
            raise BadNumbers(f"model_ids: {_repeated(model_ids)!r} is there twice")
        bad = np.argwhere((array < 0.0) | (array > 1.0))
        if bad.size:
            row, column = (int(place) for place in bad[0])
            raise BadNumbers(
                f"score {float(array[row, column])!r} of model {model_ids[row]!r} in column "
                f"{column} is outside [0, 1]"
            )
        per_task = {"task_ids": task_ids or None, "categories": categories, "clusters": clusters}
        for name, values in per_task.items():
            if values is not None and len(values) != array.shape[1]:
                raise BadNumbers(f"{name}: {len(values)} values for {array.shape[1]} tasks")
        names = tuple(sorted(set(categories))) if categories is not None else ()
        return cls(
            model_ids=tuple(model_ids),
            task_ids=tuple(task_ids),
            scores=array,
            category_names=names,
            categories=None if categories is None else _codes(categories, names),
            clusters=None if clusters is None else cluster_codes(clusters),
        )

    def of_model(self, row: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return a model's scores that are there, and where they are."""
        there = ~np.isnan(self.scores[row])
        return self.scores[row][there], there


def tabulate(runs: Iterable[TrialRow], *, clusters: Mapping[str, str] | None = None) -> ScoreTable:
    """Return the table of the trials: samples of one task averaged, models and tasks sorted.

    The order of the trials does not matter; one may be a mapping of the fields of `EvalRun`, with
    further keys. What is no trial, a score that is no number in [0, 1], a second row of
    one (model, task, sample) and a task with two categories are refused by name. `clusters` maps
    every task id to its cluster.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    categories: dict[str, str] = {}
    models: set[str] = set()
    seen: set[tuple[str, str, int]] = set()
    for run in map(_read, runs):
        _check_run(run, seen=seen, categories=categories)
        models.add(run.model_id)
        if run.scored and run.score is not None:
            samples.setdefault((run.model_id, run.task_id), []).append(float(run.score))
    model_ids, task_ids = sorted(models), sorted(categories)
    rows = {model: row for row, model in enumerate(model_ids)}
    columns = {task: column for column, task in enumerate(task_ids)}
    scores = np.full((len(model_ids), len(task_ids)), np.nan)
    for (model, task), values in samples.items():
        # fsum: the mean of the samples must not depend on the order they came in
        scores[rows[model], columns[task]] = math.fsum(values) / len(values)
    if clusters is not None and (lost := [task for task in task_ids if task not in clusters]):
        raise BadNumbers(f"clusters: task {lost[0]!r} has no cluster, {len(lost)} such in all")
    return ScoreTable.of(
        scores,
        model_ids=model_ids,
        task_ids=task_ids,
        categories=[categories[task] for task in task_ids],
        clusters=None if clusters is None else [clusters[task] for task in task_ids],
    )


def as_table(
    runs: Iterable[TrialRow] | ScoreTable, *, clusters: Mapping[str, str] | None = None
) -> ScoreTable:
    """Return a table as it is, and trials as a table."""
    return runs if isinstance(runs, ScoreTable) else tabulate(runs, clusters=clusters)


def _read(trial: TrialRow) -> EvalRun:
    if isinstance(trial, EvalRun):
        return trial
    try:
        return msgspec.convert(trial, EvalRun)
    except msgspec.ValidationError as error:
        if not isinstance(trial, Mapping):
            raise BadNumbers(
                f"{_shown(trial)} is no trial: give an EvalRun or a mapping"
            ) from error
        place = ", ".join(
            f"{name} {_shown(trial[name])}"
            for name in ("model_id", "task_id", "sample")
            if name in trial
        )
        raise BadNumbers(f"{place or 'a row'}: {error}") from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _check_run(
    run: EvalRun, *, seen: set[tuple[str, str, int]], categories: dict[str, str]
) -> None:
    # a Struct does not check types: callers may have put in anything
    for name, kind, what in _NAMES:
        value = getattr(run, name)
        if not isinstance(value, kind):
            raise BadNumbers(f"{run.place}: {name} {_shown(value)} must be {what}")
    for name, text in (("model_id", run.model_id), ("task_id", run.task_id)):
        if not text:
            raise BadNumbers(f"{run.place}: {name} must not be empty")
    if run.sample < 0:
        raise BadNumbers(f"{run.place}: sample must be 0 or more")
    key = (run.model_id, run.task_id, run.sample)
    if key in seen:
        raise BadNumbers(f"{run.place}: there twice; a trial has one vote, drop one of the rows")
    seen.add(key)
    score: object = run.score
    if score is not None and not (isinstance(score, Real) and 0.0 <= float(score) <= 1.0):
        raise BadNumbers(f"{run.place}: score {score!r} must be a number in [0, 1]")
    known = categories.setdefault(run.task_id, run.category)
    if known != run.category:
        raise BadNumbers(f"{run.place}: category {run.category!r}, elsewhere {known!r}")


def _codes(values: Sequence[str], names: Sequence[str]) -> Ints:
    numbers = {name: code for code, name in enumerate(names)}
    return np.array([numbers[value] for value in values], dtype=np.int64)


def _repeated(values: Sequence[str]) -> str:
    return next(value for place, value in enumerate(values) if value in values[:place])
