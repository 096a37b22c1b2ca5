"""Two runs of the same fixtures, cell by cell, and whether they may be compared at all.

Two runs that differ in protocol, template, reasoning mode, quantization, draft model or engine
are two experiments. Their figures stand together only when the caller names every such dimension.
What a configuration declares is one word on it, what the server told of itself another: runs
differ in a dimension when they differ in either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from farm.errors import SpecError
from farm.qualify.summary import summarize
from farm.report.qualified import (
    CellDifference,
    CellRow,
    Comparison,
    Difference,
    Dimension,
    Range,
    Summary,
)

# dimension -> the provenance fields it is made of
SEPARATE: Final = {
    "protocol": ("protocol",),
    "template": ("template_sha256",),
    "reasoning_mode": ("reasoning_mode",),
    "quantization": ("quantization",),
    "draft_model": ("draft_model", "draft_sha256"),
    "engine": ("engine_commit", "engine_binary_sha256"),
}
NAMED: Final = {
    "model": ("model", "model_sha256"),
    "sampler": ("sampler",),
    "nodes": ("nodes",),
    "max_context_per_request": ("max_context_per_request",),
    "request_options": ("request_options",),
}
# dimension -> what a server tells of it, where it tells anything
OBSERVED: Final = {
    "template": ("template_sha256",),
    "quantization": ("model_ftype",),
    "engine": ("build_info", "version"),
}
_SAME_SETTINGS: Final = ("fixture_mode", "fixture_seed", "max_tokens")

Run = tuple[Sequence[bytes], Mapping[str, Any]]  # lines of results.jsonl, provenance.json
Fixtures = Mapping[str, str]  # request id -> digest of the archive


def compare_runs(
    baseline: Run,
    candidate: Run,
    *,
    fixtures: tuple[Fixtures, Fixtures],
    names: tuple[str, str],
    across: Sequence[str] = (),
) -> Comparison:
    """Compare two runs; raises `SpecError` when they did not measure the same fixtures."""
    for name in across:
        if name not in SEPARATE:
            raise SpecError(f"{name!r} is not a dimension: give {', '.join(SEPARATE)}")
    left, right = summarize(*baseline), summarize(*candidate)
    _check_settings(baseline[1], candidate[1])
    shared = fixtures[0].keys() & fixtures[1].keys()
    identical = sum(fixtures[0][one] == fixtures[1][one] for one in shared)
    if not shared:
        raise SpecError(f"{names[0]!r} and {names[1]!r} share no fixture: nothing can be compared")
    if _setting(baseline[1], "fixture_mode") == "fixed_bytes" and identical < len(shared):
        raise SpecError(
            f"{len(shared) - identical} of {len(shared)} fixtures differ in their bytes though "
            "the mode is fixed_bytes: one of the runs was changed by hand"
        )
    differs = _dimensions(baseline[1], candidate[1])
    unnamed = [one.name for one in differs if one.separate and one.name not in across]
    cells = [] if unnamed else _cells(left, right)
    return Comparison(
        baseline=names[0],
        candidate=names[1],
        comparable=not unnamed,
        reason=f"the runs differ in {', '.join(unnamed)}: they are separate experiments; "
        "name each with --across to see their figures side by side"
        if unnamed
        else "",
        differs=tuple(differs),
        across=tuple(across),
        attributable_to=differs[0].name if len(differs) == 1 else None,
        fixtures_shared=len(shared),
        fixtures_identical=identical,
        cells=tuple(cells),
        missing=tuple(_missing(left, right, names)),
        notes=tuple(_notes(differs, len(shared), identical, left, right)),
    )


def differ(baseline: Range, candidate: Range) -> Difference:
    """Return the difference of two ranges, candidate minus baseline."""
    least = most = difference = ratio = None
    separated = None
    if baseline.median is not None and candidate.median is not None:
        difference = candidate.median - baseline.median
        ratio = candidate.median / baseline.median if baseline.median > 0 else None
    if (
        baseline.min is not None
        and baseline.max is not None
        and candidate.min is not None
        and candidate.max is not None
    ):
        least, most = candidate.min - baseline.max, candidate.max - baseline.min
        separated = least > 0 or most < 0
    return Difference(
        baseline=baseline,
        candidate=candidate,
        difference=difference,
        ratio=ratio,
        least=least,
        most=most,
        separated=separated,
    )


def _check_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for name in _SAME_SETTINGS:
        left, right = _setting(one, name), _setting(other, name)
        if left != right:
            raise SpecError(
                f"the runs have {name} {left!r} and {right!r}: they did not measure the same "
                "fixtures, run one of them again"
            )


def _setting(provenance: Mapping[str, Any], name: str) -> object:
    return provenance.get("config", {}).get(name)


def _dimensions(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Dimension]:
    left, right = one.get("provenance", {}), other.get("provenance", {})
    found = []
    for table, separate in ((SEPARATE, True), (NAMED, False)):
        for name, fields in table.items():
            values = [[side.get(field) for field in fields] for side in (left, right)]
            if values[0] == values[1]:
                values = _observed(one, other, OBSERVED.get(name, ()))
            if values[0] != values[1]:
                shown = [side[0] if len(side) == 1 else side for side in values]
                found.append(
                    Dimension(name=name, baseline=shown[0], candidate=shown[1], separate=separate)
                )
    return found


def _observed(
    one: Mapping[str, Any], other: Mapping[str, Any], fields: Sequence[str]
) -> list[list[Any]]:
    """Give what the servers of two runs told of the fields that both told something of.

    A run of several invocations may have met several servers: then each answer is there.
    """
    sides: list[list[Any]] = [[], []]
    for field in fields:
        told = [_told(run, field) for run in (one, other)]
        if all(told):
            for side, values in zip(sides, told, strict=True):
                side += values
    return sides


def _told(provenance: Mapping[str, Any], field: str) -> list[str]:
    """Give the different answers of a run's servers, sorted."""
    found = set()
    invocations = provenance.get("invocations")
    for entry in invocations if isinstance(invocations, list) else ():
        server = entry.get("server") if isinstance(entry, dict) else None
        value = server.get(field) if isinstance(server, dict) else None
        if isinstance(value, str | int):
            found.add(str(value))
    return sorted(found)


