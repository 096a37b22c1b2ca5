"""Two lists are compared by which objects they hold, not by what those say of themselves."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from farm.sandbox.same import leading


class Equal:
    """Equal to everything, and never asked."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("identity alone tells")

    __hash__ = object.__hash__


@given(st.integers(0, 700), st.integers(0, 700), st.integers(0, 700))
def test_it_tells_the_first_difference(length: int, at: int, cut: int) -> None:
    """Law: as many as are the same objects before the first that is not, or an end."""
    left = [Equal() for _ in range(length)]
    right = left[:cut]
    if at < len(right):
        right[at] = Equal()
    assert leading(left, right) == min(length, cut, at)


def test_a_change_of_type_is_a_difference() -> None:
    """1, True and 1.0 are equal, and not the same."""
    for one in (True, 1.0):
        assert leading([0] * 99 + [1], [0] * 99 + [one]) == 99
