"""The wrappers together: what reaches the endpoint, what is kept, what stops the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.openai import OpenAIEndpoint
from farm.core.cost import Price, Prices, Spending
from farm.core.generation import Generation
from farm.errors import Halted
from farm.store.cache import GenerationCache
from farm.store.costs import CostLedger
from tests.adapters.asking import Clock, Heard, openai_settings, task
from tests.adapters.loopback import Handler, Loopback, Received, Wire, answer, run, saying

PRICES = Prices(models={"model": Price(input=Decimal(1), output=Decimal(2))})
ASKER = Path(__file__).with_name("ask_until_killed.py")


@asynccontextmanager
async def surroundings(folder: Path, **more: Any) -> AsyncIterator[Surroundings]:
    """A cache and a ledger in a folder; pauses pass by a clock of their own."""
    cache = GenerationCache(str(folder / "generations.sqlite"))
    ledger = CostLedger(str(folder / "costs.jsonl"), prices=PRICES)
    clock = Clock()
    try:
        yield Surroundings(
            cache=cache,
            ledger=ledger,
            clock=clock,
            sleep=clock.sleep,
            chance=lambda: 0.0,
            **more,
        )
    finally:
        ledger.close()
        cache.close()


def model(url: str, around: Surroundings, **more: Any) -> ComposedModel:
    settings = openai_settings(url, **more)
    return ComposedModel(OpenAIEndpoint(settings, name="model"), settings, around)


def sums(around: Surroundings) -> Spending:
    assert isinstance(around.ledger, CostLedger)
    return around.ledger.spending()["model"]


def test_an_answer_is_bought_once_and_given_ever_after(tmp_path: Path) -> None:
    """Asked twice, and again after everything was closed and opened: one call at the server."""

    async def story() -> None:
        async with Loopback(saying("four")) as server:
            for _ in range(2):
                async with (
                    surroundings(tmp_path) as around,
                    model(server.url, around) as asked,
                ):
                    for _ in range(2):
                        generation = await asked.ask("p", task(), sample=0)
                        assert generation.text == "four"
                        assert generation.usage is not None
                    assert sums(around).calls == 1
            assert len(server.received) == 1

    run(story())


def test_two_tasks_that_ask_the_same_at_once_buy_one_answer(tmp_path: Path) -> None:
    """Ten of them at a time, of equal prompts under other names: one call, none wasted."""

    async def story() -> tuple[list[str], Spending]:
        async with (
            Loopback(saying("four")) as server,
            surroundings(tmp_path) as around,
            model(server.url, around) as asked,
        ):
            asking = [asked.ask("p", task(f"t{number}")) for number in range(10)]
            texts = [generation.text for generation in await asyncio.gather(*asking)]
            return texts, sums(around)

    texts, spending = run(story())
    assert texts == ["four"] * 10
    assert (spending.calls, spending.wasted) == (1, 0)


def test_an_answer_that_another_run_kept_first_was_bought_for_nothing(tmp_path: Path) -> None:
    """Two runs with one cache ask at once; both see one answer, and one call is wasted for ever."""
    both = asyncio.Event()
    out = list[str]()

    async def behave(received: Received, wire: Wire) -> None:
        out.append(f"answer {len(out)}")
        mine = out[-1]
        if len(out) == 2:
            both.set()
        await both.wait()
        await wire.reply(answer(mine))

    async def story() -> tuple[list[str], list[int]]:
        (tmp_path / "other").mkdir()
        async with (
            Loopback(behave) as server,
            surroundings(tmp_path) as around,
            surroundings(tmp_path / "other") as apart,
        ):
            assert around.cache is not None
            shared = GenerationCache(str(tmp_path / "generations.sqlite"))
            beside = replace(apart, cache=shared)
            async with model(server.url, around) as one, model(server.url, beside) as other:
                asks = (one.ask("p", task()), other.ask("p", task()))
                texts = [generation.text for generation in await asyncio.gather(*asks)]
                texts.append((await other.ask("p", task())).text)
                texts.append((await one.ask("p", task())).text)
            shared.close()
            return texts, sorted([sums(around).wasted, sums(apart).wasted])

    texts, wasted = run(story())
    assert len(set(texts)) == 1
    assert wasted == [0, 1]


def test_what_is_looked_up_ahead_is_bought_once_all_the_same(tmp_path: Path) -> None:
    """Equal calls in one look, a second look while the call is out, and the call after its end.

    Each look finds nothing kept yet; none of the later calls may take that for still true.
    """

    async def story() -> tuple[int, list[str]]:
        is_out, may_end = asyncio.Event(), asyncio.Event()

        async def handle(received: Received, wire: Wire) -> None:
            is_out.set()
            await may_end.wait()
            await wire.reply(answer("four"))

        async with (
            Loopback(handle) as server,
            surroundings(tmp_path) as around,
            model(server.url, around) as asked,
        ):
            one, other = asked.call("p", task("a")), asked.call("p", task("b"))
            await asked.look_ahead([one, other])
            first = asyncio.ensure_future(asked.answer(one))
            await is_out.wait()
            await asked.look_ahead([one, other])
            may_end.set()
            given = [await first, await asked.answer(other), await asked.answer(one)]
            return len(server.received), [generation.text for generation in given]

    assert run(story()) == (1, ["four"] * 3)


def test_what_was_kept_is_given_after_a_look_ahead(tmp_path: Path) -> None:
    """By another process that used the same file: nothing is bought, as without the look."""

    async def story() -> int:
        async with Loopback(saying("four")) as server:
            for _ in range(2):
                async with surroundings(tmp_path) as around, model(server.url, around) as asked:
                    calls = [asked.call(f"p{number}", task()) for number in range(3)]
                    await asked.look_ahead(calls)
                    for call in [*calls, *calls]:
                        assert (await asked.answer(call)).text == "four"
            return len(server.received)

    assert run(story()) == 3


def test_of_two_that_ask_the_same_at_once_the_second_asks_where_the_first_failed(
    tmp_path: Path,
) -> None:
    async def story() -> list[Generation]:
        async with (
            Loopback(failing_first(1, 400)) as server,
            surroundings(tmp_path) as around,
            model(server.url, around) as asked,
        ):
            return list(await asyncio.gather(asked.ask("p", task("a")), asked.ask("p", task("b"))))

    first, second = run(story())
    assert first.failure is not None
    assert second.text == "four"


def test_whatever_could_change_an_answer_is_a_call_of_its_own(tmp_path: Path) -> None:
    """Sample, prompt, settings, model version; the task's name and the order of keys are not."""

    async def story() -> int:
        async with Loopback(saying("four")) as server, surroundings(tmp_path) as around:
            one = {"request": {"temperature": 0, "max_tokens": 5}}
            turned = {"request": {"max_tokens": 5, "temperature": 0}}
            for settings, prompt, sample, name in (
                (one, "p", 0, "t1"),
                (turned, "p", 0, "t1"),
                (one, "p", 0, "t2"),
                (one, "p", 1, "t1"),
                (one, "q", 0, "t1"),
                ({"request": {"temperature": 0.5, "max_tokens": 5}}, "p", 0, "t1"),
                ({**one, "model_version": "2"}, "p", 0, "t1"),
                ({**one, "system": "be brief"}, "p", 0, "t1"),
            ):
                async with model(server.url, around, **settings) as asked:
                    await asked.ask(prompt, task(name), sample=sample)
            return len(server.received)

    assert run(story()) == 6


