"""Levels are ordered, and that of many programs is what all of them had."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.isolation import LEVELS, Isolation, weakest

isolations = st.builds(
    Isolation,
    level=st.sampled_from(LEVELS),
    landlock_abi=st.integers(0, 7),
    seccomp=st.booleans(),
    namespaces=st.booleans(),
    grading=st.sampled_from(["split", "in_process"]),
    trust=st.lists(st.sampled_from(["remote_eq", "remote_order"]), unique=True).map(
        lambda names: tuple(sorted(names))
    ),
)


def test_a_level_reaches_itself_and_what_is_weaker() -> None:
    full = Isolation(level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False)
    assert [full.reaches(level) for level in LEVELS] == [True, True, True, True, False]


def test_of_two_programs_the_weaker_walls_and_all_the_trust_are_told() -> None:
    strong = Isolation(
        level="os-enforced+ns", landlock_abi=7, seccomp=True, namespaces=True, trust=("remote_eq",)
    )
    weak = Isolation(
        level="partial", landlock_abi=0, seccomp=True, namespaces=False,
        grading="in_process", trust=("in_process",),
    )  # fmt: skip
    assert weakest([strong, weak, strong]) == Isolation(
        level="partial", landlock_abi=0, seccomp=True, namespaces=False,
        grading="in_process", trust=("in_process", "remote_eq"),
    )  # fmt: skip
    assert weakest([]) is None


@given(st.lists(isolations, min_size=1))
def test_the_order_of_programs_does_not_matter(found: list[Isolation]) -> None:
    """Law: reports of one run are equal whatever the order of its shards."""
    shuffled = sorted(found, key=lambda one: (one.trust, one.level, one.landlock_abi))
    assert weakest(shuffled) == weakest(found) == weakest([*found, *found])


@given(st.lists(isolations, min_size=1))
def test_nothing_is_claimed_that_any_program_lacked(found: list[Isolation]) -> None:
    """Law: every single isolation reaches the level of their sum."""
    total = weakest(found)
    assert total is not None
    assert all(one.reaches(total.level) and one.landlock_abi >= total.landlock_abi for one in found)


def test_a_level_that_is_none_is_refused_when_it_is_read() -> None:
    """A ledger or receipt that names one was not written by farm."""
    text = b'{"level":"total","landlock_abi":7,"seccomp":true,"namespaces":true}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Isolation)
