"""Which outcomes are part of an accuracy, and how a verdict is written."""

from __future__ import annotations

import msgspec
import pytest

from farm.core.result import OUTCOMES, CaseResult, counts


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_errors_and_unscorable_cases_do_not_count(outcome: str) -> None:
    """A program's timeout is an answer; a request's ends as an error and is none."""
    assert counts(outcome) == (outcome not in {"error", "unscorable"})


def test_an_outcome_that_is_none_does_not_count() -> None:
    assert not counts("quarantined")


def test_a_result_has_these_fields_in_this_order() -> None:
    """Receipts write them so; a new order would change every receipt's digest."""
    assert CaseResult.__struct_fields__ == ("id", "correct", "score", "outcome", "trust")


def test_trust_is_written_only_where_there_is_some() -> None:
    """The receipts of text scorers are the bytes they always were."""
    plain = CaseResult(id="a", correct=True, score=1.0, outcome="correct")
    assert (
        msgspec.json.encode(plain) == b'{"id":"a","correct":true,"score":1.0,"outcome":"correct"}'
    )
    trusting = msgspec.structs.replace(plain, trust=("remote_eq",))
    assert msgspec.json.encode(trusting).endswith(b',"trust":["remote_eq"]}')