def failing_first(times: int, status: int, **headers: str) -> Handler:
    """Fail the first calls of every prompt, then answer."""
    seen: dict[bytes, int] = {}

    async def handle(received: Received, wire: Wire) -> None:
        seen[received.body] = seen.get(received.body, 0) + 1
        if seen[received.body] <= times:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            await wire.reply(b"{}", status=status, headers=named)
        else:
            await wire.reply(answer("four"))

    return handle


def test_failures_that_pass_are_asked_again_and_counted(tmp_path: Path) -> None:
    """Two 503, then an answer: three calls, two retries, both told."""

    async def story() -> tuple[Generation, Spending, Heard]:
        heard = Heard()
        async with (
            Loopback(failing_first(2, 503)) as server,
            surroundings(tmp_path, tell=heard) as around,
            model(server.url, around) as asked,
        ):
            generation = await asked.ask("p", task())
            return generation, sums(around), heard

    generation, spending, heard = run(story())
    assert generation.text == "four"
    assert (spending.calls, spending.answered, spending.failed) == (3, 1, 2)
    assert (spending.retries, spending.wasted) == (2, 0)
    assert heard.names == ["call.retried", "call.retried"]


def test_a_failure_is_given_back_and_not_kept(tmp_path: Path) -> None:
    """Three attempts failed; the next run asks anew and gets its answer."""

    async def story() -> tuple[Generation, Generation]:
        async with (
            Loopback(failing_first(3, 500)) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, attempts=3) as asked,
        ):
            first = await asked.ask("p", task())
            return first, await asked.ask("p", task())

    first, second = run(story())
    assert first.failure is not None
    assert first.failure.kind == "server"
    assert second.text == "four"


