"""Never buy an answer twice: look it up first, and keep it durably before anybody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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
        # of calls that are out: digest -> what is set when it ends, where somebody waits for it
        self._asked: dict[str, asyncio.Event | None] = {}
        self._sought: set[str] = set()  # digests that are being looked up ahead of their calls
        self._ahead: dict[str, Generation | None] = {}  # what was found under them; for one call

    async def look_ahead(self, calls: Sequence[Call]) -> None:
        """Look many calls up at once; the next call for each of them does without.

        An answer that another process keeps between the two is not seen, and bought again.
        """
        digests = [call.digest for call in calls]
        self._sought.update(digests)
        found = await self._cache.find_many(digests)
        for digest, generation in zip(digests, found, strict=True):
            # a call that ended meanwhile, and may have kept its answer, is sought no more
            if generation is not None or digest in self._sought:
                self._ahead[digest] = generation
        self._sought.difference_update(digests)

    async def __call__(self, call: Call) -> Generation:
        """Give the kept answer, or call and keep what comes."""
        if call.digest in self._ahead:
            generation = self._ahead.pop(call.digest)
        else:
            generation = await self._cache.find(call.digest)
        while generation is None and call.digest in self._asked:
            ended = self._asked[call.digest] = self._asked[call.digest] or asyncio.Event()
            await ended.wait()
            generation = await self._cache.find(call.digest)
        if generation is None:
            return await self._ask(call)
        if self._ledger is not None:
            self._ledger.kept(call.digest)
        return generation

    async def _ask(self, call: Call) -> Generation:
        self._asked[call.digest] = None
        try:
            generation = await self._send(call)
            if generation.failure is not None:
                return generation
            model = call.request.model_id
            counts = await self._cache.keep(call.digest, generation, model=model)
            if self._ledger is not None:
                # another run may have kept its answer while ours was on its way
                self._ledger.kept(call.digest, another=counts is not generation)
            return counts
        finally:
            self._sought.discard(call.digest)
            self._ahead.pop(call.digest, None)
            ended = self._asked.pop(call.digest)
            if ended is not None:
                ended.set()
