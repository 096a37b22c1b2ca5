"""Signals around an event loop: each is heard once, the third leaves, none falls through a gap."""

from __future__ import annotations

import signal
from signal import SIGINT, SIGTERM, raise_signal

import anyio
import pytest

from farm.runtime.interrupts import Interrupts


class Left(Exception):
    """Stands for the end of the process."""


def leave(number: signal.Signals) -> None:
    raise Left(number.name)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_signals_wake_the_loop_in_the_order_they_came() -> None:
    clock = Clock()

    async def heard() -> list[signal.Signals]:
        raise_signal(SIGTERM)
        clock.now = 1.0
        raise_signal(SIGINT)
        return [await interrupts.next(), await interrupts.next()]

    with Interrupts(leave=leave, clock=clock) as interrupts:
        assert anyio.run(heard) == [SIGTERM, SIGINT]


def test_the_third_leaves_whatever_the_loop_is_doing() -> None:
    """It is acted upon in the handler itself: a loop that hangs would never come to it."""
    clock = Clock()

    def press_thrice() -> None:
        with Interrupts(leave=leave, clock=clock):
            for clock.now, number in ((1.0, SIGINT), (2.0, SIGINT), (3.0, SIGTERM)):
                raise_signal(number)

    with pytest.raises(Left, match="SIGTERM"):
        press_thrice()


def test_a_signal_that_comes_twice_in_an_instant_is_one_wish() -> None:
    """`timeout` sends it to the process and then to its group: the grace is kept all the same."""
    clock = Clock()

    async def heard() -> list[signal.Signals]:
        for clock.now in (1.0, 1.001, 2.0):  # a millisecond apart, then a second
            raise_signal(SIGTERM)
        return [await interrupts.next(), await interrupts.next()]

    with Interrupts(leave=leave, clock=clock) as interrupts:  # three would have left
        assert anyio.run(heard) == [SIGTERM, SIGTERM]


def test_a_signal_that_nobody_took_goes_to_the_handler_that_was_there_before() -> None:
    came: list[int] = []
    before = signal.signal(SIGTERM, lambda number, frame: came.append(number))
    try:
        with Interrupts(leave=leave):
            raise_signal(SIGTERM)
            assert came == []
        assert came == [SIGTERM]
    finally:
        signal.signal(SIGTERM, before)
