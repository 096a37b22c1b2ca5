"""The options of `farm eval`, and the values they are gathered to."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict

import click

from farm.cli import options
from farm.cli.kinds import FilledPath, Name, Seconds
from farm.core.vocabulary import CATEGORIES

if TYPE_CHECKING:
    from farm.runtime.settings import RunSettings
    from farm.wiring_eval import Asking, Selection


class SelectionFlags(TypedDict):
    """The options that say what is asked."""

    tasks: str | None
    models: str | None
    names: Sequence[str]
    samples: int | None
    limit: int | None
    categories: Sequence[str]
    shards: int | None
    allow_bad_tasks: bool


class AskingFlags(TypedDict):
    """The options that say how it is asked."""

    concurrency: int | None
    cache: str | None
    prices: str | None
    max_cost: Decimal | None
    max_tokens: int | None
    accept_errors: bool
    workers: int
    deadline_s: float
    max_attempts: int
    wait: bool
    grace_s: float


class EvalFlags(SelectionFlags, AskingFlags, options.IsolationFlags, options.LogFlags):
    """Everything but the store."""

    kind: str
    stream: str | None


class Money(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """An amount of money: an exact decimal, finite and not below zero."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  click's own signature
        """Give the amount; anything else is a usage error."""
        try:
            amount = Decimal(str(value))
        except ArithmeticError:
            self.fail(f"{value!r} is not an amount of money.", param, ctx)
        if not (amount.is_finite() and amount >= 0):
            self.fail(f"{value!r} is not an amount of money.", param, ctx)
        return amount


selection = options.apply_all(
    [
        click.option(
            "--tasks", metavar="FILE", type=FilledPath(), help="Tasks, a JSON object a line."
        ),
        click.option(
            "--models", metavar="FILE", type=FilledPath(), help="Models, a TOML table each."
        ),
        click.option(
            "--model",
            "names",
            multiple=True,
            metavar="NAME",
            type=Name(),
            help="Ask only this one of them; repeat for more.",
        ),
        click.option(
            "--samples",
            type=click.IntRange(1, 1000),
            help="Ask each task so often, for pass@k and pass^k.  [default: 1]",
        ),
        click.option("--limit", type=click.IntRange(1), help="Only the first so many tasks."),
        click.option(
            "--category",
            "categories",
            multiple=True,
            type=click.Choice(CATEGORIES),
            help="Only tasks of this category; repeat for more.",
        ),
        click.option(
            "--shards",
            type=click.IntRange(1, 1024),
            help="Shard count of a new store.  [default: one for 16 trials]",
        ),
        click.option(
            "--allow-bad-tasks", is_flag=True, help="Leave out tasks that break a rule, and say so."
        ),
    ]
)

asking = options.apply_all(
    [
        click.option(
            "--concurrency",
            type=click.IntRange(1, 4096),
            help="The most calls at a time for each model.  [default: as the models file says]",
        ),
        click.option(
            "--cache",
            metavar="FILE",
            type=FilledPath(),
            help="Keep answers here, also for other runs.  [default: in the store]",
        ),
        click.option(
            "--prices", metavar="FILE", type=FilledPath(), help="Prices, to count money as well."
        ),
        click.option("--max-cost", type=Money(), help="End as pending when so much is spent."),
        click.option(
            "--max-tokens",
            type=click.IntRange(1),
            help="End as pending when so many tokens are spent.",
        ),
        click.option(
            "--accept-errors",
            is_flag=True,
            help="Report calls that failed as errors instead of leaving them to be asked again.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(1, 64),
            default=1,
            show_default=True,
            help="Processes that ask; they share the limits.",
        ),
        click.option(
            "--deadline-s",
            type=Seconds(0),
            default=0.0,
            help="End as pending after so long.  [default: none]",
        ),
        click.option(
            "--max-attempts",
            type=click.IntRange(1, 1_000_000),
            default=3,
            show_default=True,
            help="Workers that may die over a shard before it is quarantined.",
        ),
        click.option(
            "--wait",
            is_flag=True,
            help="Wait for other owners' leases to expire instead of ending as pending.",
        ),
        click.option(
            "--grace-s",
            type=Seconds(0),
            default=10.0,
            show_default=True,
            help="For calls that are out to be answered after Ctrl-C, SIGTERM or the deadline.",
        ),
    ]
)


def selection_of(given: SelectionFlags) -> Selection:
    """Gather what is asked."""
    # here and not at the top: it loads for 300 ms, which --help does not need
    from farm.wiring_eval import Selection

    return Selection(
        tasks=given["tasks"],
        models=given["models"],
        names=tuple(given["names"]),
        samples=given["samples"],
        limit=given["limit"],
        categories=tuple(given["categories"]),
        shards=given["shards"],
        allow_bad_tasks=given["allow_bad_tasks"],
    )


def asking_of(given: EvalFlags) -> Asking | None:
    """Gather how it is asked; None where no models are named."""
    from farm.wiring_eval import Asking

    if given["models"] is None:
        return None
    return Asking(
        models=given["models"],
        concurrency=given["concurrency"],
        cache=given["cache"],
        prices=given["prices"],
        max_cost=given["max_cost"],
        max_tokens=given["max_tokens"],
        accept_errors=given["accept_errors"],
    )


def settings_of(given: EvalFlags) -> RunSettings:
    """Gather how the run is supervised."""
    from farm.runtime.settings import RunSettings

    return RunSettings(
        workers=given["workers"],
        deadline_s=given["deadline_s"],
        max_attempts=given["max_attempts"],
        wait=given["wait"],
        grace_s=given["grace_s"],
        require_isolation=given["require_isolation"],
        allow_unisolated=given["allow_unisolated"],
    )
