"""The report as one HTML file that opens from disk, with no network and no foreign markup.

Figures, tables and drawings are plain HTML and SVG, there without script; the one script serves
the table of cases. A content security policy names that script and the sheet by their hashes, so
that even markup that slipped through could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from importlib import resources

import msgspec
from msgspec import Struct

from farm.core.result import OUTCOMES
from farm.report.casepages import CaseRow, pack_cases
from farm.report.envelope import Envelope
from farm.report.markdown import all_row_warnings
from farm.report.sections import (
    calibration_section,
    category_section,
    foreign,
    leaderboard_section,
    outcome_section,
    pairwise_section,
    signature_section,
    table_section,
)
from farm.report.tables import Table, tables_of
from farm.report.text import count, share, span
from farm.stats.calibration import CalibrationReport
from farm.stats.leaderboard import LeaderboardRow
from farm.stats.pairwise import PairwiseDiff


class Figure(Struct, frozen=True, kw_only=True):
    """A headline number: what it is, the number, and its interval or n in words."""

    label: str
    value: str
    note: str = ""


class Page(Struct, frozen=True, kw_only=True):
    """All a report page shows; any part may be empty, and an empty part is left out.

    `cases` is read once, while the page is written. Models without a calibration are left out of
    the reliability diagrams.
    """

    title: str
    subtitle: str = ""
    headline: tuple[Figure, ...] = ()
    warnings: tuple[str, ...] = ()
    leaderboard: tuple[LeaderboardRow, ...] = ()
    pairwise: tuple[PairwiseDiff, ...] = ()
    calibration: Mapping[str, CalibrationReport] = msgspec.field(default_factory=dict)
    outcomes: Mapping[str, Mapping[str, int]] = msgspec.field(default_factory=dict)
    signature: Mapping[str, str] = msgspec.field(default_factory=dict)
    identity: Mapping[str, str] = msgspec.field(default_factory=dict)
    level: float = 0.95
    tables: tuple[Table, ...] = ()
    cases: Iterable[CaseRow] = ()


def page_of(
    envelope: Envelope, *, title: str, subtitle: str = "", cases: Iterable[CaseRow] = ()
) -> Page:
    """Return the page of an envelope, its headline figures and warnings written out."""
    failure = (f"{envelope.error.code}: {envelope.error.detail}",) if envelope.error else ()
    best_first = [row.model_id for row in envelope.leaderboard]
    return Page(
        title=title,
        subtitle=subtitle,
        headline=headline_of(envelope),
        warnings=(
            *failure,
            *envelope.warnings,
            *all_row_warnings(envelope),
        ),
        leaderboard=envelope.leaderboard,
        pairwise=envelope.pairwise,
        calibration={model: envelope.calibration[model] for model in best_first},
        outcomes={model: envelope.outcomes[model] for model in best_first},
        signature=envelope.signature.lines,
        identity=envelope.identity,
        level=envelope.signature.level,
        tables=tables_of(envelope),
        cases=cases,
    )


def headline_of(envelope: Envelope) -> tuple[Figure, ...]:
    """Return the numbers of the top of the page; none for an empty board."""
    if not envelope.leaderboard:
        return ()
    first = envelope.leaderboard[0]
    level = f"{envelope.signature.level * 100:g}% CI"
    figures = [
        Figure(
            label="Mean score" if len(envelope.leaderboard) == 1 else "Best mean score",
            value=share(first.mean_score),
            note=f"{first.model_id}, {level} {span(first.ci_lo, first.ci_hi)}",
        )
    ]
    accuracy = envelope.accuracy.get(first.model_id)
    if accuracy is not None and accuracy.accuracy is not None:
        reach = (
            f"; {share(accuracy.range_lo)} to {share(accuracy.range_hi)} with "
            f"{count(accuracy.not_scored, 'unscored trial')}"
            if accuracy.not_scored
            else ""
        )
        # tasks that were not asked equally often weigh the same all the same
        alike = abs(accuracy.accuracy - accuracy.correct / accuracy.scored) < 1e-9
        figures.append(
            Figure(
                label="Correct",
                value=f"{accuracy.correct:,} of {accuracy.scored:,}",
                note=f"accuracy {share(accuracy.accuracy)}{'' if alike else ' over tasks'}, "
                f"{level} {span(accuracy.ci_lo, accuracy.ci_hi)}{reach}",
            )
        )
    figures += [
        Figure(
            label=figure.name.replace("_", " "),
            value=share(figure.score),
            note=f"{first.model_id}, {figure.signature}",
        )
        for figure in (envelope.corpus or {}).get(first.model_id, ())
    ]
    summary = envelope.summary
    figures.append(
        Figure(
            label="Tasks",
            value=f"{summary.tasks:,}",
            note=f"{count(summary.models, 'model')}, {count(summary.task_runs, 'trial')}",
        )
    )
    if len(envelope.leaderboard) > 1:
        figures.append(_separation(envelope))
    return tuple(figures)


def _separation(envelope: Envelope) -> Figure:
    """Say how many models are behind the best one, and how many ahead, after Holm.

    Ahead can be one that stands below for want of tasks.
    """
    first = envelope.leaderboard[0].model_id
    verdicts = Counter(
        (pair.diff_mean or 0.0) * (1.0 if first == pair.model_a else -1.0) > 0.0
        for pair in envelope.pairwise
        if first in (pair.model_a, pair.model_b) and pair.significant
    )
    ahead = f"; {count(verdicts[False], 'model')} ahead of it" if verdicts[False] else ""
    return Figure(
        label="Best, and separated",
        value=f"{verdicts[True]} of {len(envelope.leaderboard) - 1}",
        note=f"other models are behind it beyond chance (Holm over all pairs){ahead}",
    )


def render_html(page: Page) -> Iterator[str]:
    """Yield the file in pieces, for writing as UTF-8; equal pages give equal pieces.

    Cases are taken from their iterator one block at a time.
    """
    sections = [
        leaderboard_section(page.leaderboard, level=page.level),
        pairwise_section(page.leaderboard, page.pairwise),
        calibration_section(page.calibration),
        outcome_section(page.outcomes),
        category_section(page.leaderboard),
        *map(table_section, page.tables),
    ]
    shown = [section for section in sections if section is not None]
    yield _head(page, [(section.anchor, section.title) for section in shown])
    for section in shown:
        yield section.html
    yield _case_section(page)
    yield signature_section(page.signature, page.identity)
    yield "</main>\n"
    yield from pack_cases(page.cases)
    yield f"<script>{_part('page.js')}</script>\n</div>\n</body>\n</html>\n"


@cache
def _part(name: str) -> str:
    # part of the program, read like its modules: the room does no input of its own
    return resources.files("farm.report").joinpath("page", name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _head(page: Page, anchors: list[tuple[str, str]]) -> str:
    policy = (
        f"default-src 'none'; script-src '{_digest(_part('page.js'))}'; "
        f"style-src '{_digest(_part('page.css'))}'; base-uri 'none'; form-action 'none'"
    )
    links = [*anchors, ("cases", "Cases"), ("signature", "How it was made")]
    jump = "".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title in links)
    figures = "".join(
        f'<div class="figure"><dt>{escape(figure.label)}</dt><dd><div class="value">'
        f'{escape(figure.value)}</div><div class="note">{foreign(figure.note)}</div></dd></div>'
        for figure in page.headline
    )
    warnings = "".join(f"<li>{foreign(warning)}</li>" for warning in page.warnings)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="referrer" content="no-referrer">\n',
        f"<title>{foreign(page.title, isolate=False)}</title>\n",
        f"<style>{_part('page.css')}</style>\n</head>\n<body>\n",
        '<a class="skip" href="#main">Skip to the figures</a>\n<div class="wrap">\n',
        f'<header class="top"><div class="grow"><h1>{foreign(page.title)}</h1>',
        f"<p>{foreign(page.subtitle)}</p></div>",
        '<button id="theme" type="button">Theme: auto</button></header>\n',
        f'<nav class="jump" aria-label="Parts of the report">{jump}</nav>\n<main id="main">\n',
        f'<dl class="figures" aria-label="Headline figures">{figures}</dl>\n' if figures else "",
        f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>\n' if warnings else "",
    ]
    return "".join(parts)


def _case_section(page: Page) -> str:
    names = dict.fromkeys([*OUTCOMES, *(n for counts in page.outcomes.values() for n in counts)])
    there = [name for name in names if any(counts.get(name) for counts in page.outcomes.values())]
    chips = "".join(
        f'<label class="chip"><input type="checkbox" value="{escape(name)}">'
        f"{foreign(name)} <span>{sum(c.get(name, 0) for c in page.outcomes.values()):,}</span>"
        "</label>"
        for name in there
    )
    models = list(dict.fromkeys([*page.outcomes, *(row.model_id for row in page.leaderboard)]))
    return _CASES.format(chips=chips, chips_hidden="" if chips else " hidden",
                         one=" hidden" if len(models) < 2 else "")  # fmt: skip


_CASES = """<section id="cases" aria-labelledby="cases-title">
<h2 id="cases-title">Cases</h2>
<p class="lead">Open a case to see what was asked, answered, extracted and which rule decided.
<kbd>/</kbd> searches, <kbd>↑</kbd> <kbd>↓</kbd> move between cases, <kbd>Enter</kbd> opens one,
<kbd>Esc</kbd> closes it.</p>
<noscript><p>The table of cases needs JavaScript; the figures above do not.</p></noscript>
<div class="tools">
<label>Search in ids and texts<input type="search" id="search" autocomplete="off"></label>
<label{one}>Model<select id="model-filter"><option value="">All models</option></select></label>
</div>
<fieldset id="outcome-filter"{chips_hidden}><legend>Outcome</legend>{chips}</fieldset>
<p id="case-status" class="quiet" role="status">Reading the cases</p>
<div class="scroll"><table><caption class="vh">Cases, fifty at a time</caption>
<thead><tr>
<th scope="col" aria-sort="none"><button class="sort" type="button" data-by="id">Case</button></th>
<th scope="col" aria-sort="none"><button class="sort" type="button" data-by="model">Model</button>
</th>
<th scope="col" aria-sort="none"><button class="sort" type="button" data-by="outcome">Outcome
</button></th>
<th scope="col" aria-sort="none" class="num"><button class="sort" type="button" data-by="score">
Score</button></th>
</tr></thead><tbody id="case-rows"></tbody></table></div>
<div class="pager"><button id="previous" type="button" disabled>Previous</button>
<span id="where"></span><button id="next" type="button" disabled>Next</button></div>
</section>
"""
