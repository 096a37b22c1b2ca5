"""Deadlines of one length: each ends its own task's waiting, and no other's."""

from __future__ import annotations

import asyncio

import pytest

from farm.adapters.deadline import Deadline, Deadlines


def test_a_deadline_ends_what_waits_and_only_that() -> None:
    """Of two tasks under one timer the one that ends in time keeps its result."""

    async def wait(deadlines: Deadlines, waiting: asyncio.Event) -> str:
        limit = Deadline(deadlines)
        try:
            with limit:
                await waiting.wait()
        except TimeoutError:
            assert limit.expired
            return "late"
        return "in time"

    async def story() -> list[str]:
        deadlines, soon, never = Deadlines(0.02), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(wait(deadlines, event)) for event in (never, soon, never)]
        await asyncio.sleep(0)
        soon.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(story()) == ["late", "in time", "late"]


def test_deadlines_set_one_after_another_fall_due_one_after_another() -> None:
    """The timer goes on to the next oldest; without that the second would wait for ever."""

    async def story() -> int:
        deadlines, late = Deadlines(0.01), 0
        for _ in range(3):
            with pytest.raises(TimeoutError), Deadline(deadlines):
                await asyncio.Event().wait()
            late += 1
        return late

    assert asyncio.run(story()) == 3


def test_a_cancellation_by_somebody_else_passes() -> None:
    """It must not be taken for a deadline: a task group ends its tasks so."""

    async def story() -> None:
        deadlines = Deadlines(60)

        async def wait() -> None:
            with Deadline(deadlines):
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_a_task_that_is_cancelled_as_its_deadline_falls_due_stays_cancelled() -> None:
    """As with asyncio.timeout: whoever cancelled besides us still waits for the end."""

    async def story() -> asyncio.Task[None]:
        deadlines = Deadlines(0.01)

        async def wait() -> None:
            limit = Deadline(deadlines)
            with limit:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    assert limit.expired
                    asyncio.current_task().cancel()  # type: ignore[union-attr]
                    raise

        task = asyncio.create_task(wait())
        await asyncio.wait([task])
        return task

    assert asyncio.run(story()).cancelled()


def test_an_error_within_a_deadline_passes_and_the_next_loop_has_its_own_timer() -> None:
    """One adapter may be used by several event loops, one after another."""
    deadlines = Deadlines(0.01)

    async def fail() -> None:
        with Deadline(deadlines):
            raise KeyError("k")

    async def wait() -> None:
        with Deadline(deadlines):
            await asyncio.Event().wait()

    with pytest.raises(KeyError):
        asyncio.run(fail())
    with pytest.raises(TimeoutError):
        asyncio.run(wait())
