"""The one place where wrappers are put around an endpoint, each with its one concern.

From the outside in: recall (never buy twice), retry, throttle, deadline (of what is left of the
case's time), guard (stop when it is no use), budget, count, and the call itself. A turn of the
throttle is held for one call and not while a retry waits, and no case ages while it waits for
one; guard and budget look just before a call goes out; a call
is counted only when it really does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import floor
from types import TracebackType
from typing import Final, Self

import msgspec

from farm.adapters.count import Budget, Count
from farm.adapters.deadline import Deadline, Deadlines
from farm.adapters.guard import Guard
from farm.adapters.limit import AdaptiveLimit
from farm.adapters.protocol import AnswerCache, Call, CallLedger, Endpoint, Pass, Tell
from farm.adapters.recall import Recall
from farm.adapters.retry import Retry, RetryPolicy
from farm.adapters.settings import Common
from farm.adapters.throttle import Throttle
from farm.core.event import Note
from farm.core.generation import Generation, failed, request_digest
from farm.core.task import TaskSpec

_WAITED_OUT_S: Final = 900.0  # a limit by the minute is, also where a case may not take so long


def hear_nothing(noted: Note) -> None:
    """Take an event and do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run gives its models: where answers and calls are kept, bounds, clock and chance.

    `share` is the part of the run's limits that falls to this process. A ledger needs a cache:
    an answer that is not kept is a call wasted.
    """

    cache: AnswerCache | None = None
    ledger: CallLedger | None = None
    max_money: Decimal | None = None
    max_tokens: int | None = None
    share: float = 1.0
    refusals_halt: bool = False  # see `Guard`
    kept_in: str = ""  # see `Guard`
    tell: Tell = hear_nothing
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class ComposedModel:
    """An endpoint with its wrappers; open it with `async with`."""

    def __init__(self, endpoint: Endpoint, settings: Common, around: Surroundings) -> None:
        if around.ledger is not None and around.cache is None:
            raise ValueError("a ledger needs a cache beside it")
        self._endpoint = endpoint
        self._guard = Guard(
            _counted(endpoint, around),
            model=endpoint.model_id,
            patience_s=settings.patience_s,
            tell=around.tell,
            clock=around.clock,
            refusals_halt=around.refusals_halt,
            kept_in=around.kept_in,
            longest_wait_s=max(settings.case_timeout_s, _WAITED_OUT_S),
        )
        within_time = _within_time(self._guard, settings)
        self._throttle = _throttle(within_time, endpoint.model_id, settings, around)
        retry = _retry(self._throttle, settings, around)
        self._recall: Recall | None = None
        if around.cache is not None:
            self._recall = Recall(retry, around.cache, ledger=around.ledger)
        self._outermost: Pass = self._recall or retry

    @property
    def model_id(self) -> str:
        """Name the model in reports."""
        return self._endpoint.model_id

    @property
    def in_flight(self) -> int:
        """How many calls are out now."""
        return self._throttle.in_flight

    @property
    def concurrency(self) -> int:
        """How many calls may be out now."""
        return self._throttle.concurrency

    async def __aenter__(self) -> Self:
        await self._endpoint.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._endpoint.__aexit__(kind, error, trace)

    def halt(self) -> None:
        """Let no further call out; those that are out may end. What waits raises `Halted`."""
        self._guard.halt()

    def call(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Call:
        """Say what would be asked for one sample of a task, and under which digest it is kept."""
        request = self._endpoint.request(prompt, task, sample=sample)
        return Call(request, request_digest(request))

    async def look_ahead(self, calls: Sequence[Call]) -> None:
        """Look up at once what will be answered soon; `answer` is then quicker, and the same."""
        if self._recall is not None:
            await self._recall.look_ahead(calls)

    def answer(self, call: Call) -> Awaitable[Generation]:
        """Answer, from the cache or by as many calls as the limits allow."""
        return self._outermost(call)

    async def ask(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Answer one sample of a task."""
        return await self.answer(self.call(prompt, task, sample=sample))


def share_of(concurrency: int, share: float) -> int:
    """Give how many calls at a time fall to a process; all together never exceed the whole.

    At least one, so no more processes may share than there are calls at a time.
    """
    return max(1, floor(concurrency * share + 1e-9))  # a third of three is one


def _counted(endpoint: Endpoint, around: Surroundings) -> Pass:
    """Build what a call passes through when it goes out: budget, count, and the call itself."""

    async def send(call: Call) -> Generation:
        began = around.clock()
        generation = await endpoint.send(call.request)
        latency_s = round(around.clock() - began, 6)
        return msgspec.structs.replace(generation, latency_s=latency_s)

    inner: Pass = send
    if around.ledger is not None:
        inner = Count(inner, around.ledger)
        if around.max_money is not None or around.max_tokens is not None:
            inner = Budget(
                inner, around.ledger, max_money=around.max_money, max_tokens=around.max_tokens
            )
    return inner


def _throttle(inner: Pass, model: str, settings: Common, around: Surroundings) -> Throttle:
    highest = share_of(settings.concurrency, around.share)
    return Throttle(
        inner,
        model=model,
        limit=AdaptiveLimit(highest=highest, adaptive=settings.adaptive),
        rpm=settings.rpm and settings.rpm * around.share,
        tpm=settings.tpm and settings.tpm * around.share,
        tell=around.tell,
        clock=around.clock,
        sleep=around.sleep,
    )


def _within_time(inner: Pass, settings: Common) -> Pass:
    """Build what ends an attempt when the time of its case is over."""
    whole = Deadlines(settings.case_timeout_s)

    async def within_time(call: Call) -> Generation:
        left_s = max(0.0, settings.case_timeout_s - call.spent_s)
        limit = Deadline(Deadlines(left_s) if call.spent_s else whole)
        try:
            with limit:
                return await inner(call)
        except TimeoutError:
            if not limit.expired:
                raise  # somebody else's
            detail = f"the case had no answer within {settings.case_timeout_s:g} s"
            return msgspec.structs.replace(failed("timeout", detail), latency_s=left_s)

    return within_time


def _retry(throttle: Throttle, settings: Common, around: Surroundings) -> Retry:
    """Build what asks again; a connection at a time is all that an endpoint keeps."""
    return Retry(
        throttle,
        RetryPolicy(
            attempts=settings.attempts,
            total_s=settings.case_timeout_s,
            stale=share_of(settings.concurrency, around.share),
        ),
        tell=around.tell,
        chance=around.chance,
        sleep=around.sleep,
    )
