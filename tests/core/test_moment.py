"""Times for people: a date where the clock has one, else the number."""

from __future__ import annotations

import pytest

from farm.core.moment import moment


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (110, "110"),  # of a logical clock
        (1_796_039_971_280, "2026-11-30T11:59:31Z"),  # date -u -d @1796039971
        (253_402_300_799_999, "9999-12-31T23:59:59Z"),
        (253_402_300_800_000, "253402300800000"),  # no date is so late
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_moment_is_a_date_where_there_is_one(ms: int, shown: str) -> None:
    assert moment(ms) == shown
