"""How far an evaluation is: sums over workers that live, and over those that have ended."""

from __future__ import annotations

from farm.core.message import ModelPulse, Pulse
from farm.runtime.tally import Tally


def pulse(done: int, *, in_flight: int, concurrency: int) -> Pulse:
    told = ModelPulse(
        done=done,
        scored=done,
        score=float(done),
        in_flight=in_flight,
        concurrency=concurrency,
        busy=1,
    )
    return Pulse(models={"m": told}, cost="")


def test_a_worker_that_has_ended_counts_for_what_it_did_and_asks_nothing_more() -> None:
    """Its last word was of eight calls out of eight; the worker that took over has four."""
    tally = Tally(["m"], trials=100, clock=lambda: 0.0)
    tally.take("w1", pulse(10, in_flight=8, concurrency=8))
    tally.ended("w1")
    (standing,) = tally.standings()
    assert (standing.done, standing.in_flight, standing.concurrency) == (10, 0, 0)
    tally.take("w2", pulse(5, in_flight=3, concurrency=4))
    (standing,) = tally.standings()
    assert (standing.done, standing.in_flight, standing.concurrency) == (15, 3, 4)
    assert (standing.busy, standing.mean) == (2, 1.0)


def test_the_end_of_a_worker_that_said_nothing_is_no_news() -> None:
    """It died before its first word."""
    tally = Tally(["m"], trials=100, clock=lambda: 0.0)
    tally.ended("w1")
    assert tally.standings()[0].concurrency == 0
