"""Ask again: which failures, how often, after which pause. The policy is pure, the loop thin.

A pause doubles from one attempt to the next and is jittered, so that calls that failed together
do not come back together. What the endpoint asks for by Retry-After is waited out in full, or
not at all when there is no time left for it, and never shortens a pause. Time is what attempts
and pauses take: a case that waits for its turn does not grow older.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from farm.adapters.protocol import Call, Pass, Tell
from farm.core.event import note
from farm.core.generation import STALE, Failure, Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to ask again: at most `attempts` calls, none begun after `total_s` seconds.

    Up to `stale` calls that met a connection which the server had closed are made again at once
    and count for no attempt; each uses up a connection, so there are no more than connections.
    """

    attempts: int = 6
    total_s: float = 1800.0
    first_s: float = 0.5
    longest_s: float = 60.0
    stale: int = 0

    def pause(
        self, failure: Failure, *, attempt: int, elapsed_s: float, chance: float
    ) -> float | None:
        """Return the seconds to wait before the next attempt, None when there is none.

        `attempt` is the number of the one that failed, `chance` is drawn from [0, 1). A pause
        of our own lies between 0.6 and 1 of its bound, so it is longer than the one before
        whatever the draws; one that was asked for is only lengthened, by at most a tenth, or to
        the pause of our own: "come back at once" is no reason to knock without a pause.
        """
        if not failure.transient or attempt >= self.attempts:
            return None
        # the exponent is bounded before it is used, attempts may be many
        bound = min(self.longest_s, self.first_s * 2 ** min(attempt - 1, 20))
        wait = bound * (0.6 + 0.4 * chance)
        if failure.retry_after_s is not None:
            wait = max(wait, failure.retry_after_s * (1 + chance / 10))
        return wait if elapsed_s + wait < self.total_s else None


class Retry:
    """Wraps a call with a policy; `chance` draws from [0, 1).

    How long an attempt took is told by the `latency_s` of what it gave.
    """

    def __init__(
        self,
        attempt: Pass,
        policy: RetryPolicy,
        *,
        tell: Tell,
        chance: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._attempt = attempt
        self._policy = policy
        self._tell = tell
        self._chance = chance
        self._sleep = sleep

    async def __call__(self, call: Call) -> Generation:
        """Call until there is an answer, or no more attempt; give what the last one gave."""
        stale = 0
        while True:
            generation = await self._attempt(call)
            failure = generation.failure
            if failure is None:
                return generation
            spent_s = call.spent_s + (generation.latency_s or 0.0)
            wait: float | None = 0.0
            if STALE in generation.warnings and stale < self._policy.stale:
                stale += 1
            else:
                wait = self._policy.pause(
                    failure,
                    attempt=call.attempt - stale,
                    elapsed_s=spent_s,
                    chance=self._chance(),
                )
            if wait is None:
                self._tell_failed(call, failure)
                return generation
            self._tell_retried(call, failure, wait)
            if wait:
                await self._sleep(wait)
            call = call._replace(attempt=call.attempt + 1, spent_s=spent_s + wait)

    def _tell_retried(self, call: Call, failure: Failure, wait: float) -> None:
        request = call.request
        self._tell(
            note(
                "call.retried",
                model=request.model_id,
                task=request.task,
                sample=request.sample,
                attempt=call.attempt,
                wait_s=wait,
                kind=failure.kind,
            )
        )

    def _tell_failed(self, call: Call, failure: Failure) -> None:
        request = call.request
        self._tell(
            note(
                "call.failed",
                model=request.model_id,
                task=request.task,
                sample=request.sample,
                attempt=call.attempt,
                kind=failure.kind,
                detail=failure.detail,
            )
        )
