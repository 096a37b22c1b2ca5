"""From results.jsonl to a table: every cell over its repeats, raw values kept.

Only whole answers give figures of requests; what failed is counted beside them and marks the
cell. No percentile is read from a handful of repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

import msgspec

from farm.errors import Corrupt
from farm.qualify.cells import PHASES
from farm.qualify.metrics import pooled_acceptance
from farm.qualify.records import CellRecord, PhaseRecord
from farm.report.qualified import CellRow, Range, Summary

REQUEST_FIGURES: Final = (
    "ttft_any_s",
    "ttft_visible_s",
    "chunk_gap_p50_s",
    "chunk_gap_p95_s",
    "elapsed_s",
    "end_to_end_tokens_s",
    "server_decode_tokens_s",
    "draft_acceptance",
)
WAVE_FIGURES: Final = (
    "aggregate_tokens_s",
    "goodput_tokens_s",
    "wave_wall_s",
    "client_lag_p99_s",
)
NOTES: Final = (
    "a protocol and small code-task qualification: no general quality rank",
    "cold is an empty prefix cache of the model, not a cold page cache or an unloaded model",
    "a prime proves no residency: cache status is unknown without the server's cached-token count",
    "a closed loop of a few streams says nothing of saturation",
    "chunk gaps are gaps between chunks, not token latency",
    "the device lock keeps other qualifications away, not other clients",
)
_WHOLE: Final = frozenset({"ok", "empty", "no_visible_output"})
_DECODER: Final = msgspec.json.Decoder(CellRecord)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` prints when it ends."""

    run_id: str
    model: str
    complete: bool
    cells_done: int
    cells_planned: int
    tasks_succeeded: int
    tasks_total: int
    cells_measurement_valid: int
    measurement_reasons: dict[str, int]
    warnings: tuple[str, ...]


class _Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary needs of a configuration."""

    model: str = ""
    contexts: tuple[int, ...] = ()
    concurrency: tuple[int, ...] = ()
    cache_modes: tuple[str, ...] = ()
    repeats: int = 0

    @property
    def cells(self) -> int:
        """How many cells a run of it has."""
        return len(self.contexts) * len(self.concurrency) * len(self.cache_modes) * self.repeats


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary needs of provenance.json."""

    run_id: str = ""
    config: _Matrix = _Matrix()
    provenance: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()


def read_records(lines: Iterable[bytes]) -> list[CellRecord]:
    """Decode the lines of results.jsonl; raises `Corrupt` on any that is not a cell."""
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_DECODER.decode(line))
        except msgspec.DecodeError as error:
            raise Corrupt(path="results.jsonl", reason=f"line {number}: {error}") from error
    return records


def totals_of(lines: Sequence[bytes], provenance: Mapping[str, Any], *, complete: bool) -> Totals:
    """Return the totals of a run."""
    records, shown = read_records(lines), _shown(provenance)
    return Totals(
        run_id=shown.run_id,
        model=shown.config.model,
        complete=complete,
        cells_done=len(records),
        cells_planned=shown.config.cells,
        tasks_succeeded=sum(record.tasks_succeeded for record in records),
        tasks_total=sum(record.tasks_total for record in records),
        cells_measurement_valid=sum(record.measurement_valid for record in records),
        measurement_reasons=_count(records),
        warnings=shown.warnings,
    )


def summarize(lines: Sequence[bytes], provenance: Mapping[str, Any]) -> Summary:
    """Return the table of a run, rows in the order of the run."""
    records, shown = read_records(lines), _shown(provenance)
    groups: dict[tuple[int, int, str], list[CellRecord]] = {}
    for record in records:
        groups.setdefault((record.context, record.concurrency, record.cache), []).append(record)
    planned = shown.config.cells
    return Summary(
        run_id=shown.run_id,
        model=shown.config.model,
        cells_done=len(records),
        cells_planned=planned,
        complete=len(records) == planned,
        rows=tuple(_row(group) for group in groups.values()),
        percentiles="nearest-rank",
        warnings=shown.warnings,
        notes=NOTES,
        provenance=shown.provenance,
    )


def range_of(values: Iterable[float | None]) -> Range:
    """Return the ends of the values that are there; the median of two is their mean."""
    there = tuple(value for value in values if value is not None)
    return Range(
        n=len(there),
        min=min(there, default=None),
        median=median(there) if there else None,
        max=max(there, default=None),
        values=there,
    )


def _row(group: Sequence[CellRecord]) -> CellRow:
    first = group[0]
    tasks = [task for record in group for task in record.tasks]
    metrics: dict[str, Range] = {}
    for name in WAVE_FIGURES:
        metrics[name] = range_of(getattr(record, name) for record in group)
    for phase in (*PHASES, "prime"):
        phases = _phases(group, phase)
        whole = [one.metrics for one in phases if one.metrics.status in _WHOLE]
        if phases:
            for name in REQUEST_FIGURES:
                metrics[f"{phase}.{name}"] = range_of(getattr(one, name) for one in whole)
    acceptance, told, silent = pooled_acceptance(
        one.metrics.timings for task in tasks for one in task.phases.values()
    )
    won = sum(task.success for task in tasks)
    return CellRow(
        context=first.context,
        concurrency=first.concurrency,
        cache=first.cache,
        repeats=len(group),
        tasks_succeeded=won,
        tasks_total=len(tasks),
        success=f"{won}/{len(tasks)}",
        measurement_valid=all(record.measurement_valid for record in group),
        measurement_reasons=_count(group),
        context_verified=_all_of([record.context_verified for record in group]),
        cache_verified=_all_of([record.cache_verified for record in group]),
        metrics=metrics,
        draft_acceptance=acceptance,
        draft_requests=told,
        draft_silent_requests=silent,
    )


def _phases(group: Sequence[CellRecord], phase: str) -> list[PhaseRecord]:
    if phase == "prime":
        return [one for record in group for one in record.prime]
    return [task.phases[phase] for record in group for task in record.tasks if phase in task.phases]


def _count(records: Sequence[CellRecord]) -> dict[str, int]:
    reasons = Counter(reason for record in records for reason in record.measurement_reasons)
    return dict(sorted(reasons.items()))


def _all_of(found: Sequence[bool | None]) -> bool | None:
    if False in found:
        return False
    return None if None in found else True


def _shown(provenance: Mapping[str, Any]) -> _Shown:
    try:
        return msgspec.convert(provenance, _Shown)
    except msgspec.ValidationError as error:
        raise Corrupt(path="provenance.json", reason=str(error)) from error
