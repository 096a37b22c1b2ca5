"""A run in memory: the same promises as a directory, for one process and its lifetime.

It serves tests and runs that need no durability. It is also the plainest statement of what a
store does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from threading import RLock

from farm.core.change import Change, apply
from farm.core.event import Event, Note, stamp
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.narration import narrate_all
from farm.core.plan import Plan, Shard, first_ledger
from farm.core.receipt import check_bytes, receipt_name
from farm.errors import Corrupt, Fenced, SpecError
from farm.store.protocol import Committed


class MemoryStore:
    """A store that lives as long as the object; safe to use from several threads."""

    def __init__(
        self,
        plan: Plan,
        *,
        cases: Mapping[str, bytes],
        kept: Mapping[str, bytes] | None = None,
        invocation_id: str = "",
        clock: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        """Make a store for `plan`; `cases` gives each shard's canonical records.

        `kept` are the files of an evaluation, by name.
        """
        self._plan = plan
        self._cases = dict(cases)
        self._kept = dict(kept or {})
        self._counts = {shard.name: shard.cases for shard in plan.shards}
        self._ledger = first_ledger(plan)
        self._receipts: dict[str, bytes] = {}
        self._events: list[Event] = []
        self._invocation_id = invocation_id
        self._clock = clock
        self._lock = RLock()

    @property
    def plan(self) -> Plan:
        """What is to be done."""
        return self._plan

    def ledger(self) -> Ledger:
        """Give the latest snapshot."""
        return self._ledger

    def commit(self, changes: Sequence[Change]) -> Committed:
        """Apply changes at once; see `Store.commit`."""
        with self._lock:
            new, outcomes = apply(self._ledger, changes, now=int(self._clock()))
            if new is self._ledger:
                return Committed(ledger=new, outcomes=outcomes, events=[])
            notes = narrate_all(changes, outcomes, before=self._ledger, cases=self._counts)
            self._ledger = new
            return Committed(ledger=new, outcomes=outcomes, events=self.tell(notes))

    def read_cases(self, shard: Shard) -> bytes:
        """Give a shard's records, held against the digest in the plan."""
        data = self._cases[shard.name]
        if sha256(data).hexdigest() != shard.sha256:
            raise Corrupt(path="memory", reason=f"the cases of {shard.name} do not match")
        return data

    def read_kept(self, name: str) -> bytes:
        """Give a file of an evaluation, held against its digest in the plan."""
        data = self._kept.get(name)
        if data is None or not self._plan.seals(name, data):
            raise Corrupt(path=name, reason="missing or edited, and the run counts on it")
        return data

    def put_receipts(self, receipts: Mapping[str, bytes]) -> None:
        """Keep receipts, once each; see `Store.put_receipts`."""
        with self._lock:
            for name, data in receipts.items():
                if self._receipts.setdefault(name, data) != data:
                    shard, _, version = name.removesuffix(".json").partition(".v")
                    reason = "another receipt was written under this version"
                    raise Fenced(
                        action="completion", shard=shard, version=int(version), reason=reason
                    )

    def read_receipt(self, lease: Lease) -> bytes:
        """Give the bytes of a done lease's receipt, held against the ledger."""
        if lease.receipt is None:
            raise SpecError(f"{lease.shard} is not done, it has no receipt")
        name = receipt_name(lease.shard, lease.version)
        if name not in self._receipts:
            raise Corrupt(path=name, reason="missing, and the ledger counts on it")
        check_bytes(self._receipts[name], lease.receipt, path=name)
        return self._receipts[name]

    def check_receipt(self, lease: Lease) -> None:
        """Hold a done lease's receipt against the ledger."""
        self.read_receipt(lease)

    def tell(self, notes: Sequence[Note]) -> list[Event]:
        """Append events that no commit told of."""
        with self._lock:
            told = self.number(notes)
            self._events.extend(told)
            return told

    def number(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp events with the numbers that would follow, without keeping them."""
        return [
            stamp(
                noted,
                now_ms=self._clock(),
                run_id=self._plan.run_id,
                invocation_id=self._invocation_id,
                seq=len(self._events) + place,
            )
            for place, noted in enumerate(notes, start=1)
        ]

    def events(self) -> Iterator[Event]:
        """Read the run's events from the first on."""
        return iter(tuple(self._events))
