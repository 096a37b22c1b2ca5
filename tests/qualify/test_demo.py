"""The demonstration ends by itself, with everything done."""

from __future__ import annotations

import json

import pytest

from farm.cli.demo_qualify import show


def test_the_demo_measures_four_cells_and_prints_two_lines(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """One context, 1 and 2 at once, cold and primed: six tasks, all done right."""
    show()
    run, summary = (json.loads(line) for line in capfdbinary.readouterr().out.splitlines())
    assert run["phase"] == "run"
    totals = run["totals"]
    assert (totals["cells_done"], totals["complete"]) == (4, True)
    assert (totals["tasks_succeeded"], totals["tasks_total"]) == (6, 6)
    assert totals["warnings"] == []
    assert set(totals["measurement_reasons"]) <= {"client_lag"}
    assert [row["success"] for row in summary["summary"]["rows"]] == ["1/1", "1/1", "2/2", "2/2"]
