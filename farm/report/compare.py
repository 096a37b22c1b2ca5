"""Two runs of the same tasks, case by case: what changed, and whether it is more than chance.

Runs are compared only when their tasks and their scorer are the same: a difference between two
scorers is not a difference between two models. Where runs come from is for the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from farm.core.plan import seed_of
from farm.errors import SpecError
from farm.report.text import MINUS, chance, count, markdown, share, signed, signed_span
from farm.stats.arrays import Ints
from farm.stats.intervals import Interval
from farm.stats.means import cluster_codes
from farm.stats.pairwise import compare_scores

_CHANGES_SHOWN = 50
NO_SPREAD = "All differences are equal: the interval has no width, which is not certainty."


class Judged(Struct, frozen=True, kw_only=True):
    """How one case ended; `score` is None where it could not be scored."""

    correct: bool
    score: float | None
    outcome: str


class RunSide(Struct, frozen=True, kw_only=True):
    """One run as a comparison sees it: what it measured, with what, and every case by id.

    `groups` says which cases belong together (one cluster, or samples of one task), for those of
    which it is known. `pending` counts the cases that have no verdict yet and are not in `cases`,
    `post_process` names what was done to answers before they were scored.
    """

    label: str
    tasks_sha256: str
    scorer: str  # name and version, such as "exact_match@1"
    complete: bool
    cases: Mapping[str, Judged]
    groups: Mapping[str, str] = msgspec.field(default_factory=dict)
    pending: int = 0
    post_process: str = "none"

    @property
    def planned(self) -> int:
        """How many cases there are, with a verdict or without."""
        return len(self.cases) + self.pending


class Change(Struct, frozen=True, kw_only=True):
    """A case whose verdict differs: how it ended before and after."""

    id: str
    before: str
    after: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The second run against the first, over the cases both scored.

    `difference` is second minus first: of scores where any is a part of a point, else of
    verdicts. `fixed`: wrong before and correct after; `broken`: the reverse. `only_first`,
    `only_second`: ids without a scored partner, left out. `detectable`: the smallest true
    difference the test would have shown with 80 % power; None, for `detectable_reason`, where
    nothing up to 1 would have been. `incomplete`: runs that have shards without a receipt.
    `signature`: how the figures were made.
    """

    schema_version: int = 1

    first: str
    second: str
    n: int
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
    """Pair the runs by case id and test the difference.

    Cases that belong together are no independent evidence: they get the clustered test. Runs of
    other tasks are refused unless `common` asks to pair what both have; another scorer is always
    refused. Bootstraps are seeded by tasks and scorer.
    """
    _check_same(first, second, common=common)
    ids = sorted(
        case_id
        for case_id, judged in first.cases.items()
        if judged.score is not None
        and (other := second.cases.get(case_id)) is not None
        and other.score is not None
    )
    paired = set(ids)
    graded = any(_partial(side.cases[case_id]) for case_id in ids for side in (first, second))
    before, after = (
        np.array([_value(side.cases[case_id], graded=graded) for case_id in ids], dtype=np.float64)
        for side in (first, second)
    )
    groups = group_codes(ids, first.groups or second.groups)
    seed = seed_of([first.tasks_sha256, second.tasks_sha256], first.scorer)
    verdict = compare_scores(after, before, clusters=groups, level=level, seed=seed)
    changed = [
        Change(id=one, before=first.cases[one].outcome, after=second.cases[one].outcome)
        for one in ids
        if first.cases[one].correct != second.cases[one].correct
    ]
    return Comparison(
        first=first.label,
        second=second.label,
        n=len(ids),
        mean_first=float(before.mean()) if ids else None,
        mean_second=float(after.mean()) if ids else None,
        difference=float((after - before).mean()) if ids else None,
        interval=verdict.interval,
        test=verdict.test,
        p_value=verdict.p_value,
        significant=verdict.p_value is not None and verdict.p_value < 1.0 - level,
        detectable=verdict.detectable.value,
        detectable_reason=verdict.detectable.reason,
        fixed=tuple(change for change in changed if second.cases[change.id].correct),
        broken=tuple(change for change in changed if first.cases[change.id].correct),
        only_first=tuple(sorted(first.cases.keys() - paired)),
        only_second=tuple(sorted(second.cases.keys() - paired)),
        incomplete=tuple(side.label for side in (first, second) if not side.complete),
        signature=(
            f"metric:{first.scorer}|post:{first.post_process}|n:{len(ids)}"
            f"|missing:{first.planned - len(ids)}+{second.planned - len(ids)}"
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
            f"{count(comparison.n, 'case')} {show} a difference."
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
    return [f"Without a scored partner, {count(len(ids), 'case')} of {label}: {names}{more}.", ""]


def _check_same(first: RunSide, second: RunSide, *, common: bool) -> None:
    if first.scorer != second.scorer:
        raise SpecError(
            f"{first.label!r} was scored by {first.scorer!r} and {second.label!r} by "
            f"{second.scorer!r}: score one of them again with the other's scorer"
        )
    if first.tasks_sha256 != second.tasks_sha256 and not common:
        raise SpecError(
            f"{first.label!r} has tasks {first.tasks_sha256!r} and {second.label!r} has tasks "
            f"{second.tasks_sha256!r}: compare runs of the same tasks, or pair what both have "
            "with --common"
        )


def group_codes(ids: Sequence[str], groups: Mapping[str, str]) -> Ints | None:
    """Return a code for each case, equal where cases belong together; None where none do."""
    # the marks keep a case that is its own group apart from groups of its name
    keys = [f"in {groups[one]}" if one in groups else f"own {one}" for one in ids]
    return cluster_codes(keys) if len(set(keys)) < len(keys) else None


def _partial(judged: Judged) -> bool:
    return judged.score not in (None, 0.0, 1.0)


def _value(judged: Judged, *, graded: bool) -> float:
    return (judged.score or 0.0) if graded else float(judged.correct)
