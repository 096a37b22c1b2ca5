"""From a change and its outcome to the events that tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.core.change import Change, Claim, Fail, Outcome, Publish, Reclaim, Release, Requeue
from farm.core.event import Note, note
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.errors import FarmError, Fenced


def narrate_all(
    changes: Sequence[Change],
    outcomes: Sequence[Outcome],
    *,
    before: Ledger,
    cases: Mapping[str, int],
) -> list[Note]:
    """Give the events of one commit on the ledger `before`, in the order of its changes.

    A publish that came again is acknowledged but not told again: a shard is completed once.
    """
    completed = {lease.shard for lease in before.leases if lease.done}
    notes: list[Note] = []
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(change, Publish) and not isinstance(outcome, FarmError):
            if change.shard in completed:
                continue
            completed.add(change.shard)
        notes += narrate(change, outcome, cases=cases)
    return notes


def narrate(change: Change, outcome: Outcome, *, cases: Mapping[str, int]) -> list[Note]:
    """Give the events of one change; `cases` is the number of cases of each shard.

    A renewal is not told: it changes no state, and a long run has many. Nor is a refusal, which
    leaves the store as it was.
    """
    if isinstance(outcome, FarmError):
        return []
    return [told for lease in outcome for told in _tell(change, lease, cases=cases)]


def _tell(change: Change, lease: Lease, *, cases: Mapping[str, int]) -> list[Note]:
    held: dict[str, str | int] = {"shard": lease.shard, "version": lease.version}
    match change:
        case Claim():
            return [claimed_note(lease, cases=cases[lease.shard])]
        case Publish():
            return [completed_note(lease)]
        case Release(worker=worker, reason=reason):
            return [note("shard.released", **held, worker=worker, reason=reason)]
        case Reclaim(worker=worker):
            reason = "its supervisor is gone"
            return [note("shard.reclaimed", **held, worker=worker, reason=reason)]
        case Fail(worker=worker, reason=reason):
            held |= {"worker": worker, "attempts": lease.attempts}
            failed = note("shard.failed", **held, reason=reason)
            return [failed, *([quarantined_note(lease)] if lease.quarantined else [])]
        case Requeue():
            return [note("shard.requeued", **held)]
        case _:
            return []


def claimed_note(lease: Lease, *, cases: int) -> Note:
    """Tell that a lease was granted."""
    return note(
        "shard.claimed",
        shard=lease.shard,
        worker=lease.worker,
        version=lease.version,
        until=lease.until,
        cases=cases,
    )


def completed_note(lease: Lease) -> Note:
    """Tell that a receipt was accepted; the lease must have one."""
    receipt = lease.receipt
    if receipt is None:
        raise ValueError(f"{lease.shard} is not done")
    return note(
        "shard.completed",
        shard=lease.shard,
        worker=lease.worker,
        version=lease.version,
        correct=receipt.correct,
        total=receipt.total,
        worker_pid=receipt.worker_pid,
        receipt_sha256=receipt.sha256,
    )


def quarantined_note(lease: Lease) -> Note:
    """Tell that a shard was set aside after too many failed attempts."""
    return note(
        "shard.quarantined",
        shard=lease.shard,
        version=lease.version,
        attempts=lease.attempts,
    )


def fenced_note(*, shard: str, worker: str, refusal: Fenced) -> Note:
    """Tell that a worker finished too late: its work is lost, and nothing else is."""
    return note(
        "shard.fenced",
        shard=shard,
        worker=worker,
        version=refusal.version,
        reason=refusal.reason,
    )
