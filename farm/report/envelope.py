"""The report of an evaluation as one value, and as JSON.

Everything a reader may want to check stands in it: the board, every pair, calibration,
perplexity, outcomes, and the signature that says how each figure was made. Renderers show it and
never compute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from farm.core.case import Group
from farm.core.cost import Spending
from farm.core.isolation import Isolation
from farm.core.plan import ScorerName
from farm.core.result import OUTCOMES, CaseResult
from farm.report.passes import Passes, passes_of
from farm.scoring.corpus import CorpusScore
from farm.stats.bootstrap import RESAMPLES
from farm.stats.calibration import CalibrationReport, calibrate
from farm.stats.evalrun import EvalRun, tabulate
from farm.stats.leaderboard import LeaderboardRow, aggregate
from farm.stats.means import mean_interval
from farm.stats.pairwise import PairwiseDiff, pairwise_diffs
from farm.stats.perplexity import PerplexityResult, measure_perplexity


class Summary(Struct, frozen=True, kw_only=True):
    """How much was done; `wall_seconds` is an attempt fact and None where nobody timed it."""

    tasks: int
    models: int
    task_runs: int
    wall_seconds: float | None


class Accuracy(Struct, frozen=True, kw_only=True):
    """The share of correct answers: of a task among its scored trials, then averaged over tasks.

    So each task weighs the same, as in a mean score and in the interval (`ci_lo`, `ci_hi`), which
    is over tasks too. `correct`, `scored`, `not_scored` count trials. `range_lo` and `range_hi`:
    where it would lie were the trials that could not be scored all wrong, or all right.
    """

    accuracy: float | None
    ci_lo: float | None
    ci_hi: float | None
    ci_method: str
    correct: int
    scored: int
    not_scored: int
    range_lo: float | None
    range_hi: float | None


class Signature(Struct, frozen=True, kw_only=True):
    """How the figures were made: enough to make them again.

    `lines` holds one printable line a model: metric, post-process, n and missing (both tasks),
    unscored (trials, where there are any), interval method, level, seed.
    """

    metrics: tuple[str, ...]
    post_processes: tuple[str, ...]
    level: float
    resamples: int
    seed: int
    correction: str = "holm"
    lines: dict[str, str]


class RunIdentity(Struct, frozen=True, kw_only=True):
    """Which recorded run a model's figures are of, and what it shares with others."""

    run_id: str
    dataset_sha256: str
    tasks_sha256: str
    scorer: ScorerName
    cases: int
    complete: bool
    isolation: Isolation | UnsetType = UNSET  # what all programs that were run had at least


class Costs(Struct, frozen=True, kw_only=True):
    """What calls have cost, over all crashes and resumes; money in `currency`, as exact decimals.

    A model's money is the sum of what had a price: `unpriced` counts the answers that had none.
    """

    currency: str
    models: dict[str, Spending]
    total: Spending


class Failure(Struct, frozen=True, kw_only=True):
    """Why there is no report: a stable word and a sentence."""

    code: str
    detail: str


class Envelope(Struct, frozen=True, kw_only=True):
    """The whole report. Maps are keyed by model id; `error` is there on failure only.

    `runs` says which recorded run each model's figures are of, `cases` every verdict where they
    are listed, `groups` what tasks and clusters these name, by model and case id (of an evaluation
    whose ids say so themselves: for cases that are not listed yet), `corpus` the published figures
    beside bleu_4, `passes` pass@k and pass^k where tasks were sampled more than once, `costs` what
    asking has cost so far: an attempt fact.
    """

    schema_version: int = 1
    leaderboard: tuple[LeaderboardRow, ...] = ()
    pairwise: tuple[PairwiseDiff, ...] = ()
    calibration: dict[str, CalibrationReport] = msgspec.field(default_factory=dict)
    perplexity: dict[str, PerplexityResult] = msgspec.field(default_factory=dict)
    accuracy: dict[str, Accuracy] = msgspec.field(default_factory=dict)
    outcomes: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    summary: Summary
    signature: Signature
    identity: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: Failure | UnsetType = UNSET
    corpus: dict[str, tuple[CorpusScore, ...]] | UnsetType = UNSET
    runs: dict[str, RunIdentity] | UnsetType = UNSET
    passes: dict[str, tuple[Passes, ...]] | UnsetType = UNSET
    costs: Costs | UnsetType = UNSET
    cases: dict[str, tuple[CaseResult, ...]] | UnsetType = UNSET
    groups: dict[str, dict[str, Group]] | UnsetType = UNSET


