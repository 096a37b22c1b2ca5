"""What an evaluation has beside its scores, as plain tables: samples, and what asking has cost.

A table is a value; Markdown and the page each show it their way.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from farm.core.cost import Spending
from farm.report.envelope import Envelope
from farm.report.text import share


class Table(Struct, frozen=True, kw_only=True):
    """Rows of figures, each under the name of what it is about, as texts that may be foreign."""

    anchor: str
    title: str
    lead: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables_of(envelope: Envelope) -> tuple[Table, ...]:
    """Return the tables of an envelope; none for recorded predictions."""
    found = (_samples(envelope), _costs(envelope))
    return tuple(table for table in found if table is not None)


def _samples(envelope: Envelope) -> Table | None:
    """Return pass@k and pass^k; the ks are those that all models have."""
    if not envelope.passes:
        return None
    known = [{one.k: one for one in own} for own in envelope.passes.values()]
    ks = sorted(set.intersection(*(set(own) for own in known))) if known else []
    if not ks:
        return None
    rows = tuple(
        (
            model,
            *(share(own[k].pass_at_k) for k in ks),
            *(share(own[k].pass_hat_k) for k in ks[1:]),
        )
        for model, own in zip(envelope.passes, known, strict=True)
    )
    return Table(
        anchor="samples",
        title="Samples",
        lead="The chance that at least one (pass@k), or that every one (pass^k) of k samples of a "
        "task is right, averaged over tasks.",
        head=("Model", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks[1:])),
        rows=rows,
    )


def _costs(envelope: Envelope) -> Table | None:
    if not envelope.costs:
        return None
    costs = envelope.costs
    named = [*costs.models.items(), *([("all", costs.total)] if len(costs.models) != 1 else [])]
    rows = tuple((model, *_cost_row(spent)) for model, spent in named)
    return Table(
        anchor="costs",
        title="What it has cost",
        lead="Over all crashes and resumes. Wasted calls were answered or under way when a process "
        "died, and were made again."
        if costs.models
        else "No call was made: what is answered came from where answers are kept.",
        head=(
            "Model",
            "Calls",
            "Retries",
            "Wasted",
            "Tokens in",
            "Tokens out",
            f"Money ({costs.currency})",
        ),
        rows=rows,
    )


def _cost_row(spent: Spending) -> tuple[str, ...]:
    return (
        f"{spent.calls:,}",
        f"{spent.retries:,}",
        f"{spent.wasted:,}",
        f"{spent.prompt_tokens:,}",
        f"{spent.completion_tokens:,}",
        _money(spent),
    )


def _money(spent: Spending) -> str:
    if spent.unpriced == spent.answered and not spent.money:
        return "\N{EN DASH}"
    shown = f"{spent.money.quantize(Decimal('0.000001')).normalize():f}"
    return f"{shown} and {spent.unpriced:,} without a price" if spent.unpriced else shown
