"""A qualification as one HTML file that opens from disk: tables, and drawings of every cell.

It shares the sheet of the report page and its rule: no script, no network, foreign text escaped,
a content security policy that names the sheet by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from farm.report.qualification import COLUMNS, figure, known, plain, reasons, three
from farm.report.qualified import CellRow, Range, Summary
from farm.report.sections import foreign

_LATENCY = ("initial.ttft_any_s", "appended_tool_turn.ttft_any_s", "client_compaction.ttft_any_s")
_RATES = ("aggregate_tokens_s", "goodput_tokens_s", "initial.server_decode_tokens_s")
_TITLES = {
    "initial.ttft_any_s": "Initial request, time to first payload, s",
    "appended_tool_turn.ttft_any_s": "Appended tool turn, time to first payload, s",
    "client_compaction.ttft_any_s": "After compaction, time to first payload, s",
    "aggregate_tokens_s": "All completion tokens over the wave's wall time, tokens/s",
    "goodput_tokens_s": "Tokens of successful tasks alone, tokens/s",
    "initial.server_decode_tokens_s": "Decode rate by the server's own clock, tokens/s",
}
_WIDTH, _PAD = 460.0, 8.0


def render_page(found: Summary) -> Iterator[str]:
    """Yield the file in pieces, for writing as UTF-8; equal summaries give equal pieces."""
    yield _head(found)
    yield _table(found)
    yield _drawings(
        "latency", "Latency", "Min to max as a bar, every value as a dot.", found.rows, _LATENCY
    )
    yield _drawings(
        "throughput",
        "Throughput",
        "A closed loop of few streams: it says nothing of saturation.",
        found.rows,
        _RATES,
    )
    yield _made_of(found)
    yield "</main>\n</div>\n</body>\n</html>\n"


def _head(found: Summary) -> str:
    # part of the program, read like its modules: the room does no input of its own
    sheet = resources.files("farm.report").joinpath("page", "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    won = sum(row.tasks_succeeded for row in found.rows)
    tasks = sum(row.tasks_total for row in found.rows)
    valid = sum(row.measurement_valid for row in found.rows)
    figures = "".join(
        f'<div class="figure"><dt>{name}</dt><dd><div class="value">{value}</div>'
        f'<div class="note">{note}</div></dd></div>'
        for name, value, note in (
            ("Cells", f"{found.cells_done} of {found.cells_planned}", "measured and published"),
            ("Tasks", f"{won} of {tasks}", "succeeded"),
            (
                "Valid rows",
                f"{valid} of {len(found.rows)}",
                "every repeat measured as it should be",
            ),
        )
    )
    warnings = "".join(f"<li>{foreign(warning)}</li>" for warning in found.warnings)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>Qualification of {foreign(found.model, isolate=False)}</title>\n"
        f"<style>{sheet}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the figures</a>\n<div class="wrap">\n'
        f'<header class="top"><div class="grow"><h1>Qualification of {foreign(found.model)}</h1>'
        f"<p>run {foreign(found.run_id)}</p></div></header>\n"
        '<nav class="jump" aria-label="Parts of the report"><a href="#cells">Cells</a>'
        '<a href="#latency">Latency</a><a href="#throughput">Throughput</a>'
        '<a href="#made">How it was made</a></nav>\n<main id="main">\n'
        f'<dl class="figures" aria-label="Headline figures">{figures}</dl>\n'
        + (f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>\n' if warnings else "")
    )


def _table(found: Summary) -> str:
    heads = ["Context", "At once", "Cache", "Success", "Valid", "Cache verified"]
    heads += [heading for heading, _, _ in COLUMNS] + ["Draft acceptance"]
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join(
        f'<tr><th scope="row" class="num">{row.context:,}</th>'
        f'<td class="num">{row.concurrency}</td><td>{escape(row.cache)}</td>'
        f'<td class="num">{row.success}</td><td>{foreign(reasons(row))}</td>'
        f"<td>{known(row.cache_verified)}</td>"
        + "".join(
            f'<td class="num">{three(row.metrics.get(name), digits)}</td>'
            for _, name, digits in COLUMNS
        )
        + f'<td class="num">{figure(row.draft_acceptance, 3)}</td></tr>\n'
        for row in found.rows
    )
    return (
        '<section id="cells" aria-labelledby="cells-title"><h2 id="cells-title">Cells</h2>'
        '<p class="lead">Figures are min / median / max: of requests over all repeats, of waves '
        'over repeats. A dash is "not told", never zero.</p><div class="scroll"><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>\n"
    )


def _drawings(
    anchor: str, title: str, lead: str, rows: Sequence[CellRow], names: Sequence[str]
) -> str:
    figures = []
    for name in names:
        there = [row.metrics[name] for row in rows if name in row.metrics]
        top = max((values.max for values in there if values.max is not None), default=0.0)
        if top <= 0:
            continue
        body = "".join(
            f'<tr><th scope="row">{row.context:,} · {row.concurrency} at once · '
            f"{escape(row.cache)}</th><td>{_bar(row.metrics.get(name), top=top)}</td>"
            f'<td class="num">{three(row.metrics.get(name), 3)}</td></tr>\n'
            for row in rows
        )
        figures.append(
            f'<h3>{escape(_TITLES[name])}</h3><div class="scroll"><table><tbody>{body}</tbody>'
            "</table></div>"
        )
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">'
        f'{escape(title)}</h2><p class="lead">{escape(lead)}</p>{"".join(figures)}</section>\n'
    )


def _bar(values: Range | None, *, top: float) -> str:
    """Return the values on a line from 0 to the largest of all rows."""
    if values is None or values.min is None or values.max is None:
        return ""

    def x(value: float) -> str:
        return f"{_PAD + value / top * (_WIDTH - 2 * _PAD):.1f}"

    label = f"min, median, max: {three(values, 4)}"
    dots = "".join(
        f'<circle class="dot" cx="{x(value)}" cy="11" r="4"/>' for value in sorted(values.values)
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{_WIDTH:.0f}" height="22">'
        f'<line class="axis" x1="{x(0)}" x2="{x(top)}" y1="11" y2="11"/>'
        f'<line class="reach" x1="{x(values.min)}" x2="{x(values.max)}" y1="11" y2="11"/>'
        f"{dots}</svg>"
    )


def _made_of(found: Summary) -> str:
    pairs = "".join(
        f'<tr><th scope="row">{foreign(name)}</th>'
        f'<td class="mono">{foreign(plain(value))}</td></tr>'
        for name, value in found.provenance.items()
    )
    notes = "".join(f"<li>{foreign(note)}</li>" for note in found.notes)
    return (
        '<section id="made" aria-labelledby="made-title"><h2 id="made-title">How it was made</h2>'
        f'<ul>{notes}</ul><div class="scroll"><table><tbody>{pairs}</tbody></table></div>'
        "</section>\n"
    )
