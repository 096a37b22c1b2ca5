"""What may happen to a ledger: changes as values, and the one function that applies them.

A store collects changes, takes its lock, reads the ledger, calls `apply`, writes the result and
only then answers. A change that is refused leaves its lease untouched and does not keep others
of the same commit from happening.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from farm.core import lease as rules
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.receipt import ReceiptReference
from farm.errors import FarmError, SpecError


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Take up to `limit` eligible shards, the first ones in plan order."""

    worker: str
    ttl: int
    limit: int = 1
    incarnation: str = ""
    now: int | None = None  # None: the store's clock at the moment of the commit
    skip: frozenset[str] = frozenset()  # shards that are not wanted


class Renew(msgspec.Struct, frozen=True, kw_only=True):
    """Move the expiry of a held lease."""

    shard: str
    worker: str
    version: int
    ttl: int
    now: int | None = None


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Give a held shard back, unfinished and uncharged."""

    shard: str
    worker: str
    version: int
    reason: str


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    """Give a held shard back and charge it one failed attempt."""

    shard: str
    worker: str
    version: int
    max_attempts: int
    reason: str


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    """Offer a receipt that is already durable."""

    shard: str
    worker: str
    version: int
    receipt: ReceiptReference
    now: int | None = None


class Reclaim(msgspec.Struct, frozen=True, kw_only=True):
    """Free a lease of a supervisor that is provably gone.

    Nothing happens when somebody else holds it meanwhile. A lease claimed by hand has no
    incarnation and is never reclaimed: it waits for its expiry.
    """

    shard: str
    worker: str
    incarnation: str


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """Open a quarantined shard again."""

    shard: str


Change = Claim | Renew | Release | Fail | Publish | Reclaim | Requeue
# The leases a change touched (none for a claim that found nothing), or why it was refused.
Outcome = tuple[Lease, ...] | FarmError


def apply(ledger: Ledger, changes: Sequence[Change], *, now: int) -> tuple[Ledger, list[Outcome]]:
    """Apply changes in order; give the next ledger and one outcome for each change.

    The ledger given back is the same object when no lease is another than before, else its
    revision is one higher. `now` (milliseconds) serves the changes that bring no time of their own.
    """
    leases = list(ledger.leases)
    place = {lease.shard: index for index, lease in enumerate(leases)}
    outcomes: list[Outcome] = []
    for change in changes:
        try:
            touched = _apply_one(leases, place, change, now=now)
        except FarmError as refusal:
            outcomes.append(refusal)
            continue
        for lease in touched:
            leases[place[lease.shard]] = lease
        outcomes.append(touched)
    after = tuple(leases)
    if after == ledger.leases:
        return ledger, outcomes
    return replace(ledger, revision=ledger.revision + 1, leases=after), outcomes


def _apply_one(
    leases: list[Lease], place: dict[str, int], change: Change, *, now: int
) -> tuple[Lease, ...]:
    if isinstance(change, Claim):
        return _claim(leases, change, now=now if change.now is None else change.now)
    if change.shard not in place:
        raise SpecError(f"{change.shard!r} is not a shard of this run: see `farm status`")
    lease = leases[place[change.shard]]
    match change:
        case Renew(worker=worker, version=version, ttl=ttl):
            at = now if change.now is None else change.now
            return (rules.renew(lease, worker=worker, version=version, now=at, ttl=ttl),)
        case Release(worker=worker, version=version):
            return (rules.release(lease, worker=worker, version=version),)
        case Fail(worker=worker, version=version, max_attempts=most):
            return (rules.fail(lease, worker=worker, version=version, max_attempts=most),)
        case Publish(worker=worker, version=version, receipt=receipt):
            at = now if change.now is None else change.now
            return (rules.publish(lease, worker=worker, version=version, now=at, receipt=receipt),)
        case Reclaim(worker=worker, incarnation=incarnation):
            return (rules.free(lease),) if _is_held(lease, worker, incarnation) else ()
        case Requeue():
            return (rules.requeue(lease),)


def _is_held(lease: Lease, worker: str, incarnation: str) -> bool:
    """Tell whether a supervisor's worker holds a lease; one claimed by hand has no supervisor."""
    holder = (lease.worker, lease.incarnation)
    return bool(incarnation) and not lease.settled and holder == (worker, incarnation)


def _claim(leases: list[Lease], change: Claim, *, now: int) -> tuple[Lease, ...]:
    # first, since a wrong claim is wrong as well when there is nothing to take
    rules.check_claim(worker=change.worker, now=now, ttl=change.ttl)
    taken: list[Lease] = []
    for lease in leases:
        if len(taken) >= change.limit:
            break
        if rules.eligible(lease, now=now) and lease.shard not in change.skip:
            taken.append(
                rules.claim(
                    lease,
                    worker=change.worker,
                    now=now,
                    ttl=change.ttl,
                    incarnation=change.incarnation,
                )
            )
    return tuple(taken)
