"""The live view of an evaluation on a terminal: a line for each model, redrawn in place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from farm.config import Environment
from farm.core.printable import printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from farm.runtime.tally import Tally

_A_SECOND = 4  # redraws


class EvalView(AbstractContextManager["EvalView"]):
    """Draws a tally on stderr while it is open; log lines pass above it."""

    def __init__(self, tally: Tally, *, environment: Environment) -> None:
        # here and not at the top: rich loads for 40 ms, and only a terminal has use for it
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, no_color=environment.no_color, highlight=False, markup=False)
        self._tally = tally
        self._live: Live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=_A_SECOND,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> EvalView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def _draw(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, caption=self._tally.cost or None)
        for heading in ("model", "done", "a second", "in flight", "busy", "mean"):
            table.add_column(heading, justify="left" if heading == "model" else "right")
        for one in self._tally.standings():
            table.add_row(
                printable(one.model),
                f"{one.done:,}/{one.trials:,}",
                f"{one.rate:,.1f}",
                f"{one.in_flight}/{one.concurrency}",
                str(one.busy),
                "-" if one.mean is None else f"{one.mean:.3f}",
            )
        return table
