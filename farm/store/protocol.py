"""What a run needs of the place where it lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from farm.core.change import Change, Outcome
from farm.core.event import Event, Note
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, Shard

TASKS_FILE = "tasks.jsonl"  # of an evaluation: its tasks, a line each
MODELS_FILE = "models.json"  # of an evaluation: what decides on its models' answers


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a commit: the ledger after it, an outcome for each change, and the events."""

    ledger: Ledger
    outcomes: list[Outcome]
    events: list[Event]


class Store(Protocol):
    """A plan that never changes, a ledger that changes by commits, receipts and events.

    What is acknowledged here is durable. Every method may raise `StorageError` (nothing was
    acknowledged) and `Corrupt` (something is not what was written).
    """

    @property
    def plan(self) -> Plan:
        """What is to be done."""

    def ledger(self) -> Ledger:
        """Read the latest snapshot."""

    def commit(self, changes: Sequence[Change]) -> Committed:
        """Apply changes to the latest ledger, all in one snapshot, and make it durable.

        A refused change is an outcome of its own. When no lease changed nothing is written.
        """

    def read_cases(self, shard: Shard) -> bytes:
        """Give a shard's canonical records, each ended by a newline, held against its digest."""

    def read_kept(self, name: str) -> bytes:
        """Give a file of an evaluation, held against its digest in the plan, or raise `Corrupt`."""

    def put_receipts(self, receipts: Mapping[str, bytes]) -> None:
        """Make receipts durable under their names (`receipt_name`), once each.

        The same bytes may come again; other bytes under a name that exists raise `Fenced`.
        """

    def read_receipt(self, lease: Lease) -> bytes:
        """Give the bytes of a done lease's receipt, held against the ledger."""

    def check_receipt(self, lease: Lease) -> None:
        """Hold the size of a done lease's receipt against the ledger, without reading it."""

    def tell(self, notes: Sequence[Note]) -> list[Event]:
        """Append events that no commit told of."""

    def number(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp events with the numbers that would follow, without keeping them."""

    def events(self) -> Iterator[Event]:
        """Read the run's events from the first on."""
