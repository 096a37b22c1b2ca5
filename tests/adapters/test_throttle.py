"""How many calls at a time, how many a minute, and who goes next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adapters.limit import AdaptiveLimit, Bucket
from farm.adapters.protocol import Call
from farm.adapters.throttle import Throttle
from farm.core.generation import Generation, Usage, failed
from tests.adapters.asking import Clock, Heard, request
from tests.adapters.loopback import run


def test_the_limit_grows_by_use_and_is_cut_once_for_one_overload() -> None:
    """From 8 by one a call until the first cut, to 0.7 of it at a cut, then by one a round."""
    limit = AdaptiveLimit(highest=64)
    assert limit.value == 8
    for _ in range(12):
        limit.succeeded(saturated=True)
    assert limit.value == 20
    assert limit.overloaded(began=1.0, now=2.0)
    assert limit.value == 14
    # calls that were out when it was cut tell of the load that was
    assert not limit.overloaded(began=1.5, now=3.0)
    assert limit.value == 14
    assert limit.overloaded(began=2.5, now=3.5)
    assert limit.value == 9
    for _ in range(10):
        limit.succeeded(saturated=True)
    assert limit.value == 10


def test_calls_below_the_limit_do_not_raise_it() -> None:
    """An endpoint that was never pressed has not shown that it bears more."""
    limit = AdaptiveLimit(highest=64)
    for _ in range(100):
        limit.succeeded(saturated=False)
    assert limit.value == 8


@given(st.integers(1, 200), st.lists(st.booleans(), max_size=200))
def test_the_limit_stays_between_one_and_the_highest(highest: int, story: list[bool]) -> None:
    """Law: whatever happens."""
    limit = AdaptiveLimit(highest=highest)
    for moment, good in enumerate(story):
        if good:
            limit.succeeded(saturated=True)
        else:
            limit.overloaded(began=float(moment), now=moment + 0.5)
        assert 1 <= limit.value <= highest


def test_a_limit_that_is_not_adaptive_stays() -> None:
    """For servers whose slots are known."""
    limit = AdaptiveLimit(highest=4, adaptive=False)
    assert not limit.overloaded(began=1, now=2)
    assert limit.value == 4


@given(
    per_minute=st.floats(1, 1e6),
    burst=st.floats(1, 1000),
    takes=st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 50)), min_size=1, max_size=60),
)
def test_a_bucket_never_gives_more_than_its_rate(
    per_minute: float, burst: float, takes: list[tuple[float, float]]
) -> None:
    """Law: what is due by a moment is at most the burst and the rate times the time gone by."""
    bucket = Bucket(per_minute=per_minute, burst=burst, now=0.0)
    now, taken, last_due = 0.0, 0.0, 0.0
    for pause, amount in takes:
        now += pause
        due = now + bucket.take(amount, now=now)
        taken += amount
        assert taken <= burst + due * per_minute / 60 + max(0.0, taken) * 1e-9 + 1e-6
        assert due >= last_due - 1e-6  # in the order of taking
        last_due = due


async def throttled(
    script: Sequence[Generation], *, calls: int, clock: Clock, heard: Heard, **limits: float
) -> list[float]:
    """Make calls one after another and give the times at which they went out."""
    times: list[float] = []

    async def send(call: Call) -> Generation:
        times.append(clock.now)
        return script[min(len(times), len(script)) - 1]

    throttle = Throttle(
        send,
        model="m",
        limit=AdaptiveLimit(highest=100),
        rpm=limits.get("rpm"),
        tpm=limits.get("tpm"),
        tell=heard,
        clock=clock,
        sleep=clock.sleep,
    )
    for _ in range(calls):
        await throttle(Call(request(), "d"))
    return times


def test_calls_a_minute_are_spread_evenly() -> None:
    """60 a minute is one a second, the first at once."""
    clock = Clock()
    times = run(throttled([Generation("4")], calls=4, clock=clock, heard=Heard(), rpm=60))
    assert times == [0.0, 1.0, 2.0, 3.0]


def test_tokens_a_minute_are_guessed_and_put_right_by_usage() -> None:
    """The guess is 1/4 + 256 tokens; each answer tells 600, and 600 a minute are 10 a second."""
    clock = Clock()
    told = Generation("4", usage=Usage(prompt_tokens=100, completion_tokens=500))
    times = run(throttled([told], calls=3, clock=clock, heard=Heard(), tpm=600))
    # level 10 - 256.25 waits 24.6 s for the first; usage then takes the rest of the 600
    assert times == pytest.approx([24.625, 84.625, 144.625])


def test_nobody_knocks_while_the_endpoint_asks_to_wait() -> None:
    """A 429 with Retry-After is about the key: other calls wait as well."""
    clock, heard = Clock(), Heard()
    script = [failed("busy", "d", retry_after_s=7.0), Generation("4")]
    times = run(throttled(script, calls=2, clock=clock, heard=heard))
    assert times == [0.0, 7.0]
    assert heard.names == ["endpoint.slowed", "endpoint.paused"]


def test_no_more_calls_are_out_than_the_limit_and_turns_are_taken_in_order() -> None:
    """Twenty at once through a limit of three: first come, first served."""

    async def story() -> tuple[int, list[int]]:
        out = most = 0
        order: list[int] = []

        async def send(call: Call) -> Generation:
            nonlocal out, most
            out += 1
            most = max(most, out)
            order.append(call.request.sample)
            await asyncio.sleep(0)
            out -= 1
            return Generation("4")

        clock = Clock()
        throttle = Throttle(
            send,
            model="m",
            limit=AdaptiveLimit(highest=3, adaptive=False),
            rpm=None,
            tpm=None,
            tell=Heard(),
            clock=clock,
            sleep=clock.sleep,
        )
        calls = (throttle(Call(request(sample), "d")) for sample in range(20))
        await asyncio.gather(*calls)
        assert throttle.in_flight == 0
        return most, order

    most, order = run(story())
    assert most == 3
    assert order == list(range(20))


def test_a_case_that_was_begun_goes_before_one_that_was_not() -> None:
    """Through a limit of one: the second attempt of sample 9 does not wait for samples 1 to 4."""

    async def story() -> list[int]:
        order: list[int] = []

        async def send(call: Call) -> Generation:
            order.append(call.request.sample)
            await asyncio.sleep(0)
            return Generation("4")

        throttle = Throttle(
            send,
            model="m",
            limit=AdaptiveLimit(highest=1, adaptive=False),
            rpm=None,
            tpm=None,
            tell=Heard(),
            clock=Clock(),
        )
        calls = [Call(request(sample), "d") for sample in range(5)]
        again = Call(request(9), "d", attempt=2)
        await asyncio.gather(*(throttle(call) for call in [*calls, again]))
        return order

    assert run(story()) == [0, 9, 1, 2, 3, 4]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 6))
def test_turns_given_up_are_not_lost(cancelled: list[int], after: int) -> None:
    """Law: whoever is cancelled, waiting or calling, the others all get their turn."""

    async def story() -> None:
        async def send(call: Call) -> Generation:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return Generation("4")

        throttle = Throttle(
            send,
            model="m",
            limit=AdaptiveLimit(highest=2, adaptive=False),
            rpm=None,
            tpm=None,
            tell=Heard(),
            clock=Clock(),
        )
        tasks = [
            asyncio.ensure_future(throttle(Call(request(sample), "d"))) for sample in range(10)
        ]
        for _ in range(after):
            await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for number, result in enumerate(results):
            if number not in cancelled:
                assert result == Generation("4")
        assert throttle.in_flight == 0

    run(story())


def test_a_sleep_that_is_cut_short_ends_a_pause() -> None:
    """The run is to end: sleeping returns at once, and the call goes on to be refused.

    Were the pause waited out by the clock all the same, nothing else would come to its turn.
    """

    async def story() -> int:
        asked = 0

        async def send(call: Call) -> Generation:
            nonlocal asked
            asked += 1
            return (
                failed("busy", "HTTP 429", retry_after_s=3600.0) if asked == 1 else Generation("4")
            )

        async def no_sleep(seconds: float) -> None:
            slept.append(seconds)

        throttle = Throttle(
            send,
            model="m",
            limit=AdaptiveLimit(highest=4),
            rpm=None,
            tpm=None,
            tell=Heard(),
            clock=Clock(),
            sleep=no_sleep,
        )
        for _ in range(2):
            await throttle(Call(request(), "d"))
        return asked

    slept: list[float] = []
    assert run(story()) == 2
    assert slept == [3600.0]
