"""Hold calls back until they may go: concurrency, calls and tokens per minute, pauses.

One throttle stands before one endpoint in one process; it acts by the rules of
farm.adapters.limit. The limits of a run are divided by whoever makes the throttles.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from farm.adapters.limit import AdaptiveLimit, Bucket
from farm.adapters.protocol import Call, Pass, Tell
from farm.core.event import note
from farm.core.generation import Generation, Request

_OVERLOAD: Final = frozenset({"busy", "timeout"})
_BYTES_PER_TOKEN: Final = 4  # a rough guess, put right by the usage each answer tells
_DEFAULT_ANSWER: Final = 256  # tokens, for requests that do not bound theirs


class Throttle:
    """Wraps a call with limits. `rpm` and `tpm` are this process's part, None is no limit."""

    def __init__(
        self,
        send: Pass,
        *,
        model: str,
        limit: AdaptiveLimit,
        rpm: float | None,
        tpm: float | None,
        tell: Tell,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._send = send
        self._model = model
        self._limit = limit
        self._tell = tell
        self._clock = clock
        self._sleep = sleep
        now = clock()
        # a second's worth at once: the pace stays even, and an idle start is not punished
        self._calls = rpm and Bucket(per_minute=rpm, burst=max(1.0, rpm / 60), now=now)
        self._tokens = tpm and Bucket(per_minute=tpm, burst=max(1.0, tpm / 60), now=now)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = now

    @property
    def in_flight(self) -> int:
        """How many calls are out."""
        return self._in_flight

    @property
    def concurrency(self) -> int:
        """How many calls may be out."""
        return self._limit.value

    async def __call__(self, call: Call) -> Generation:
        """Wait for a turn, call, and learn from what came of it."""
        await self._enter(first=call.attempt > 1)
        try:
            estimate = await self._await_rates(call.request)
            saturated = self._in_flight >= self._limit.value
            began = self._clock()
            generation = await self._send(call)
            self._learn(generation, began=began, saturated=saturated, estimate=estimate)
            return generation
        finally:
            self._in_flight -= 1
            self._admit()

    async def _enter(self, *, first: bool) -> None:
        if self._in_flight < self._limit.value and not self._waiting:
            self._in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        if first:  # a case that was begun is finished before another begins
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # admitted and cancelled in one tick
                self._in_flight -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        """Let in as many as may be, in the order of the queue."""
        while self._waiting and self._in_flight < self._limit.value:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    async def _await_rates(self, request: Request) -> float:
        """Wait out pauses and rates; return the tokens taken on a guess."""
        estimate = 0.0
        wait = 0.0
        if self._calls:
            wait = self._calls.take(1, now=self._clock())
        if self._tokens:
            estimate = _guess_tokens(request)
            wait = max(wait, self._tokens.take(estimate, now=self._clock()))
        if wait > 0:
            await self._sleep(wait)
        until = self._clock()
        while until < self._paused_until:  # a pause may grow while it is waited out
            until = self._paused_until
            # once for each pause: sleep ends early when the run does, and then for every call
            await self._sleep(max(0.0, until - self._clock()))
        return estimate

    def _learn(
        self, generation: Generation, *, began: float, saturated: bool, estimate: float
    ) -> None:
        now = self._clock()
        if self._tokens and generation.usage is not None and generation.usage.total is not None:
            self._tokens.give_back(estimate - generation.usage.total, now=now)
        failure = generation.failure
        if failure is None:
            self._limit.succeeded(saturated=saturated)
            self._admit()
            return
        if failure.kind in _OVERLOAD and self._limit.overloaded(began=began, now=now):
            self._tell(
                note(
                    "endpoint.slowed",
                    model=self._model,
                    concurrency=self._limit.value,
                    kind=failure.kind,
                )
            )
        wait = failure.retry_after_s if failure.kind == "busy" else None
        if wait and now + wait > self._paused_until:
            # the limit is the key's, not the request's: nobody knocks before it is over
            self._paused_until = now + wait
            self._tell(note("endpoint.paused", model=self._model, wait_s=wait))


def _guess_tokens(request: Request) -> float:
    body = request.body
    texts = [body.get("prompt", "")]
    texts += [message.get("content", "") for message in body.get("messages", ())]
    size = sum(len(text) for text in texts if isinstance(text, str))
    bound = body.get("max_completion_tokens") or body.get("max_tokens")
    answer = bound if isinstance(bound, int) and bound > 0 else _DEFAULT_ANSWER
    return size / _BYTES_PER_TOKEN + answer