def _cells(one: Summary, other: Summary) -> list[CellDifference]:
    rows = {_place(row): row for row in other.rows}
    return [_cell(row, rows[_place(row)]) for row in one.rows if _place(row) in rows]


def _cell(one: CellRow, other: CellRow) -> CellDifference:
    return CellDifference(
        context=one.context,
        concurrency=one.concurrency,
        cache=one.cache,
        baseline_success=one.success,
        candidate_success=other.success,
        measurement_valid=one.measurement_valid and other.measurement_valid,
        metrics={
            name: differ(values, other.metrics[name])
            for name, values in one.metrics.items()
            if name in other.metrics
        },
    )


def _place(row: CellRow) -> tuple[int, int, str]:
    return row.context, row.concurrency, row.cache


def _missing(one: Summary, other: Summary, names: tuple[str, str]) -> list[str]:
    left = {_place(row) for row in one.rows}
    right = {_place(row) for row in other.rows}
    return [
        f"{context} tokens, {at_once} at once, {cache}: only in {names[0]}"
        for context, at_once, cache in sorted(left - right)
    ] + [
        f"{context} tokens, {at_once} at once, {cache}: only in {names[1]}"
        for context, at_once, cache in sorted(right - left)
    ]


def _notes(
    differs: Sequence[Dimension], shared: int, identical: int, one: Summary, other: Summary
) -> list[str]:
    notes = []
    if len(differs) > 1:
        names = ", ".join(dimension.name for dimension in differs)
        notes.append(f"{names} differ at once: no difference can be put down to one of them")
    if identical < shared:
        notes.append(
            f"{shared - identical} of {shared} fixtures are equal in tokens, not in bytes: "
            "run both with fixture_mode fixed_bytes for a comparison of quality"
        )
    for name, run in (("the baseline", one), ("the candidate", other)):
        if not run.complete:
            notes.append(f"{name} has {run.cells_done} of {run.cells_planned} cells")
        if any(not row.measurement_valid for row in run.rows):
            notes.append(f"{name} has cells whose measurement is not valid")
        notes += [f"{name}: {warning}" for warning in run.warnings]
    notes.append("a few repeats show ranges, not significance")
    return notes
