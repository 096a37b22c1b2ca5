"""The report as Markdown, to paste into a review, and as a step summary of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.result import counts
from farm.report.compare import NO_SPREAD
from farm.report.envelope import Envelope
from farm.report.tables import Table, tables_of
from farm.report.text import MINUS, chance, count, markdown, share, signed, signed_span, span
from farm.stats.leaderboard import LeaderboardRow
from farm.stats.pairwise import PairwiseDiff

_NAME_CUT = 20
_PAIRS_SHOWN = 66  # twelve models; more is not read
_SUMMARY_LIMIT = 1_000_000  # GitHub drops a step summary over 1 MiB whole


def render_markdown(envelope: Envelope) -> str:
    """Return the leaderboard table, what is and is not separated, and the signature.

    The columns are Rank, Model, Mean, 95% CI, Win rate, Tasks, ECE, Brier. Model names are cut
    at 20 characters in this table only; cut ones are given in full below it.
    """
    parts = [
        *_failure(envelope),
        *_table(envelope),
        *_notes(envelope),
        *_pairs(envelope.pairwise),
        *[line for table in tables_of(envelope) for line in _plain(table)],
        *_signature(envelope),
    ]
    return "\n".join(parts) + "\n"


def render_step_summary(envelope: Envelope, *, title: str = "Evaluation") -> str:
    """Return the Markdown of a GitHub step summary: a headline, the table, outcomes folded away."""
    lines = [f"## {markdown(title)}", "", *_failure(envelope)]
    if envelope.leaderboard:
        lines += [_headline(envelope), ""]
    lines += [*_table(envelope), *_notes(envelope)]
    lines += ["<details><summary>Comparisons, outcomes, signature</summary>", ""]
    lines += [*_pairs(envelope.pairwise), *_outcomes(envelope), *_signature(envelope)]
    lines += ["", "</details>", ""]
    text = "\n".join(lines)
    if len(text.encode()) > _SUMMARY_LIMIT:
        short = [f"## {markdown(title)}", "", _headline(envelope), ""]
        return "\n".join([*short, "The table is too large for a step summary.", ""])
    return text


def _failure(envelope: Envelope) -> list[str]:
    # absent is UNSET, which is false
    if not envelope.error:
        return []
    return [f"**Failed: {markdown(envelope.error.code)}.** {markdown(envelope.error.detail)}", ""]


def _headline(envelope: Envelope) -> str:
    first = envelope.leaderboard[0]
    rest = sum(row.rank == first.rank for row in envelope.leaderboard) - 1
    shared = f" (rank shared by {rest + 1})" if rest else ""
    return (
        f"**{markdown(first.model_id)}**{shared}: mean {share(first.mean_score)}, "
        f"{envelope.signature.level:.0%} CI {span(first.ci_lo, first.ci_hi)} over "
        f"{count(first.tasks_completed, 'task')}; {count(envelope.summary.models, 'model')} in all."
    )


def _table(envelope: Envelope) -> list[str]:
    level = f"{envelope.signature.level * 100:g}% CI"
    head = ["Rank", "Model", "Mean", level, "Win rate", "Tasks", "ECE", "Brier"]
    lines = [
        "| " + " | ".join(head) + " |",
        "|---:|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in envelope.leaderboard:
        calibration = envelope.calibration.get(row.model_id)
        cells = [
            str(row.rank),
            markdown(row.model_id[:_NAME_CUT]),
            share(row.mean_score),
            span(row.ci_lo, row.ci_hi),
            share(row.win_rate),
            str(row.tasks_completed) + ("" if row.complete else " (incomplete)"),
            share(calibration.ece if calibration else None),
            share(calibration.brier if calibration else None),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _notes(envelope: Envelope) -> list[str]:
    notes = [
        *[
            f"- {markdown(row.model_id[:_NAME_CUT])} is {markdown(row.model_id)}."
            for row in envelope.leaderboard
            if len(row.model_id) > _NAME_CUT
        ],
        *[f"- {markdown(note)}" for note in all_row_warnings(envelope)],
        *[f"- {markdown(warning)}" for warning in envelope.warnings],
        *_corpus(envelope),
    ]
    return [*notes, ""] if notes else []


def _corpus(envelope: Envelope) -> list[str]:
    return [
        f"- {markdown(model)}: {markdown(figure.name)} {share(figure.score)} "
        f"({markdown(figure.signature)})"
        for model, figures in (envelope.corpus or {}).items()
        for figure in figures
    ]


def all_row_warnings(envelope: Envelope) -> list[str]:
    """Return what a reader must know about the rows, as plain sentences with the name in them."""
    return [
        note
        for row in envelope.leaderboard
        for note in (*_unscored(envelope, row.model_id), *_row_warnings(row))
    ]


def _unscored(envelope: Envelope, model: str) -> list[str]:
    """Say how many of a model's cases have no score, and what they could make of its accuracy.

    Also where each of its tasks has a sample that was scored, so that none is missing.
    """
    outcomes, accuracy = envelope.outcomes.get(model, {}), envelope.accuracy.get(model)
    ends = {name: n for name, n in outcomes.items() if n and not counts(name)}
    judged = accuracy is not None and accuracy.scored > 0  # else nobody gave verdicts
    lost = accuracy.not_scored if accuracy is not None and judged else sum(ends.values())
    if not lost:
        return []
    why = ", ".join(f"{name} {n:,}" for name, n in ends.items())
    note = f"{model}: {lost:,} of {count(sum(outcomes.values()), 'case')} without a score"
    note += f" ({why})" if why else ""
    if accuracy is not None and judged:
        bounds = f"between {share(accuracy.range_lo)} and {share(accuracy.range_hi)}"
        note += f"; over all of them its accuracy lies {bounds}"
    return [f"{note}."]


def _row_warnings(row: LeaderboardRow) -> list[str]:
    name, notes = row.model_id, []
    if row.n_missing:
        notes.append(
            f"{name}: {count(row.n_missing, 'task')} without a score; "
            "ranked below any complete model."
        )
    if "small_n" in row.ci_flags:
        notes.append(f"{name}: only {count(row.tasks_completed, 'task')}; the interval is rough.")
    if "few_clusters" in row.ci_flags:
        notes.append(f"{name}: under 20 clusters; the interval is rough.")
    if "degenerate" in row.ci_flags:
        what = "clusters" if row.ci_method.startswith("clustered") else "tasks"
        notes.append(
            f"{name}: all {what} have the same mean; the interval has no width, which is not "
            "certainty."
        )
    if row.ci_reason and row.tasks_completed:
        notes.append(f"{name}: no interval, {row.ci_reason}.")
    return notes


def _plain(table: Table) -> list[str]:
    lines = [
        "| " + " | ".join(map(markdown, table.head)) + " |",
        "|---|" + "---:|" * (len(table.head) - 1),
    ]
    lines += ["| " + " | ".join(map(markdown, row)) + " |" for row in table.rows]
    return [*lines, ""]


def _pairs(pairs: Sequence[PairwiseDiff]) -> list[str]:
    if not pairs:
        return []
    lines = [
        "| Pair | n | Difference | CI | Test | p (Holm) | Verdict | Detectable |",
        "|---|---:|---:|---|---|---:|---|---:|",
    ]
    for pair in pairs[:_PAIRS_SHOWN]:
        cells = [
            f"{markdown(pair.model_a)} {MINUS} {markdown(pair.model_b)}",
            f"{pair.n:,}",
            signed(pair.diff_mean),
            signed_span(pair.ci_lo, pair.ci_hi) + (" (no spread)" if without_spread(pair) else ""),
            pair.test.replace("_", " "),
            chance(pair.p_holm),
            verdict(pair),
            share(pair.detectable),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if len(pairs) > _PAIRS_SHOWN:
        lines += ["", f"The first {_PAIRS_SHOWN} of {len(pairs)} pairs; the JSON has them all."]
    if any(without_spread(pair) for pair in pairs[:_PAIRS_SHOWN]):
        lines += ["", f"(no spread) {NO_SPREAD}"]
    return [*lines, ""]


def without_spread(pair: PairwiseDiff) -> bool:
    """Tell whether a pair's interval has no width because all differences are equal."""
    return "degenerate" in pair.ci_flags


def verdict(pair: PairwiseDiff) -> str:
    """Return in one word or two what the test of a pair says."""
    if pair.p_holm is None:
        return "no test"
    if not pair.significant:
        return "tied"
    return "first ahead" if (pair.diff_mean or 0.0) > 0.0 else "second ahead"


def _outcomes(envelope: Envelope) -> list[str]:
    names = [
        name
        for name in next(iter(envelope.outcomes.values()), {})
        if any(counts.get(name) for counts in envelope.outcomes.values())
    ]
    if not names:
        return []
    lines = ["| Model | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    lines += [
        f"| {markdown(model)} | " + " | ".join(f"{counts.get(name, 0):,}" for name in names) + " |"
        for model, counts in envelope.outcomes.items()
    ]
    return [*lines, ""]


def _signature(envelope: Envelope) -> list[str]:
    # indented code would keep entities: names are shown as text instead
    return [
        f"- {markdown(model)}: {markdown(line)}" for model, line in envelope.signature.lines.items()
    ]
