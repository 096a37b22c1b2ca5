"""Group commit: many tasks ask for changes, one thread hop makes them durable together.

While a commit is on its way to the disk new requests gather, and the next commit takes them all;
so the number of syncs follows the speed of the disk and not the number of shards. Nobody is
answered before the snapshot that holds his change is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio import CapacityLimiter, to_thread

from farm.core.change import Change, Outcome
from farm.core.event import Event, Note
from farm.errors import FarmError
from farm.store.protocol import Store


@dataclass(slots=True, kw_only=True)
class _Request:
    changes: Sequence[Change]
    answered: anyio.Event = field(default_factory=anyio.Event)
    outcomes: list[Outcome] = field(default_factory=list)
    error: FarmError | None = None


class Committer:
    """The only writer of a store within a supervisor; `run` must be running to be answered."""

    def __init__(self, store: Store, *, on_events: Callable[[Sequence[Event]], None]) -> None:
        self._store = store
        self.ledger = store.ledger()  # as of the last commit
        self._on_events = on_events
        self._waiting: list[_Request] = []
        self._wake = anyio.Event()
        self._ended = False
        self._thread = CapacityLimiter(1)  # a store is used by one thread at a time

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
        self._on_events(await to_thread.run_sync(self._store.tell, notes, limiter=self._thread))

    async def _serve(self) -> None:
        requests, self._waiting = self._waiting, []
        changes = [change for request in requests for change in request.changes]
        try:
            committed = await to_thread.run_sync(self._store.commit, changes, limiter=self._thread)
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


def _refuse(requests: Sequence[_Request], error: FarmError | None = None) -> None:
    for request in requests:
        request.error = error or FarmError("the commit was given up: see the error before this one")
        request.answered.set()
