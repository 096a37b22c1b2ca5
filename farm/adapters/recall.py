"""Never buy an answer twice: look it up first, and keep it durably before anybody sees it."""

from __future__ import annotations

import asyncio

from farm.adapters.protocol import AnswerCache, Call, CallLedger, Pass
from farm.core.generation import Generation


class Recall:
    """Wraps calls with a cache; failures are not kept.

    Of two calls for one answer at the same time the second waits for the first. The ledger hears
    when an answer is durable, also of one that an earlier process kept and did not live to write
    down.
    """

    def __init__(self, send: Pass, cache: AnswerCache, *, ledger: CallLedger | None) -> None:
        self._send = send
        self._cache = cache
        self._ledger = ledger
        self._asked: dict[str, asyncio.Event] = {}  # digest -> set when that call has ended

    async def __call__(self, call: Call) -> Generation:
        """Give the kept answer, or call and keep what comes."""
        generation = await self._cache.find(call.digest)
        while generation is None and call.digest in self._asked:
            await self._asked[call.digest].wait()
            generation = await self._cache.find(call.digest)
        if generation is None:
            generation = await self._ask(call)
        if self._ledger is not None and generation.failure is None:
            self._ledger.kept(call.digest)
        return generation

    async def _ask(self, call: Call) -> Generation:
        ended = self._asked[call.digest] = asyncio.Event()
        try:
            generation = await self._send(call)
            if generation.failure is not None:
                return generation
            return await self._cache.keep(call.digest, generation, model=call.request.model_id)
        finally:
            del self._asked[call.digest]
            ended.set()
