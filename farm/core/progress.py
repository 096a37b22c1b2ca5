"""Events folded to shard states, and the events that a ledger has seen but a file has not.

The event file is appended after the commit it tells of, so a kill between the two leaves it
behind. Folding both to the same states finds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from farm.core.event import Event, Note, note
from farm.core.lease import Lease
from farm.core.ledger import Ledger, state_of
from farm.core.narration import claimed_note, completed_note, quarantined_note


class ShardState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a shard stands: its state in one word, its holder or finisher, its version."""

    state: str = "open"
    worker: str = ""
    version: int = 0


def fold(events: Iterable[Event]) -> dict[str, ShardState]:
    """Give the state of every shard that the events speak of."""
    states: dict[str, ShardState] = {}
    for event in events:
        if event.shard and event.event in _STATE_AFTER:
            states[event.shard] = _after(event)
    return states


_STATE_AFTER = {
    "shard.claimed": "leased",
    "shard.completed": "done",
    "shard.released": "open",
    "shard.reclaimed": "open",
    "shard.failed": "open",
    "shard.quarantined": "quarantined",
    "shard.requeued": "open",
}


def _after(event: Event) -> ShardState:
    state = _STATE_AFTER[event.event]
    version = event.fields["version"]
    held = state in {"leased", "done"}
    return ShardState(
        state=state,
        worker=str(event.fields["worker"]) if held else "",
        version=version if isinstance(version, int) else 0,
    )


def shard_states(ledger: Ledger) -> dict[str, ShardState]:
    """Give the state of every shard of a ledger that was ever claimed."""
    return {
        lease.shard: ShardState(state=state_of(lease), worker=lease.worker, version=lease.version)
        for lease in ledger.leases
        if lease.version
    }


def missing_events(
    ledger: Ledger, told: Mapping[str, ShardState], cases: Mapping[str, int]
) -> list[Note]:
    """Give the events, marked as recovered, that bring `told` to where the ledger stands.

    `cases` is the number of cases of each shard.
    """
    now = shard_states(ledger)
    notes: list[Note] = []
    for lease in ledger.leases:
        if lease.shard in now and told.get(lease.shard) != now[lease.shard]:
            notes.extend(_catch_up(lease, told.get(lease.shard), cases[lease.shard]))
    return notes


def _catch_up(lease: Lease, told: ShardState | None, cases: int) -> list[Note]:
    state = state_of(lease)
    claimed = ShardState(state="leased", worker=lease.worker, version=lease.version)
    notes = []
    if told != claimed and state in {"leased", "done"}:
        notes.append(claimed_note(lease, cases=cases))
    if state == "done":
        notes.append(completed_note(lease))
    elif state == "quarantined":
        notes.append(quarantined_note(lease))
    elif state == "open":
        notes.append(
            note(
                "shard.released",
                shard=lease.shard,
                worker="" if told is None else told.worker,
                version=lease.version,
                reason="found free in the ledger",
            )
        )
    return [Note(event=n.event, fields={**n.fields, "recovered": True}) for n in notes]
