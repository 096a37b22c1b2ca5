"""Several recorded runs as one leaderboard: a row a case, and what runs must share to be ranked.

Runs are ranked together when one scorer judged them. Their cases pair up by task; a task that
has other right answers in another run is another task under the same name, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec import UNSET

from farm.core.case import Group, group_of, targets_of
from farm.core.isolation import weakest
from farm.core.plan import seed_of
from farm.core.result import CaseResult
from farm.core.trial import Trial
from farm.errors import SpecError
from farm.report.caution import FLATTERING, cautions
from farm.report.envelope import Envelope, RunIdentity, build_envelope, failed
from farm.report.grouped import clusters_of
from farm.report.side import NUMBER_SAMPLES
from farm.runtime.corpora import corpus_of, judged_by_bleu
from farm.runtime.trials import Facts, Recorded, facts, given, trial
from farm.scoring.corpus import CorpusScore
from farm.scoring.registry import check_more_is_better
from farm.stats.evalrun import EvalRun


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of all runs, each task's cluster where any case names one, and the verdicts.

    `groups` are those of each model's cases that name one; of evaluations, where the verdicts' ids
    say so, those of cases without a verdict.
    """

    runs: list[EvalRun]
    clusters: dict[str, str] | None
    verdicts: dict[str, list[CaseResult]]
    groups: dict[str, dict[str, Group]]


def gather(recordings: Sequence[Recorded]) -> Board:
    """Read all runs; raises `SpecError` on runs and cases that do not go together."""
    _check_together(recordings)
    reader = _Reader(compared=len({run.plan.tasks_sha256 for run in recordings}) > 1)
    verdicts: dict[str, list[CaseResult]] = {}
    groups: dict[str, dict[str, Group]] = {}
    for run in recordings:
        own = verdicts.setdefault(run.model, [])
        together: dict[str, Group] = {}
        for case, verdict in facts(run):
            reader.take(run, case, verdict)
            if verdict is not None:
                own.append(verdict)
            if (verdict is None or not run.asked) and (group := group_of(case)):
                together[_listed_as(run, case)] = group
        if together:
            groups[run.model] = together
    clusters = clusters_of((row.task_id for row in reader.rows), reader.clusters)
    return Board(runs=reader.rows, clusters=clusters, verdicts=verdicts, groups=groups)


def envelope_of(recordings: Sequence[Recorded], board: Board, *, detail: bool) -> Envelope:
    """Build the report of a board; equal stores give an equal report, in whatever order.

    `detail` lists the verdict on every case. A run that is not complete marks it as failed.
    """
    runs = sorted(recordings, key=lambda run: run.model)
    figures = {run.model: corpus_of(run) for run in runs}
    corpus = {model: found for model, found in figures.items() if found}
    envelope = build_envelope(
        board.runs,
        seed=seed_of([run.plan.tasks_sha256 for run in runs], runs[0].scorer),
        clusters=board.clusters,
        identity=_identity(runs),
    )
    envelope = msgspec.structs.replace(
        envelope,
        runs={run.model: _run_identity(run) for run in runs},
        corpus=corpus or UNSET,
        warnings=(
            *(cautions(FLATTERING, _any(corpus)) if any(map(judged_by_bleu, runs)) else ()),
            *_other_tasks(runs),
        ),
        cases={
            model: tuple(sorted(own, key=lambda verdict: verdict.id))
            for model, own in sorted(board.verdicts.items())
        }
        if detail
        else UNSET,
        groups={model: dict(sorted(own.items())) for model, own in sorted(board.groups.items())}
        if detail and board.groups
        else UNSET,
    )
    open_runs = [run for run in runs if not run.ledger.complete]
    if not open_runs:
        return envelope
    return failed(envelope, code="incomplete", detail="; ".join(map(_how_far, open_runs)))


def _listed_as(run: Recorded, case: Facts) -> str:
    """Give the id that the verdict on a case has, or will have."""
    if not run.asked:
        return case.id
    return Trial(run.asked, case.task_id, given(case.sample, 0)).id


