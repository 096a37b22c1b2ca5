"""Samples and costs as tables: which are shown, and what their figures are."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from farm.core.cost import Spending
from farm.report.envelope import Costs, Envelope, build_envelope
from farm.report.html import page_of, render_html
from farm.report.markdown import render_markdown
from farm.report.passes import Passes, passes_of
from farm.report.tables import tables_of
from farm.stats.evalrun import EvalRun


def row(task: str, sample: int, right: bool | None, *, model: str = "m") -> EvalRun:
    return EvalRun(
        model_id=model,
        task_id=task,
        sample=sample,
        score=None if right is None else float(right),
        correct=right,
        outcome="error" if right is None else "",
    )


def priced(**spent: Spending) -> Envelope:
    total = Spending(calls=3, answered=3, money=Decimal("0.25"))
    return msgspec.structs.replace(
        build_envelope([row("a", 0, True)]),
        costs=Costs(currency="EUR", models=spent, total=total),
    )


def test_passes_are_averaged_over_tasks() -> None:
    """By hand: task a has 2 of 4 right, b none. pass@2(4, 2) = 1 - 1/6 = 5/6, pass^2 = 1/6."""
    rows = [row("a", n, n < 2) for n in range(4)] + [row("b", n, False) for n in range(4)]
    assert passes_of(rows) == (
        Passes(k=1, pass_at_k=0.25, pass_hat_k=0.25, tasks=2),
        Passes(
            k=2,
            pass_at_k=pytest.approx(5 / 12),  # type: ignore[arg-type]
            pass_hat_k=pytest.approx(1 / 12),  # type: ignore[arg-type]
            tasks=2,
        ),
        Passes(k=4, pass_at_k=0.5, pass_hat_k=0.0, tasks=2),
    )


def test_a_task_with_fewer_scored_samples_bounds_k() -> None:
    rows = [row("a", 0, True), row("a", 1, True), row("b", 0, True), row("b", 1, None)]
    assert [one.k for one in passes_of(rows)] == [1]
    assert passes_of([row("a", 0, None)]) == ()


def test_one_sample_a_task_has_no_table() -> None:
    assert tables_of(build_envelope([row("a", 0, True)])) == ()


def test_money_says_what_had_no_price() -> None:
    (table,) = tables_of(
        priced(
            dear=Spending(calls=2, answered=2, money=Decimal("0.2500000"), unpriced=1),
            free=Spending(calls=1, answered=1, unpriced=1),
        )
    )
    assert table.head[-1] == "Money (EUR)"
    assert [(cells[0], cells[-1]) for cells in table.rows] == [
        ("dear", "0.25 and 1 without a price"),
        ("free", "–"),
        ("all", "0.25"),
    ]


def test_names_are_foreign_text_in_both_forms() -> None:
    envelope = priced(**{"<b>|x": Spending(calls=1), "y": Spending(calls=1)})
    text = render_markdown(envelope)
    assert r"| &lt;b&gt;\|x | 1 |" in text
    page = "".join(render_html(page_of(envelope, title="t")))
    assert "&lt;b&gt;|x" in page
    assert "<b>|x" not in page


def test_a_run_that_made_no_call_says_so() -> None:
    """All was answered from a cache: a table without a row would look like a fault."""
    nothing = Costs(currency="EUR", models={}, total=Spending())
    (table,) = tables_of(msgspec.structs.replace(priced(), costs=nothing))
    assert table.lead.startswith("No call was made")
    assert table.rows == (("all", "0", "0", "0", "0", "0", "–"),)
