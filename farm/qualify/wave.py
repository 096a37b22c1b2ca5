"""A wave: all tasks of a cell at once, timed, with the client's own lag beside them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import anyio

from farm.qualify.cells import Cell
from farm.qualify.config import Config
from farm.qualify.metrics import nearest_rank
from farm.qualify.ports import Endpoint
from farm.qualify.records import Wave
from farm.qualify.task import Conversation, Exchange, ask_initial, converse
from farm.qualify.workload import Fixture

_PROBE_S: Final = 0.005


class LagProbe:
    """Measures how late this process is: the event loop's answer to a sleep of five milliseconds.

    What it finds is a lower bound for the error of every stamp of the same loop.
    """

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._late: list[float] = []

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            asked = self._clock()
            await anyio.sleep(_PROBE_S)
            self._late.append(max(0.0, self._clock() - asked - _PROBE_S))

    @property
    def p99_s(self) -> float | None:
        """The 99th percentile of the lag, None before the first probe."""
        return nearest_rank(self._late, 99)

    @property
    def max_s(self) -> float | None:
        """The longest lag, None before the first probe."""
        return max(self._late, default=None)


async def run_wave(
    cell: Cell,
    fixtures: Sequence[Fixture],
    *,
    config: Config,
    endpoint: Endpoint,
    expires_unix: float,
) -> Wave:
    """Prime if the cell says so, then hold all conversations at once."""
    prime: tuple[Exchange, ...] = ()
    if cell.cache == "primed":
        prime = await _prime(fixtures, config=config, endpoint=endpoint)
    with _no_collection():
        return await _timed(
            fixtures,
            prime,
            config=config,
            endpoint=endpoint,
            cold=cell.cache == "cold",
            expires_unix=expires_unix,
        )


async def _timed(
    fixtures: Sequence[Fixture],
    prime: tuple[Exchange, ...],
    *,
    config: Config,
    endpoint: Endpoint,
    cold: bool,
    expires_unix: float,
) -> Wave:
    probe = LagProbe()
    talks: dict[int, Conversation] = {}
    async with anyio.create_task_group() as around:
        around.start_soon(probe.run)
        began_unix, began = time.time(), time.perf_counter()

        def clock() -> float:
            return time.perf_counter() - began

        async def hold(stream: int, fixture: Fixture) -> None:
            talks[stream] = await converse(
                fixture, config=config, endpoint=endpoint, clock=clock, cold=cold
            )

        async with anyio.create_task_group() as streams:
            for stream, fixture in enumerate(fixtures):
                streams.start_soon(hold, stream, fixture)
        wall_s = clock()
        around.cancel_scope.cancel()
    return Wave(
        began_unix=began_unix,
        wall_s=wall_s,
        conversations=tuple(talks[stream] for stream in range(len(fixtures))),
        prime=prime,
        lag_p99_s=probe.p99_s,
        lag_max_s=probe.max_s,
        lease_held=time.time() < expires_unix,
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector still: its longest pauses are as long as the gaps measured."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


async def _prime(
    fixtures: Sequence[Fixture], *, config: Config, endpoint: Endpoint
) -> tuple[Exchange, ...]:
    """Send every initial request once, at once, as the wave will."""
    began = time.perf_counter()
    found: dict[int, Exchange] = {}

    async def ask(stream: int, fixture: Fixture) -> None:
        found[stream] = await ask_initial(
            fixture,
            config=config,
            endpoint=endpoint,
            clock=lambda: time.perf_counter() - began,
            phase="prime",
        )

    async with anyio.create_task_group() as streams:
        for stream, fixture in enumerate(fixtures):
            streams.start_soon(ask, stream, fixture)
    return tuple(found[stream] for stream in range(len(fixtures)))
