"""What a run finds to be done in a ledger, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from farm.core.change import Reclaim
from farm.core.event import Note, note
from farm.core.lease import Lease, eligible
from farm.core.ledger import Ledger
from farm.runtime.settings import RunSettings


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a supervised run ended, apart from what stands in the ledger."""

    published: list[Lease] = field(default_factory=list)
    returned: dict[str, str] = field(default_factory=dict)  # shard -> why it cannot be finished
    halted: str = ""  # why nothing more may be asked
    signal: signal.Signals | None = None
    deadline: bool = False


def standing(ledger: Ledger) -> dict[str, int]:
    """Give the figures that every run event carries."""
    receipts = [lease.receipt for lease in ledger.leases if lease.receipt is not None]
    return {
        "completed_shards": len(receipts),
        "active_shards": len(ledger.leases),
        "evaluated": sum(receipt.total for receipt in receipts),
        "correct": sum(receipt.correct for receipt in receipts),
    }


def opening(ledger: Ledger, settings: RunSettings, *, pid: int) -> list[Note]:
    """Give the events that open a run: where it stands, and what is around its programs."""
    header = [note("run.started", pid=pid, workers=settings.workers, **standing(ledger))]
    around = settings.isolation
    if around is not None:
        header.append(
            note(
                "run.isolated",
                isolation=around.level,
                landlock_abi=around.landlock_abi,
                seccomp=around.seccomp,
                namespaces=around.namespaces,
                grading=around.grading,
            )
        )
    return header


def to_reclaim(ledger: Ledger, is_gone: Callable[[str], bool]) -> list[Reclaim]:
    """Give the changes that free the leases of supervisors that are provably gone."""
    gone = {
        lease.incarnation
        for lease in ledger.leases
        if lease.worker and lease.incarnation and not lease.settled
    }
    gone = {incarnation for incarnation in gone if is_gone(incarnation)}
    return [
        Reclaim(shard=lease.shard, worker=lease.worker, incarnation=lease.incarnation)
        for lease in ledger.leases
        if lease.incarnation in gone and not lease.settled
    ]


def anything_to_do(ledger: Ledger, settings: RunSettings, *, now: int) -> bool:
    """Tell whether a run would change anything; `now` is the store's clock or the logical one."""
    if any(eligible(lease, now=now) for lease in ledger.leases):
        return True
    if settings.now_ms is None and to_reclaim(ledger, settings.is_gone):
        return True
    return settings.wait and settings.now_ms is None and not ledger.settled
