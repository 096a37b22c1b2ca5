"""A model's endpoint on the loopback that counts every call and misbehaves as a test says.

It runs in a thread of the test, so that commands can be waited for while it serves. What was
asked is known by prompt and seed: tasks of `tests.eval.asking` begin their prompts with their
id, and a sample's seed is its index.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from tests.adapters.loopback import Loopback, Received, Wire, answer

Result = TypeVar("Result")
_PATIENCE_S = 50.0  # nothing on the loopback takes as long


class Key(NamedTuple):
    """Which answer was asked for."""

    model: str
    task: str
    sample: int


class Asked(NamedTuple):
    """One call as it came."""

    key: Key
    number: int  # of the calls for this key, from 1
    received: Received

    @property
    def text(self) -> str:
        """What a well-behaved model answers: right, but for every third task."""
        return text_of(self.key)


Behaviour = Callable[[Asked, Wire], Awaitable[None]]


def text_of(key: Key) -> str:
    """The answer to a key; it names the key, so that a kept answer can be told from another."""
    number = int(key.task[1:])
    word = "wrong" if (number + key.sample) % 3 == 0 else "right"
    return f"{word}\n{key.model} {key.task} {key.sample}"


async def answers(asked: Asked, wire: Wire) -> None:
    """Behave."""
    await wire.reply(answer(asked.text))


def after(seconds: float, then: Behaviour = answers) -> Behaviour:
    """Take a while."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await asyncio.sleep(seconds)
        await then(asked, wire)

    return behave


def refuses(
    status: int, body: bytes = b'{"error": {"message": "no"}}', **headers: str
) -> Behaviour:
    """Answer with a status; names of headers have _ for -."""

    async def behave(asked: Asked, wire: Wire) -> None:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        await wire.reply(body, status=status, headers=told)

    return behave


def at_first(times: int, behaviour: Behaviour, then: Behaviour = answers) -> Behaviour:
    """Misbehave at the first calls for each key."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await (behaviour if asked.number <= times else then)(asked, wire)

    return behave


class ModelServer:
    """Serves as `behaviour` says, which may be exchanged at any time; use it with `with`."""

    def __init__(self, behaviour: Behaviour = answers) -> None:
        self.behaviour = behaviour
        self.calls: Counter[Key] = Counter()
        self.replied: Counter[Key] = Counter()
        self.log: list[tuple[float, Key]] = []  # when each call came, monotonic
        self.most_at_once = 0
        self._changed = threading.Condition()
        self._in_flight: Counter[Key] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._gate = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._loopback = self._await(Loopback(self._handle).__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._await(self._loopback.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return self._loopback.url

    @property
    def in_flight(self) -> list[Key]:
        """What was asked and is not replied to."""
        with self._changed:
            return sorted(self._in_flight.elements())

    @property
    def total(self) -> int:
        """How many calls came."""
        with self._changed:
            return self.calls.total()

    @property
    def extra(self) -> int:
        """How many calls asked for what had been asked for before."""
        with self._changed:
            return self.calls.total() - len(self.calls)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something that this server counts has come true."""
        with self._changed:
            assert self._changed.wait_for(condition, _PATIENCE_S), (
                f"not within {_PATIENCE_S:g} s; {self.calls.total()} calls, "
                f"{self._in_flight.total()} in flight"
            )

    def wait_for_total(self, more: int, *, or_end_of: subprocess.Popen[bytes]) -> None:
        """Wait until so many more calls came, or the process that makes them has ended."""
        aim = self.total + more
        while self.total < aim and or_end_of.poll() is None:
            with self._changed:
                self._changed.wait(0.05)

    def holds(self, then: Behaviour = answers) -> Behaviour:
        """Give a behaviour that replies only once `let_go` was called."""

        async def behave(asked: Asked, wire: Wire) -> None:
            await self._gate.wait()
            await then(asked, wire)

        return behave

    def let_go(self) -> None:
        """Let what is held back be replied to, now and from now on."""
        self._loop.call_soon_threadsafe(self._gate.set)

    async def _handle(self, received: Received, wire: Wire) -> None:
        body = received.json
        prompt = body["messages"][-1]["content"]
        key = Key(body["model"], prompt.split(":", 1)[0], body.get("seed", 0))
        with self._changed:
            self.calls[key] += 1
            self.log.append((time.monotonic(), key))
            asked = Asked(key, self.calls[key], received)
            self._in_flight[key] += 1
            self.most_at_once = max(self.most_at_once, self._in_flight.total())
            self._changed.notify_all()
        try:
            await self.behaviour(asked, wire)
            with self._changed:
                self.replied[key] += 1
        finally:
            with self._changed:
                self._in_flight[key] -= 1
                self._changed.notify_all()

    def _await(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)
