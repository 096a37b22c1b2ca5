"""Evaluate adapters on tasks in this process: for notebooks, tests, and adapters that are new.

The same prompts, the same verdicts and the same report as `farm eval`, which runs in a store,
survives everything and retries; here a call that fails is an error at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from farm.adapters.protocol import ModelAdapter
from farm.core.generation import Generation
from farm.core.plan import seed_of
from farm.core.result import counts
from farm.core.task import TaskSpec
from farm.core.trial import Trials, questions_digest, scorer_of
from farm.errors import SpecError
from farm.report.caution import FLATTERING, cautions
from farm.report.envelope import Envelope, build_envelope
from farm.runtime.answered import Judge
from farm.runtime.corpora import corpus_of_answers
from farm.runtime.inprocess import Job, ask_at_once, ask_in_order
from farm.scoring.registry import scorer
from farm.scoring.trial import TrialJudge, Verdict, runs_programs
from farm.stats.evalrun import EvalRun

if TYPE_CHECKING:
    from farm.sandbox.runner import Sandbox


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation found: a row for each trial, and the report as JSON values.

    `envelope` has the keys of `farm schema leaderboard`: leaderboard, pairwise, calibration,
    perplexity, accuracy, outcomes, summary, signature and more.
    """

    runs: tuple[EvalRun, ...]
    envelope: dict[str, Any]


def run_eval(
    adapters: Sequence[ModelAdapter],
    tasks: Sequence[TaskSpec],
    parallel: bool = True,
    max_workers: int = 8,
    *,
    samples: int = 1,
) -> EvalReport:
    """Ask every adapter every task and report; rows are in the order adapters, tasks, samples.

    In parallel, at most `max_workers` calls are out at a time, and adapters are called from
    several threads. Otherwise all is done in this thread, in the order of the rows; the scores
    are the same. What an adapter raises makes its trial an error, as does a Generation whose
    fields break their contract; MemoryError, KeyboardInterrupt and SystemExit pass. Raises
    SpecError for two adapters of one id, two tasks of one id, what is no adapter or no task, and
    an adapter that gives no Generation at all, by its name; SandboxUnavailable where tasks run
    programs and this machine does not isolate them.
    """
    adapters, tasks = list(adapters), list(tasks)
    _check(adapters, tasks, max_workers=max_workers, samples=samples)
    began = time.perf_counter()
    jobs: list[Job] = [
        (adapter, task, sample)
        for adapter in adapters
        for task in tasks
        for sample in range(samples)
    ]
    threads = min(max_workers, max(1, len(jobs)))
    with _programs(tasks, slots=threads if parallel else 1) as programs:
        judge = _Keeping(TrialJudge(programs))
        if parallel and threads > 1:
            rows = ask_at_once(jobs, judge, threads=threads)
        else:
            rows = ask_in_order(jobs, judge)
    trials = Trials(
        tasks=tuple(tasks), models=tuple(one.model_id for one in adapters), samples=samples
    )
    used = scorer_of(tasks, lambda metric: scorer(metric).version)
    envelope = build_envelope(
        rows,
        seed=seed_of([questions_digest(trials)], f"{used.name}@{used.version}"),
        wall_seconds=round(time.perf_counter() - began, 6),
    )
    if any(task.metric_name == FLATTERING for task in tasks):
        envelope = _with_corpus(envelope, trials, judge)
    return EvalReport(runs=tuple(rows), envelope=msgspec.json.decode(msgspec.json.encode(envelope)))


class _Keeping:
    """Judges as the judge it is given, and keeps the scored answers that corpus figures need."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.kept: dict[str, str] = {}  # by trial; threads write different ones

    def __call__(self, id: str, task: TaskSpec, answer: Generation) -> Verdict:
        """Return the verdict on one answer."""
        judged = self._judge(id, task, answer)
        if task.metric_name == FLATTERING and counts(judged[0].outcome):
            self.kept[id] = answer.text
        return judged


def _with_corpus(envelope: Envelope, trials: Trials, judge: _Keeping) -> Envelope:
    """Return the report with the published figures of each model that has any, and the warning."""
    own: dict[str, list[tuple[TaskSpec, str]]] = {}
    for trial, task in trials:
        if trial.id in judge.kept:
            own.setdefault(trial.model, []).append((task, judge.kept[trial.id]))
    corpus = {model: corpus_of_answers(answers) for model, answers in sorted(own.items())}
    shown = {model: figures for model, figures in corpus.items() if figures}
    return msgspec.structs.replace(
        envelope,
        corpus=shown or UNSET,
        warnings=cautions(FLATTERING, next(iter(shown.values()), ())),
    )


def _check(
    adapters: Sequence[ModelAdapter], tasks: Sequence[TaskSpec], *, max_workers: int, samples: int
) -> None:
    if max_workers < 1 or samples < 1:
        raise SpecError(f"max_workers {max_workers} and samples {samples} must be at least 1")
    for adapter in adapters:
        named = isinstance(getattr(adapter, "model_id", None), str)
        if not named or not callable(getattr(adapter, "generate", None)):
            raise SpecError(
                f"adapters: a {type(adapter).__name__} is no adapter: give objects with a text "
                "model_id and a method generate(prompt, task)"
            )
    for task in tasks:
        if not isinstance(task, TaskSpec):
            raise SpecError(
                f"tasks: a {type(task).__name__} is no task: give what TaskSpec or validate_file "
                "makes"
            )
    for what, ids in (
        ("model", [adapter.model_id for adapter in adapters]),
        ("task", [task.task_id for task in tasks]),
    ):
        name = _twice(ids)
        if name is not None:
            raise SpecError(f"{what} {name!r} is there twice: give each a name of its own")


def _twice(names: Sequence[str]) -> str | None:
    """Give the first name that was there before, None when there is none."""
    met: set[str] = set()
    for name in names:
        if name in met:
            return name
        met.add(name)
    return None


@contextmanager
def _programs(tasks: Sequence[TaskSpec], *, slots: int) -> Iterator[Sandbox | None]:
    """Open what runs programs, where any task asks for it."""
    if not any(runs_programs(task) for task in tasks):
        yield None
        return
    # here and not at the top: an evaluation of texts never needs it
    from farm.sandbox.runner import Sandbox

    with Sandbox(slots=slots) as sandbox:
        yield sandbox