class _Reader:
    """Takes cases one by one and refuses by name what has two meanings."""

    def __init__(self, *, compared: bool) -> None:
        self.rows: list[EvalRun] = []
        self.clusters: dict[str, str] = {}
        self._compared = compared  # whether runs have other tasks, so that answers must be held
        self._answers: dict[str, bytes] = {}
        self._first: dict[tuple[str, str, int], str] = {}

    def take(self, run: Recorded, case: Facts, verdict: CaseResult | None) -> None:
        row = trial(run, case, verdict)
        first = self._first.setdefault((row.model_id, row.task_id, row.sample), case.id)
        if first != case.id:
            raise SpecError(
                f"model {run.model!r}: cases {first!r} and {case.id!r} are both sample "
                f"{row.sample} of task {row.task_id!r}: {NUMBER_SAMPLES}"
            )
        self._hold_cluster(case)
        if self._compared:
            self._hold_answers(run, case)
        self.rows.append(row)

    def _hold_cluster(self, case: Facts) -> None:
        if not case.cluster:  # an empty one is none
            return
        named = f"cluster {case.cluster}"
        known = self.clusters.setdefault(case.task_id, named)
        if known != named:
            raise SpecError(
                f"task {case.task_id!r} is in {named!r} by case {case.id!r}, elsewhere in "
                f"{known!r}: give it one cluster"
            )

    def _hold_answers(self, run: Recorded, case: Facts) -> None:
        answers = "\0".join(sorted(targets_of(case)))
        digest = blake2b(answers.encode(), digest_size=16).digest()
        if self._answers.setdefault(case.task_id, digest) != digest:
            raise SpecError(
                f"task {case.task_id!r} has other right answers in the run of {run.model!r} than "
                "in one before: these are two tasks, give one of them another name"
            )


def _check_together(recordings: Sequence[Recorded]) -> None:
    first = recordings[0]
    if not first.asked:
        check_more_is_better(first.plan.identity.scorer.name)
    for run in recordings[1:]:
        if run.scorer != first.scorer:
            raise SpecError(
                f"{first.model!r} was scored by {first.scorer!r} and {run.model!r} by "
                f"{run.scorer!r}: {_way_out(first, run)}"
            )
    names = [run.model for run in recordings]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(
                f"two stores hold predictions of {name!r}: tell them apart by a --name for each "
                "--store, in the same order"
            )


def _way_out(first: Recorded, run: Recorded) -> str:
    if first.asked or run.asked:
        return "an evaluation is judged by its tasks and cannot be scored again, report each alone"
    return "score one of them again with `farm rescore`"


def _identity(runs: Sequence[Recorded]) -> dict[str, str]:
    """Return what the figures were made of, for people; several runs' digests in model order."""
    plans = [run.plan for run in runs]
    digests = {
        "run_id": [plan.run_id for plan in plans],
        "dataset_sha256": [plan.identity.dataset_sha256 for plan in plans],
        "tasks_sha256": [plan.tasks_sha256 for plan in plans],
        "scorer": [run.scorer for run in runs],
    }
    return {name: ", ".join(dict.fromkeys(values)) for name, values in digests.items()}


def _run_identity(run: Recorded) -> RunIdentity:
    receipts = [lease.receipt for lease in run.ledger.leases if lease.receipt is not None]
    return RunIdentity(
        run_id=run.plan.run_id,
        dataset_sha256=run.plan.identity.dataset_sha256,
        tasks_sha256=run.plan.tasks_sha256,
        scorer=run.plan.identity.scorer,
        # an evaluation asks each of its models the same
        cases=run.plan.cases // (len(run.plan.identity.models) if run.asked else 1),
        complete=run.ledger.complete,
        isolation=weakest(one.isolation for one in receipts if one.isolation) or UNSET,
    )


def _other_tasks(runs: Sequence[Recorded]) -> tuple[str, ...]:
    if len({run.plan.tasks_sha256 for run in runs}) == 1:
        return ()
    return (
        "These runs do not have the same set of cases; models are paired on the tasks they share.",
    )


def _how_far(run: Recorded) -> str:
    done = sum(lease.done for lease in run.ledger.leases)
    return f"{run.model!r} has {done} of {len(run.plan.shards)} shards done"


def _any(corpus: dict[str, tuple[CorpusScore, ...]]) -> tuple[CorpusScore, ...]:
    return next(iter(corpus.values()), ())