def test_a_wrong_key_stops_the_run_after_three_calls(tmp_path: Path) -> None:
    """A hundred cases, eight at a time: those already out end, and no other goes out."""

    async def story() -> tuple[int, int]:
        async with (
            Loopback(failing_first(1000, 401)) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, concurrency=8) as asked,
        ):
            asks = (asked.ask(f"p{n}", task()) for n in range(100))
            results = await asyncio.gather(*asks, return_exceptions=True)
            halted = sum(isinstance(result, Halted) for result in results)
            return halted, len(server.received)

    halted, received = run(story())
    assert halted >= 98  # two had their failure before the third
    assert 3 <= received <= 10


def test_a_budget_stops_the_run_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    """Each answer is 5 + 2 tokens and 5 * 1 + 2 * 2 millionths; three cases fit in 20 tokens."""

    async def spend(**bounds: Any) -> tuple[list[str], Halted | None]:
        answered: list[str] = []
        async with (
            Loopback(saying("four")) as server,  # at a new address: nothing is in the cache
            surroundings(tmp_path / "run", **bounds) as around,
            model(server.url, around) as asked,
        ):
            for number in range(5):
                try:
                    generation = await asked.ask(f"p{number}", task())
                except Halted as halted:
                    return answered, halted
                answered.append(generation.text)
        return answered, None

    (tmp_path / "run").mkdir()
    answered, halted = run(spend(max_tokens=20))
    assert len(answered) == 3
    assert halted is not None
    assert halted.reason == "max_tokens"
    assert "21 tokens are spent, --max-tokens is 20" in str(halted)
    answered, halted = run(spend(max_money=Decimal("0.000030")))
    assert len(answered) == 1  # 27 millionths were spent before, 36 are after
    assert halted is not None
    assert halted.reason == "max_cost"
    answered, halted = run(spend(max_money=Decimal(1)))
    assert (len(answered), halted) == (5, None)


def test_a_bound_in_money_needs_prices(tmp_path: Path) -> None:
    """A model without a price would run past any bound; it stops after the first call."""

    async def story() -> None:
        async with Loopback(saying("four")) as server, surroundings(tmp_path) as around:
            assert isinstance(around.ledger, CostLedger)
            other = str(tmp_path / "other.jsonl")
            unpriced = CostLedger(other, prices=Prices(), price_names={"model": "model-9"})
            bounded = replace(around, ledger=unpriced, max_money=Decimal(1))
            async with model(server.url, bounded) as asked:
                await asked.ask("p", task())
                with pytest.raises(Halted, match="add 'model-9' to the price list"):
                    await asked.ask("q", task())
            unpriced.close()
            # once it has a price, the call of before has it too: 5 + 2 * 2 millionths
            listed = Prices(models={"model-9": PRICES.models["model"]})
            priced = CostLedger(other, prices=listed, price_names={"model": "model-9"})
            assert priced.spent().money == Decimal("0.000009")
            async with model(server.url, replace(bounded, ledger=priced)) as asked:
                assert (await asked.ask("q", task())).failure is None
            priced.close()

    run(story())


