"""Which outcomes are part of an accuracy."""

from __future__ import annotations

import pytest

from farm.core.result import OUTCOMES, CaseResult, counts


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_errors_and_unscorable_cases_do_not_count(outcome: str) -> None:
    assert counts(outcome) == (outcome not in {"error", "timeout", "unscorable"})


def test_a_timeout_counts_when_it_was_the_program_that_ran_out_of_time() -> None:
    assert counts("timeout", program_ran=True)
    assert not counts("error", program_ran=True)
    assert not counts("unscorable", program_ran=True)


def test_a_result_has_these_fields_in_this_order() -> None:
    """Receipts write them so; a new order would change every receipt's digest."""
    assert CaseResult.__struct_fields__ == ("id", "correct", "score", "outcome")
