"""The parts of the report page that need no script, each a section of HTML.

A section with nothing to show is None, and the page leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from msgspec import Struct

from farm.report.charts import (
    common_scale,
    interval_bar,
    outcome_bar,
    outcome_class,
    reliability_diagram,
    share_bar,
)
from farm.report.compare import NO_SPREAD
from farm.report.markdown import without_spread
from farm.report.tables import Table
from farm.report.text import chance, count, share, signed, signed_span, span, visible
from farm.stats.calibration import CalibrationReport
from farm.stats.leaderboard import LeaderboardRow
from farm.stats.pairwise import PairwiseDiff

_MATRIX_MODELS = 12
_DIAGRAMS = 12
_NUM = ' class="num"'


class Section(Struct, frozen=True, kw_only=True):
    """A part of the page: the anchor and title of its link, and its HTML."""

    anchor: str
    title: str
    html: str


def foreign(text: str, *, isolate: bool = True) -> str:
    """Return foreign text as HTML text, its direction kept to itself."""
    plain = escape(visible(text))
    return f"<bdi>{plain}</bdi>" if isolate else plain


def leaderboard_section(rows: Sequence[LeaderboardRow], *, level: float) -> Section | None:
    """Return the board with interval bars on one scale."""
    if not rows:
        return None
    ends = [end for row in rows for end in (row.ci_lo, row.ci_hi, row.mean_score)]
    scale = common_scale([end for end in ends if end is not None])
    body = "".join(_board_row(row, scale=scale) for row in rows)
    head = "".join(
        f'<th scope="col"{kind}>{title}</th>'
        for title, kind in (
            ("Rank", ' class="num"'), ("Model", ""), ("Mean", ' class="num"'),
            (f"{level * 100:g}% CI", ' class="num"'),
            (f"from {scale[0]:g} to {scale[1]:g}", ""), ("Win rate", ' class="num"'),
            ("Tasks", ' class="num"'),
        )
    )  # fmt: skip
    return _section(
        "leaderboard",
        "Leaderboard",
        "Means are over tasks, samples of a task averaged first."
        + (
            " Overlapping intervals do not mean equal models: the comparison below pairs them "
            "task by task."
            if len(rows) > 1
            else ""
        ),
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>",
    )


def _board_row(row: LeaderboardRow, *, scale: tuple[float, float]) -> str:
    tags = [] if row.complete else [f"{row.n_missing:,} missing"]
    tags += [flag.replace("_", " ") for flag in row.ci_flags]
    marks = "".join(f'<span class="tag">{escape(tag)}</span>' for tag in tags)
    interval = span(row.ci_lo, row.ci_hi)
    method = row.ci_method.replace("_", " ") if row.ci_lo is not None else row.ci_reason
    return (
        f'<tr><td class="num">{row.rank}</td>'
        f'<th scope="row" class="name">{foreign(row.model_id)}{marks}</th>'
        f'<td class="num">{share(row.mean_score)}</td>'
        f'<td class="num" title="{escape(method)}">{interval}</td>'
        f"<td>{interval_bar(row.mean_score, row.ci_lo, row.ci_hi, scale=scale)}</td>"
        f'<td class="num">{share(row.win_rate)}</td>'
        f'<td class="num">{row.tasks_completed:,}</td></tr>\n'
    )


def pairwise_section(
    rows: Sequence[LeaderboardRow], pairs: Sequence[PairwiseDiff]
) -> Section | None:
    """Return the matrix of differences, row minus column, of the first twelve models."""
    if not pairs:
        return None
    names = [row.model_id for row in rows][:_MATRIX_MODELS]
    known: dict[tuple[str, str], tuple[PairwiseDiff, float]] = {}
    for pair in pairs:
        known[pair.model_a, pair.model_b] = (pair, 1.0)
        known[pair.model_b, pair.model_a] = (pair, -1.0)
    head = "".join(f'<th scope="col">{foreign(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{foreign(one)}</th>'
        + "".join(_pair_cell(known.get((one, other)), same=one == other) for other in names)
        + "</tr>\n"
        for one in names
    )
    rest = len(rows) - len(names)
    flat = f" No spread: {NO_SPREAD}" if any(map(without_spread, pairs)) else ""
    more = f" The first {len(names)} of {len(rows)} models are shown." if rest > 0 else ""
    return _section(
        "pairwise",
        "Who differs from whom",
        "Row minus column over the tasks both have. Coloured where the paired test separates the "
        "two after Holm over all pairs; “tied” is not proof that they are equal: the smallest "
        "difference this many tasks would show, were it the only test, is in each cell's tip."
        f"{flat}{more}",
        f'<div class="scroll"><table class="matrix"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
    )


def _pair_cell(found: tuple[PairwiseDiff, float] | None, *, same: bool) -> str:
    if same or found is None:
        return '<td class="self"></td>'
    pair, sign = found
    if pair.diff_mean is None:
        return '<td class="tied">no common task</td>'
    difference = sign * pair.diff_mean
    ends = (pair.ci_lo, pair.ci_hi)
    if sign < 0 and pair.ci_lo is not None and pair.ci_hi is not None:
        ends = (-pair.ci_hi, -pair.ci_lo)
    spread = " (no spread)" if without_spread(pair) else ""
    tip = (
        f"{signed_span(*ends)}{spread}, {pair.test.replace('_', ' ')}, p {chance(pair.p_value)}, "
        f"after Holm {chance(pair.p_holm)}, {count(pair.n, 'task')}, "
        f"detectable {share(pair.detectable)}"
        + (f" ({pair.detectable_reason})" if pair.detectable_reason else "")
    )
    verdict = "tied"
    if pair.significant:
        verdict = "ahead" if difference > 0 else "behind"
    return (
        f'<td class="{verdict}" title="{escape(tip)}">{signed(difference)}'
        f"<small>{escape(signed_span(*ends) + spread)}</small>"
        f"<small>{verdict}, p {escape(chance(pair.p_holm))}</small>"
        # a tip is for the mouse alone; readers of the text get it too
        f'<span class="vh">{escape(tip)}</span></td>'
    )


def calibration_section(calibration: Mapping[str, CalibrationReport]) -> Section | None:
    """Return a reliability diagram for each model that gave confidences."""
    given = {model: report for model, report in calibration.items() if report.n_samples}
    if not given:
        return None
    figures = "".join(
        f"<figure>{reliability_diagram(report)}<figcaption><b>{foreign(model)}</b><br>"
        f"ECE {share(report.ece)} (a calibrated model of this size would show "
        f"{share(report.null_ece)}), Brier {share(report.brier)}, "
        f"{count(report.n_samples, 'case')}"
        + (f", {report.excluded:,} without a usable confidence" if report.excluded else "")
        + "</figcaption></figure>"
        for model, report in list(given.items())[:_DIAGRAMS]
    )
    rest = len(given) - _DIAGRAMS
    more = f" The first {_DIAGRAMS} of {len(given)} models are shown." if rest > 0 else ""
    return _section(
        "calibration",
        "Does confidence mean what it says?",
        "Accuracy against stated confidence, a dot for each tenth, larger with more cases, with "
        f"Wilson's interval. On the dashed line the model is right as often as it says.{more}",
        f'<div class="plots">{figures}</div>',
    )


def outcome_section(outcomes: Mapping[str, Mapping[str, int]]) -> Section | None:
    """Return how the cases of every model ended."""
    names = dict.fromkeys(name for counts in outcomes.values() for name in counts)
    there = [name for name in names if any(counts.get(name) for counts in outcomes.values())]
    if not there:
        return None
    legend = "".join(f'<li class="{outcome_class(name)}">{foreign(name)}</li>' for name in there)
    head = "".join(f'<th scope="col" class="num">{foreign(name)}</th>' for name in there)
    body = "".join(
        f'<tr><th scope="row" class="name">{foreign(model)}</th><td>{outcome_bar(counts)}</td>'
        + "".join(f'<td class="num">{counts.get(name, 0):,}</td>' for name in there)
        + "</tr>\n"
        for model, counts in outcomes.items()
    )
    return _section(
        "outcomes",
        "How cases ended",
        "Errors and unscorable cases are never counted as wrong answers; they are missing.",
        f'<ul class="legend" aria-hidden="true">{legend}</ul><div class="scroll"><table><thead>'
        f'<tr><th scope="col">Model</th><th scope="col">Shares</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
    )


def category_section(rows: Sequence[LeaderboardRow]) -> Section | None:
    """Return the means by category; none when there is at most one category."""
    names = list(dict.fromkeys(name for row in rows for name in row.categories))
    if len(names) < 2:
        return None
    head = "".join(f'<th scope="col">{foreign(row.model_id)}</th>' for row in rows)
    body = "".join(
        f'<tr><th scope="row">{foreign(name or "(none)")}</th>'
        + "".join(
            f"<td>{share(row.categories.get(name))}{share_bar(row.categories.get(name))}</td>"
            for row in rows
        )
        + "</tr>\n"
        for name in names
    )
    return _section(
        "categories",
        "By category",
        "Mean over the tasks of each category; a dash where a model has none.",
        f'<div class="scroll"><table><thead><tr><th scope="col">Category</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
    )


def table_section(table: Table) -> Section:
    """Return a plain table of figures, the first column naming the row."""
    head = "".join(
        f'<th scope="col"{"" if place == 0 else _NUM}>{foreign(text)}</th>'
        for place, text in enumerate(table.head)
    )
    body = "".join(
        f'<tr><th scope="row" class="name">{foreign(row[0])}</th>'
        + "".join(f"<td{_NUM}>{foreign(text)}</td>" for text in row[1:])
        + "</tr>\n"
        for row in table.rows
    )
    return _section(
        table.anchor,
        table.title,
        table.lead,
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>",
    )


def signature_section(lines: Mapping[str, str], identity: Mapping[str, str]) -> str:
    """Return how the figures were made, and of what."""
    pairs = "".join(
        f'<tr><th scope="row">{foreign(name)}</th><td class="mono">{foreign(value)}</td></tr>'
        for name, value in [*identity.items(), *lines.items()]
    )
    table = f'<div class="scroll"><table><tbody>{pairs}</tbody></table></div>' if pairs else ""
    return (
        '<section id="signature" aria-labelledby="signature-title">'
        '<h2 id="signature-title">How it was made</h2>'
        f"{table}</section>\n"
    )


def _section(anchor: str, title: str, lead: str, inner: str) -> Section:
    return Section(
        anchor=anchor,
        title=title,
        html=f'<section id="{anchor}" aria-labelledby="{anchor}-title">'
        f'<h2 id="{anchor}-title">{escape(title)}</h2>'
        f'<p class="lead">{escape(lead)}</p>{inner}</section>\n',
    )