@pytest.mark.parametrize("bounds", [{"max_tokens": 1000}, {"max_money": Decimal(1)}])
def test_a_bound_needs_an_endpoint_that_tells_its_tokens(
    tmp_path: Path, bounds: dict[str, Any]
) -> None:
    """Nothing told is not nothing spent: it stops after the first answer, and says why."""

    async def untold(received: Received, wire: Wire) -> None:
        await wire.reply(answer("four", usage=None))

    async def story() -> None:
        async with (
            Loopback(untold) as server,
            surroundings(tmp_path, **bounds) as around,
            model(server.url, around) as asked,
        ):
            await asked.ask("p", task())
            with pytest.raises(Halted, match="'model' does not tell its tokens"):
                await asked.ask("q", task())

    run(story())


def test_a_case_is_over_when_its_time_is(tmp_path: Path) -> None:
    """The call is given up, and counted as such."""

    async def mute(received: Received, wire: Wire) -> None:
        await asyncio.sleep(30)

    async def story() -> tuple[Generation, Spending]:
        async with (
            Loopback(mute) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, case_timeout_s=0.3) as asked,
        ):
            return await asked.ask("p", task()), sums(around)

    generation, spending = run(story())
    assert generation.failure is not None
    assert generation.failure.kind == "timeout"
    assert (spending.calls, spending.given_up, spending.wasted) == (1, 1, 1)


def test_what_a_case_waits_for_its_turn_is_no_part_of_its_time(tmp_path: Path) -> None:
    """Twelve cases of a tenth of a second, one at a time, with 0.6 s for each of them."""

    async def slow(received: Received, wire: Wire) -> None:
        await asyncio.sleep(0.1)
        await wire.reply(answer("four"))

    async def story() -> list[Generation]:
        async with (
            Loopback(slow) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, case_timeout_s=0.6, concurrency=1) as asked,
        ):
            return await asyncio.gather(*(asked.ask(f"p{n}", task()) for n in range(12)))

    assert [generation.failure for generation in run(story())] == [None] * 12


def test_a_pause_longer_than_a_cases_time_ends_that_case_and_no_other(tmp_path: Path) -> None:
    """Ten minutes where a case has 0.5 s: it may be asked later, and the others wait it out."""
    waited = asyncio.Event()

    async def pause(seconds: float) -> None:
        if seconds > 60:
            await asyncio.sleep(1.0)  # longer than the case's time; the clock goes on by them
            clock.now += seconds
            waited.set()

    clock = Clock()

    async def story() -> tuple[Generation, list[Generation]]:
        async with (
            Loopback(failing_first_of_all(429, retry_after="600")) as server,
            surroundings(tmp_path) as around,
            model(
                server.url,
                replace(around, clock=clock, sleep=pause),
                case_timeout_s=0.5,
                concurrency=2,
            ) as asked,
        ):
            first = await asked.ask("p", task())
            others = await asyncio.gather(*(asked.ask(f"p{n}", task()) for n in range(4)))
            return first, others

    first, others = run(story())
    assert waited.is_set()
    assert first.failure is not None
    assert (first.failure.kind, first.failure.transient, first.failure.final) == (
        "busy",
        True,
        False,
    )
    assert [generation.text for generation in others] == ["four"] * 4


