"""The tables of a qualification as Markdown, to paste into a review."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.report.qualified import Audit, CellRow, Comparison, Range, Summary
from farm.report.text import markdown

_DASH = "\u2013"
# heading, figure, digits
COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("TTFT any, s", "initial.ttft_any_s", 3),
    ("TTFT visible, s", "initial.ttft_visible_s", 3),
    ("Append TTFT, s", "appended_tool_turn.ttft_any_s", 3),
    ("Chunk gap p50, s", "initial.chunk_gap_p50_s", 4),
    ("Server decode, tok/s", "initial.server_decode_tokens_s", 1),
    ("Aggregate, tok/s", "aggregate_tokens_s", 1),
    ("Client lag p99, s", "client_lag_p99_s", 4),
)


def figure(value: float | None, digits: int) -> str:
    """Return a figure with fixed digits; a dash where there is none."""
    return _DASH if value is None else f"{value:,.{digits}f}"


def three(values: Range | None, digits: int) -> str:
    """Return min / median / max; a dash where there is none."""
    if values is None or not values.n:
        return _DASH
    ends = (values.min, values.median, values.max)
    return " / ".join(figure(end, digits) for end in ends)


def known(value: bool | None) -> str:
    """Return yes, no or unknown."""
    return {True: "yes", False: "no", None: "unknown"}[value]


def plain(value: object) -> str:
    """Return a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def reasons(row: CellRow) -> str:
    """Return whether a row's measurements are valid, and why not."""
    if row.measurement_valid:
        return "yes"
    return "no: " + ", ".join(
        f"{name} in {times}" for name, times in row.measurement_reasons.items()
    )


def summary_markdown(found: Summary) -> str:
    """Return a run's table; each figure is min / median / max."""
    lines = [
        f"# Qualification of {markdown(found.model)}",
        "",
        f"{found.cells_done} of {found.cells_planned} cells, run {markdown(found.run_id)}. "
        "Figures are min / median / max: of requests over all repeats, of waves over repeats.",
        "",
        *_table(
            [
                "Context", "At once", "Cache", "Repeats", "Success", "Valid", "Cache verified",
                *(heading for heading, _, _ in COLUMNS), "Draft acceptance",
            ],
            [
                [
                    f"{row.context:,}", str(row.concurrency), row.cache, str(row.repeats),
                    row.success, markdown(reasons(row)), known(row.cache_verified),
                    *(three(row.metrics.get(name), digits) for _, name, digits in COLUMNS),
                    figure(row.draft_acceptance, 3),
                ]
                for row in found.rows
            ],
        ),
        "",
        *(f"- Warning: {markdown(warning)}" for warning in found.warnings),
        *(f"- {markdown(note)}" for note in found.notes),
        "",
        *_table(
            ["Provenance", "Value"],
            [[markdown(name), markdown(plain(value))] for name, value in found.provenance.items()],
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def comparison_markdown(found: Comparison) -> str:
    """Return two runs side by side, or why they are not."""
    lines = [
        f"# {markdown(found.candidate)} against {markdown(found.baseline)}",
        "",
        f"{found.fixtures_identical} of {found.fixtures_shared} shared fixtures are identical.",
        "",
    ]
    if not found.comparable:
        lines += [f"**Not compared.** {markdown(found.reason)}", ""]
    if found.differs:
        lines += _table(
            ["Differs", "Baseline", "Candidate", "Separate experiment"],
            [
                [
                    markdown(one.name), markdown(plain(one.baseline)),
                    markdown(plain(one.candidate)), "yes" if one.separate else "no",
                ]
                for one in found.differs
            ],
        )  # fmt: skip
        lines.append("")
    if found.cells:
        rows = []
        for cell in found.cells:
            row = [
                f"{cell.context:,}", str(cell.concurrency), cell.cache,
                f"{cell.baseline_success} → {cell.candidate_success}",
                "yes" if cell.measurement_valid else "no",
            ]  # fmt: skip
            for _, name, digits in COLUMNS:
                one = cell.metrics.get(name)
                if one is None or one.difference is None:
                    row.append(_DASH)
                    continue
                mark = " *" if one.separated else ""
                row.append(
                    f"{one.difference:+,.{digits}f} "
                    f"[{figure(one.least, digits)}, {figure(one.most, digits)}]{mark}"
                )
            rows.append(row)
        heads = ["Context", "At once", "Cache", "Success", "Valid", *(h for h, _, _ in COLUMNS)]
        lines += ["Differences of medians, with the ends that any pair of values gives;", ""]
        lines[-2] += " a star where the ranges do not overlap."
        lines += [*_table(heads, rows), ""]
    lines += [f"- {markdown(note)}" for note in (*found.missing, *found.notes)]
    return "\n".join(lines) + "\n"


def audit_markdown(found: Audit) -> str:
    """Return an audit's counts and its next steps."""
    repeat = found.baseline_repeat
    lines = [
        f"# Exactness against {markdown(found.baseline)}",
        "",
        f"Baseline against its own repeat: {repeat.identical} of {repeat.pairs} identical, "
        f"{repeat.verdict.replace('_', ' ')}.",
        "",
        *_table(
            ["Configuration", "Identical", "Pairs", "Template mismatches", "Attributable"],
            [
                [
                    markdown(row.config), str(row.identical), str(row.pairs),
                    str(row.template_mismatches), known(row.attributable),
                ]
                for row in found.against_baseline
            ],
        ),
        "",
        *(
            f"- {markdown(row.one)} and {markdown(row.other)} agree on {row.identical} of "
            f"{row.pairs}; where both differ from the baseline ({row.both_differ_from_baseline}) "
            f"the first difference is at the same position in {row.same_first_difference}"
            for row in found.between_drafts
        ),
        *(f"- {markdown(note)}" for note in found.notes),
        *(["", "Next steps:", ""] if found.follow_up else []),
        *(f"{number}. {markdown(step)}" for number, step in enumerate(found.follow_up, start=1)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
