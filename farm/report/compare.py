"""Two runs of the same tasks, case by case: what changed, and whether it is more than chance.

Runs are compared only when their tasks and their scorer are the same: a difference between two
scorers is not a difference between two models. Where runs come from is for the caller.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from farm.core.plan import TASKS, seed_of
from farm.errors import SpecError
from farm.report.grouped import clusters_of
from farm.report.side import RunSide, aligned, check_samples, clusters_by_task, scores_by_task
from farm.report.text import MINUS, chance, count, markdown, share, signed, signed_span
from farm.stats.intervals import Interval
from farm.stats.means import cluster_codes
from farm.stats.pairwise import compare_scores

_CHANGES_SHOWN = 50
NO_SPREAD = "All differences are equal: the interval has no width, which is not certainty."


class Change(Struct, frozen=True, kw_only=True):
    """A case whose verdict differs: how it ended before and after."""

    id: str
    before: str
    after: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The second run against the first, over the `n` tasks both scored.

    A task weighs the same however often it was sampled: each run's scored cases of a task are
    averaged first. `unit` is "task" where any task has several, else "case", which is then the
    same. `difference` is second minus first, of scores, which are verdicts where no score is a part
    of a point. `fixed`: cases wrong before and correct after; `broken`: the reverse. `only_first`,
    `only_second`: ids of cases left out, since they have no score or the other run none on their
    task. `detectable`: the smallest true difference the test would have shown with 80 % power;
    None, for `detectable_reason`, where nothing up to 1 would have been. `incomplete`: runs that
    have shards without a receipt. `signature`: how the figures were made.
    """

    schema_version: int = 1

    first: str
    second: str
    n: int
    unit: Literal["case", "task"]
    mean_first: float | None
    mean_second: float | None
    difference: float | None
    interval: Interval
    test: str
    p_value: float | None
    significant: bool
    detectable: float | None
    detectable_reason: str = ""
    fixed: tuple[Change, ...] = ()
    broken: tuple[Change, ...] = ()
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    signature: str


def compare_runs(
    first: RunSide, second: RunSide, *, common: bool = False, level: float = 0.95
) -> Comparison:
    """Pair the runs by task and test the difference.

    Tasks of one cluster are no independent evidence: they get the clustered test. Runs of
    other tasks are refused unless `common` asks to pair what both have; another scorer is always
    refused, and so is a sample that is there twice, or a task in two clusters. Bootstraps are
    seeded by tasks and scorer.
    """
    _check_same(first, second, common=common)
    check_samples(first)
    check_samples(second)
    first, second = aligned(first, second), aligned(second, first)
    one, two = scores_by_task(first), scores_by_task(second)
    tasks = sorted(one.keys() & two.keys())
    before, after = (
        np.array([values[task] for task in tasks], dtype=np.float64) for values in (one, two)
    )
    clusters = clusters_of(tasks, clusters_by_task(first, second))
    seed = seed_of([first.tasks_sha256, second.tasks_sha256], first.scorer)
    verdict = compare_scores(
        after,
        before,
        clusters=None if clusters is None else cluster_codes([clusters[task] for task in tasks]),
        level=level,
        seed=seed,
    )
    changed = _changes_between(first, second)
    left_out = [_left_out_of(side, set(tasks)) for side in (first, second)]
    used = [len(side.cases) - len(out) for side, out in zip((first, second), left_out, strict=True)]
    return Comparison(
        first=first.label,
        second=second.label,
        n=len(tasks),
        unit="case" if used == [len(tasks)] * 2 else "task",
        mean_first=float(before.mean()) if tasks else None,
        mean_second=float(after.mean()) if tasks else None,
        difference=float((after - before).mean()) if tasks else None,
        interval=verdict.interval,
        test=verdict.test,
        p_value=verdict.p_value,
        significant=verdict.p_value is not None and verdict.p_value < 1.0 - level,
        detectable=verdict.detectable.value,
        detectable_reason=verdict.detectable.reason,
        fixed=tuple(change for change in changed if second.cases[change.id].correct),
        broken=tuple(change for change in changed if first.cases[change.id].correct),
        only_first=left_out[0],
        only_second=left_out[1],
        incomplete=tuple(side.label for side in (first, second) if not side.complete),
        signature=(
            f"metric:{first.scorer}|post:{first.post_process}|n:{len(tasks)}"
            f"|missing:{first.planned - used[0]}+{second.planned - used[1]}"
            f"|test:{verdict.test}|ci:{verdict.interval.method}|level:{level:g}|seed:{seed}"
        ),
    )