def build_envelope(
    runs: Iterable[EvalRun],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Mapping[str, str] | None = None,
    identity: Mapping[str, str] | None = None,
    wall_seconds: float | None = None,
) -> Envelope:
    """Return the report of the trials; their order does not matter, `wall_seconds` apart.

    Rows that break the contract are refused by name (BadNumbers). No trials give empty parts.
    """
    rows = sorted(runs, key=lambda run: (run.model_id, run.task_id, run.sample))
    table = tabulate(rows, clusters=clusters)
    board = aggregate(table, level=level, resamples=resamples, seed=seed)
    by_model = {model: [run for run in rows if run.model_id == model] for model in table.model_ids}
    return Envelope(
        leaderboard=board,
        pairwise=pairwise_diffs(table, level=level, seed=seed),
        calibration={model: _calibration(own) for model, own in by_model.items()},
        perplexity={model: _perplexity(own) for model, own in by_model.items()},
        accuracy={
            model: _accuracy(own, level=level, clusters=clusters) for model, own in by_model.items()
        },
        outcomes={model: count_outcomes(own) for model, own in by_model.items()},
        passes={model: passes_of(own) for model, own in by_model.items()}
        if any(run.sample for run in rows)
        else UNSET,
        summary=Summary(
            tasks=len(table.task_ids),
            models=len(table.model_ids),
            task_runs=len(rows),
            wall_seconds=wall_seconds,
        ),
        signature=_signature(rows, board, level=level, resamples=resamples, seed=seed),
        identity=dict(identity or {}),
    )


def failed(envelope: Envelope | None, *, code: str, detail: str) -> Envelope:
    """Return the envelope, or an empty one, marked as failed."""
    return replace(envelope or build_envelope([]), error=Failure(code=code, detail=detail))


def to_json(envelope: Envelope) -> bytes:
    """Encode as strict, indented UTF-8 JSON with a final newline; equal envelopes, equal bytes."""
    return msgspec.json.format(msgspec.json.encode(envelope), indent=2) + b"\n"


def count_outcomes(runs: Iterable[EvalRun]) -> dict[str, int]:
    """Return how the trials ended: every known outcome, zeros too, then others by name."""
    counts = Counter(run.ended for run in runs)
    return {name: counts[name] for name in (*OUTCOMES, *sorted(counts.keys() - set(OUTCOMES)))}


def _calibration(runs: Sequence[EvalRun]) -> CalibrationReport:
    scored = [run for run in runs if run.scored and run.correct is not None]
    return calibrate([run.confidence for run in scored], [bool(run.correct) for run in scored])


def _perplexity(runs: Sequence[EvalRun]) -> PerplexityResult:
    # most adapters give no token figures at all: those trials are not worth counting as left out
    given = [run for run in runs if run.token_nll is not None or run.token_count is not None]
    return measure_perplexity([run.token_nll for run in given], [run.token_count for run in given])


def _accuracy(
    runs: Sequence[EvalRun], *, level: float, clusters: Mapping[str, str] | None
) -> Accuracy:
    scored = [run for run in runs if run.scored and run.correct is not None]
    correct, lost = sum(bool(run.correct) for run in scored), len(runs) - len(scored)
    table = tabulate(
        [replace(run, score=float(bool(run.correct))) for run in scored], clusters=clusters
    )
    keys = None if table.clusters is None or not scored else table.clusters.tolist()
    # one row a model, none when nothing was scored
    shares = table.scores.ravel()
    interval = mean_interval(shares, clusters=keys, level=level)
    return Accuracy(
        accuracy=_mean(shares.tolist()),
        ci_lo=interval.lo,
        ci_hi=interval.hi,
        ci_method=interval.method,
        correct=correct,
        scored=len(scored),
        not_scored=lost,
        range_lo=_mean(_shares_if(runs, unscored=0.0)),
        range_hi=_mean(_shares_if(runs, unscored=1.0)),
    )


def _shares_if(runs: Sequence[EvalRun], *, unscored: float) -> list[float]:
    """Return each task's share of correct trials, one without a score counting as given."""
    tasks: dict[str, list[float]] = {}
    for run in runs:
        known = run.scored and run.correct is not None
        tasks.setdefault(run.task_id, []).append(float(bool(run.correct)) if known else unscored)
    return [math.fsum(own) / len(own) for own in tasks.values()]


def _mean(shares: Sequence[float]) -> float | None:
    return math.fsum(shares) / len(shares) if shares else None


def _signature(
    rows: Sequence[EvalRun],
    board: Sequence[LeaderboardRow],
    *,
    level: float,
    resamples: int,
    seed: int,
) -> Signature:
    metrics = tuple(sorted({_metric(run) for run in rows}))
    post = tuple(sorted({str(run.metadata.get("post_process", "none")) for run in rows}))
    lost = Counter(run.model_id for run in rows if not run.scored)
    return Signature(
        metrics=metrics,
        post_processes=post,
        level=level,
        resamples=resamples,
        seed=seed,
        lines={
            row.model_id: (
                f"metric:{'+'.join(metrics)}|post:{'+'.join(post)}|n:{row.tasks_completed}"
                f"|missing:{row.n_missing}"
                + (f"|unscored:{lost[row.model_id]}" if lost[row.model_id] else "")
                + f"|ci:{row.ci_method}|level:{level:g}|seed:{seed}"
            )
            for row in board
        },
    )


def _metric(run: EvalRun) -> str:
    """Return ``name@version``, or the name alone where the row brings no version."""
    name, version = run.metric_name or "unnamed", run.metadata.get("metric_version")
    return name if version is None else f"{name}@{version}"
