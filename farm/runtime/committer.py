"""Group commit: many tasks ask for changes, one thread hop makes them durable together.

While a commit is on its way to the disk new requests gather, and the next commit takes them all;
so the number of syncs follows the speed of the disk and not the number of shards. Nobody is
answered before the snapshot that holds his change is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from farm.core.change import Change, Outcome
from farm.core.event import Event, Note, note
from farm.errors import Busy, FarmError
from farm.store.protocol import Store

T = TypeVar("T")
R = TypeVar("R")
_PATIENCE_S = 60.0  # with a store that somebody else has locked


@dataclass(slots=True, kw_only=True)
class _Request:
    changes: Sequence[Change]
    answered: anyio.Event = field(default_factory=anyio.Event)
    outcomes: list[Outcome] = field(default_factory=list)
    error: FarmError | None = None


class Committer:
    """The only writer of a store within a supervisor; `run` must be running to be answered.

    A store that somebody else has locked is waited for, a minute at most: nobody can take a lease
    meanwhile. Once that was in vain, everything is refused at once.
    """

    def __init__(self, store: Store, *, on_events: Callable[[Sequence[Event]], None]) -> None:
        self._store = store
        self.ledger = store.ledger()  # as of the last commit
        self._on_events = on_events
        self._waiting: list[_Request] = []
        self._wake = anyio.Event()
        self._ended = False
        self._thread = CapacityLimiter(1)  # a store is used by one thread at a time
        self._given_up: Busy | None = None
        self.hasty = False  # the run is to end: a lock is tried for once and no more

    async def run(self) -> None:
        """Serve requests until cancelled; a commit under way is always finished."""
        try:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                with anyio.CancelScope(shield=True):
                    await self._serve()
        finally:
            self._ended = True
            _refuse(self._waiting)

    async def commit(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make changes durable; give one outcome each. Raises what the store raises."""
        request = _Request(changes=changes)
        if self._ended:
            _refuse([request])
        self._waiting.append(request)
        self._wake.set()
        await request.answered.wait()
        if request.error is not None:
            raise request.error
        return request.outcomes

    async def tell(self, notes: Sequence[Note]) -> None:
        """Append events to the store and pass them on."""
        self._on_events(await self._patiently(self._store.tell, notes))

    async def _serve(self) -> None:
        requests, self._waiting = self._waiting, []
        changes = [change for request in requests for change in request.changes]
        try:
            committed = await self._patiently(self._store.commit, changes)
        except FarmError as error:
            _refuse(requests, error)
            return
        except BaseException:
            # a fault of ours ends this task; nobody may wait for its answer for ever
            _refuse(requests)
            raise
        self.ledger = committed.ledger
        outcomes = iter(committed.outcomes)
        for request in requests:
            request.outcomes = [next(outcomes) for _ in request.changes]
            request.answered.set()
        self._on_events(committed.events)

    async def _patiently(self, act: Callable[[Sequence[T]], R], what: Sequence[T]) -> R:
        """Act on the store in its thread, again and again while somebody else has it locked."""
        end = anyio.current_time() + _PATIENCE_S
        while True:
            if self._given_up is not None:
                raise self._given_up
            try:
                return await to_thread.run_sync(act, what, limiter=self._thread)
            except Busy as error:
                if self.hasty or anyio.current_time() >= end:
                    self._given_up = error
                    raise
                waiting = note("store.awaited", reason=str(error))
                self._on_events(self._store.number([waiting]))


def _refuse(requests: Sequence[_Request], error: FarmError | None = None) -> None:
    for request in requests:
        request.error = error or FarmError("the commit was given up: see the error before this one")
        request.answered.set()