def render_comparison_json(comparison: Comparison) -> bytes:
    """Encode as strict, indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n"


def render_comparison_markdown(comparison: Comparison) -> str:
    """Return the difference, its evidence, and the cases whose verdict changed."""
    one, two = markdown(comparison.first), markdown(comparison.second)
    lines = [
        f"| {two} {MINUS} {one} | {comparison.interval.level * 100:g}% CI | Test | p | n "
        "| Detectable |",
        "|---:|---|---|---:|---:|---:|",
        f"| {signed(comparison.difference)} "
        f"| {signed_span(comparison.interval.lo, comparison.interval.hi)} "
        f"| {comparison.test.replace('_', ' ')} | {chance(comparison.p_value)} "
        f"| {comparison.n:,} | {share(comparison.detectable)} |",
        "",
        *_sentences(comparison),
        "",
    ]
    for title, changes in (("Broken", comparison.broken), ("Fixed", comparison.fixed)):
        lines += _changes(title, changes)
    for label, lost in ((one, comparison.only_first), (two, comparison.only_second)):
        lines += _left_out(label, lost)
    for label in comparison.incomplete:
        lines += [f"{markdown(label)} is not complete.", ""]
    lines.append(markdown(comparison.signature))
    return "\n".join(lines).rstrip("\n") + "\n"


def _sentences(comparison: Comparison) -> list[str]:
    if comparison.p_value is None:
        return [f"No test: {comparison.interval.reason}."]
    if comparison.significant:
        ahead = comparison.second if (comparison.difference or 0.0) > 0.0 else comparison.first
        said = [f"{markdown(ahead)} is ahead beyond chance."]
    else:
        show = "does not show" if comparison.n == 1 else "do not show"
        said = [
            "Not separated: this is not proof that they are equal, only that "
            f"{count(comparison.n, comparison.unit)} {show} a difference."
        ]
        if comparison.detectable is None:
            said.append(f"None could have been shown: {comparison.detectable_reason}.")
    if comparison.interval.degenerate:
        said.append(NO_SPREAD)
    return said


def _changes(title: str, changes: tuple[Change, ...]) -> list[str]:
    if not changes:
        return []
    lines = [f"{title}, {count(len(changes), 'case')}:", ""]
    lines += [
        f"- {markdown(change.id)}: {markdown(change.before)} to {markdown(change.after)}"
        for change in changes[:_CHANGES_SHOWN]
    ]
    if len(changes) > _CHANGES_SHOWN:
        lines.append(f"- and {len(changes) - _CHANGES_SHOWN:,} more; the JSON has them all")
    return [*lines, ""]


def _left_out(label: str, ids: tuple[str, ...]) -> list[str]:
    if not ids:
        return []
    more = f" and {len(ids) - _CHANGES_SHOWN:,} more" if len(ids) > _CHANGES_SHOWN else ""
    names = ", ".join(map(markdown, ids[:_CHANGES_SHOWN]))
    cases = count(len(ids), "case")
    return [f"Left out, for want of a score on both sides, {cases} of {label}: {names}{more}.", ""]


def _check_same(first: RunSide, second: RunSide, *, common: bool) -> None:
    if first.scorer != second.scorer:
        raise SpecError(
            f"{first.label!r} was scored by {first.scorer!r} and {second.label!r} by "
            f"{second.scorer!r}: "
            + (
                "an evaluation is judged by its tasks and cannot be scored again"
                if any(side.scorer.startswith(f"{TASKS}@") for side in (first, second))
                else "score one of them again with the other's scorer"
            )
        )
    if first.tasks_sha256 != second.tasks_sha256 and not common:
        raise SpecError(
            f"{first.label!r} has tasks {first.tasks_sha256!r} and {second.label!r} has tasks "
            f"{second.tasks_sha256!r}: compare runs of the same tasks, or pair what both have "
            "with --common"
        )


def _changes_between(first: RunSide, second: RunSide) -> list[Change]:
    """List the cases that both scored and of which the verdict differs, by id."""
    return [
        Change(id=one, before=before.outcome, after=after.outcome)
        for one, before in sorted(first.cases.items())
        if before.score is not None
        and (after := second.cases.get(one)) is not None
        and after.score is not None
        and before.correct != after.correct
    ]


def _left_out_of(side: RunSide, tasks: set[str]) -> tuple[str, ...]:
    return tuple(
        sorted(
            one
            for one, judged in side.cases.items()
            if judged.score is None or side.task_of(one) not in tasks
        )
    )