def failing_first_of_all(status: int, **headers: str) -> Handler:
    """Fail the first call, then answer."""
    seen = list[bytes]()

    async def handle(received: Received, wire: Wire) -> None:
        seen.append(received.body)
        if len(seen) == 1:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            await wire.reply(b"{}", status=status, headers=named)
        else:
            await wire.reply(answer("four"))

    return handle


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_taken_on_a_connection_that_is_then_closed_is_a_call(
    tmp_path: Path, stream: bool
) -> None:
    """The server reads the second request of a connection and hangs up without a word.

    Each is made again at once, though there is one attempt; the two counts agree. There are as
    many as connections that were kept by then, and no more are.
    """
    answered: set[Wire] = set()

    async def handle(received: Received, wire: Wire) -> None:
        if wire in answered:
            wire.hang_up()
        else:
            answered.add(wire)
            await wire.reply(answer("four"))

    async def story() -> tuple[list[Generation], Spending, int]:
        async with (
            Loopback(handle) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, concurrency=4, attempts=1, stream=stream) as asked,
        ):
            generations = await asyncio.gather(*(asked.ask(f"p{n}", task()) for n in range(40)))
            return generations, sums(around), len(server.received)

    generations, spending, received = run(story())
    assert [generation.text for generation in generations] == ["four"] * 40
    assert (spending.answered, spending.calls) == (40, received)
    assert spending.failed == spending.retries == received - 40
    assert 1 <= received - 40 <= 4


def test_a_connection_the_server_has_left_is_not_a_failed_case(tmp_path: Path) -> None:
    """The server hangs up after every answer without a word; each request arrives once."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(answer("four"))
        wire.hang_up()

    async def story() -> tuple[list[Generation], int, int]:
        async with (
            Loopback(handle) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, concurrency=4, attempts=1) as asked,
        ):
            generations = await asyncio.gather(*(asked.ask(f"p{n}", task()) for n in range(200)))
            return generations, sums(around).answered, len(server.received)

    generations, answered, received = run(story())
    assert [generation.failure for generation in generations] == [None] * 200
    assert (answered, received) == (200, 200)


def test_no_more_calls_are_out_at_the_server_than_was_said(tmp_path: Path) -> None:
    """Sixty cases with a concurrency of four, as the server sees it."""

    async def slow(received: Received, wire: Wire) -> None:
        await asyncio.sleep(0.005)
        await wire.reply(answer("four"))

    async def story() -> tuple[int, int]:
        async with (
            Loopback(slow) as server,
            surroundings(tmp_path) as around,
            model(server.url, around, concurrency=4) as asked,
        ):
            await asyncio.gather(*(asked.ask(f"p{n}", task()) for n in range(60)))
            return server.most_at_once, server.connections

    most, connections = run(story())
    assert most == 4
    assert connections == 4


def test_a_ledger_without_a_cache_is_refused(tmp_path: Path) -> None:
    """Every answer would count as wasted."""
    ledger = CostLedger(str(tmp_path / "c"), prices=PRICES)
    with pytest.raises(ValueError, match="cache"):
        model("http://127.0.0.1:1", Surroundings(ledger=ledger))
    ledger.close()


@pytest.mark.parametrize("answers", [3, 17])
def test_only_calls_in_flight_are_repeated_after_a_kill(tmp_path: Path, answers: int) -> None:
    """Forty cases by a process that is killed; the server's count and the ledger's agree.

    calls = cases + those that were wasted, and no more were lost than could be in flight.
    """

    async def story() -> None:
        served = 0
        enough = asyncio.Event()

        async def handle(received: Received, wire: Wire) -> None:
            nonlocal served
            await asyncio.sleep(0.002)
            await wire.reply(answer("four"))
            served += 1
            if served >= answers:
                enough.set()

        async with Loopback(handle) as server:
            child = await asyncio.create_subprocess_exec(
                sys.executable, str(ASKER), server.url, str(tmp_path)
            )
            await enough.wait()
            child.kill()
            await child.wait()
            async with surroundings(tmp_path) as around:
                async with model(server.url, around, concurrency=4) as asked:
                    asks = (asked.ask(f"p{n}", task()) for n in range(40))
                    generations = await asyncio.gather(*asks)
                assert [g.text for g in generations] == ["four"] * 40
                spending = sums(around)
            # a call may have been written down and not have left yet, never the other way round
            assert len(server.received) <= spending.calls <= len(server.received) + 4
            assert spending.wasted == spending.calls - 40
            # four out at a time; an answer that came may wait 50 ms for its commit
            assert spending.lost <= 4

    run(story())
