"""What a qualification reports: the values behind its tables, and behind their JSON.

Built by farm.qualify, shown by farm.report.qualification and farm.report.qualification_page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


class Range(Struct, frozen=True, kw_only=True):
    """Raw values and their ends; None where there are none. No tail is read from a few values."""

    n: int
    min: float | None
    median: float | None
    max: float | None
    values: tuple[float, ...]


class CellRow(Struct, frozen=True, kw_only=True):
    """One (context, concurrency, cache mode) over its repeats.

    Names of request figures are ``phase.figure``, over all whole answers of that phase; those of
    the wave stand alone, one value a repeat.
    """

    context: int
    concurrency: int
    cache: str
    repeats: int
    tasks_succeeded: int
    tasks_total: int
    success: str  # "5/6"
    measurement_valid: bool
    measurement_reasons: Mapping[str, int]  # reason -> repeats that have it
    context_verified: bool | None
    cache_verified: bool | None
    metrics: Mapping[str, Range]
    draft_acceptance: float | None  # pooled over all requests of all repeats
    draft_requests: int
    draft_silent_requests: int


class Summary(Struct, frozen=True, kw_only=True):
    """A run's table."""

    run_id: str
    model: str
    cells_done: int
    cells_planned: int
    complete: bool
    rows: tuple[CellRow, ...]
    percentiles: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, Any]


class Difference(Struct, frozen=True, kw_only=True):
    """One figure of one cell in two runs. `difference` is candidate minus baseline, of medians.

    `least` and `most` are the ends of what any pair of raw values gives; when they have the same
    sign the ranges do not overlap.
    """

    baseline: Range
    candidate: Range
    difference: float | None
    ratio: float | None  # candidate / baseline
    least: float | None
    most: float | None
    separated: bool | None


class CellDifference(Struct, frozen=True, kw_only=True):
    """One cell in two runs."""

    context: int
    concurrency: int
    cache: str
    baseline_success: str
    candidate_success: str
    measurement_valid: bool  # in both
    metrics: Mapping[str, Difference]


class Dimension(Struct, frozen=True, kw_only=True):
    """A provenance dimension that differs."""

    name: str
    baseline: Any
    candidate: Any
    separate: bool  # runs that differ in it are two experiments


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs; without `comparable` there are no cells, and `reason` says why."""

    baseline: str
    candidate: str
    comparable: bool
    reason: str
    differs: tuple[Dimension, ...]
    across: tuple[str, ...]  # dimensions the caller knows to differ
    attributable_to: str | None  # the one dimension that differs; None for none or several
    fixtures_shared: int
    fixtures_identical: int  # byte for byte
    cells: tuple[CellDifference, ...]
    missing: tuple[str, ...]  # cells that only one run has
    notes: tuple[str, ...]


class FirstDifference(Struct, frozen=True, kw_only=True):
    """Where two outputs part: 0-based, by token when both have token ids, else by character."""

    request_id: str
    repeat: str
    unit: Literal["token", "character"]
    position: int
    one_ends: bool  # the shorter is the beginning of the longer
    baseline: str  # what stands there
    other: str


class AgainstBaseline(Struct, frozen=True, kw_only=True):
    """One configuration against the baseline."""

    config: str
    pairs: int
    identical: int
    different: int
    first_differences: tuple[FirstDifference, ...]
    template_mismatches: int
    templates_unknown: int
    unpaired: int
    # whether differences may come of the configuration: False where the baseline differs from
    # its own repeat, or outputs that differ had other templates; None: it was not repeated, or
    # not for every request that differs
    attributable: bool | None


class DraftsAgreement(Struct, frozen=True, kw_only=True):
    """Two configurations other than the baseline, against each other."""

    one: str
    other: str
    pairs: int
    identical: int
    both_differ_from_baseline: int
    same_first_difference: int  # of those, at the same position
    one_only: int  # differs from the baseline where the other does not
    other_only: int


class BaselineRepeat(Struct, frozen=True, kw_only=True):
    """The baseline against its own repeats."""

    pairs: int
    identical: int
    verdict: Literal["deterministic", "baseline_not_deterministic", "not_repeated"]
    first_differences: tuple[FirstDifference, ...]


class Audit(Struct, frozen=True, kw_only=True):
    """An exactness audit of saved outputs."""

    baseline: str
    requests: int
    baseline_repeat: BaselineRepeat
    against_baseline: tuple[AgainstBaseline, ...]
    between_drafts: tuple[DraftsAgreement, ...]
    follow_up: tuple[str, ...]
    notes: tuple[str, ...]
