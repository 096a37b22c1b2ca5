"""Who may finish a shard: claim, renew, release, publish, as functions on a frozen lease.

A lease says which worker holds a shard, under which version (the fencing token) and until when.
The clock decides only when a takeover is offered; safety comes from the version: every claim
raises it, and a publish under any but the current version is refused. Time, lifetimes and names
are passed in; making a new lease durable is the store's task.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from farm.core.receipt import ReceiptReference
from farm.errors import Busy, Fenced, SpecError

LARGEST = 2**63 - 1  # versions and times stay in a signed 64-bit integer, as every reader has one


class Lease(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One shard's state. Times are milliseconds since the epoch, or of a logical clock."""

    shard: str
    worker: str = ""  # who holds it, or who finished it; "" when it is free
    version: int = 0  # rises by one with every claim and never falls
    until: int = 0  # the first instant at which somebody else may claim it
    attempts: int = 0  # executions that failed; apart from version, which counts claims
    incarnation: str = ""  # the supervisor process that holds it; "" when claimed by hand
    quarantined: bool = False
    receipt: ReceiptReference | None = None  # set once, by the accepted publish

    @property
    def done(self) -> bool:
        """Tell whether a receipt was accepted; a done lease never changes again."""
        return self.receipt is not None

    @property
    def settled(self) -> bool:
        """Tell whether nothing is left to do without a person: done or quarantined."""
        return self.done or self.quarantined


def eligible(lease: Lease, *, now: int) -> bool:
    """Tell whether a claim at `now` would be granted."""
    return not lease.settled and (not lease.worker or now >= lease.until)


def claim(lease: Lease, *, worker: str, now: int, ttl: int, incarnation: str = "") -> Lease:
    """Take a free or expired shard: owner, next version and expiry, all together.

    Raises `Busy` when the shard is done, quarantined or held, and `SpecError` on an empty worker,
    a negative `now`, a `ttl` that is not positive, or numbers past 2**63 - 1.
    """
    if not worker:
        raise SpecError("a claim needs the name of a worker")
    _check_times(now=now, ttl=ttl)
    if lease.version >= LARGEST:
        raise SpecError(f"{lease.shard}: version {lease.version} cannot rise any further")
    if not eligible(lease, now=now):
        raise Busy(f"{lease.shard}: {describe(lease)}")
    return replace(
        lease, worker=worker, version=lease.version + 1, until=now + ttl, incarnation=incarnation
    )


def renew(lease: Lease, *, worker: str, version: int, now: int, ttl: int) -> Lease:
    """Move the expiry of a lease that is still held; nothing else changes.

    Raises `Fenced` when the lease was lost, has expired or is done: an expired lease is never
    revived, since somebody may already have been told that it is free.
    """
    _check_times(now=now, ttl=ttl)
    _check_holder(lease, "renewal", worker=worker, version=version)
    if lease.settled:
        raise Fenced(action="renewal", shard=lease.shard, version=version, reason=describe(lease))
    _check_expiry(lease, "renewal", version=version, now=now)
    return replace(lease, until=now + ttl)


def release(lease: Lease, *, worker: str, version: int) -> Lease:
    """Give a shard back unfinished: the worker is cleared, the version stays."""
    _check_holder(lease, "release", worker=worker, version=version)
    if lease.settled:
        raise Fenced(action="release", shard=lease.shard, version=version, reason=describe(lease))
    return free(lease)


def free(lease: Lease) -> Lease:
    """Clear the owner of a lease whose holder is known to be gone; the version stays."""
    return replace(lease, worker="", until=0, incarnation="")


def fail(lease: Lease, *, worker: str, version: int, max_attempts: int) -> Lease:
    """Give a shard back after its execution failed, and charge it one attempt.

    At `max_attempts` the shard is quarantined: no claim is granted before a `requeue`.
    """
    freed = release(lease, worker=worker, version=version)
    attempts = lease.attempts + 1
    return replace(freed, attempts=attempts, quarantined=attempts >= max_attempts)


def requeue(lease: Lease) -> Lease:
    """Open a quarantined shard again with a clean count of attempts."""
    if not lease.quarantined:
        raise SpecError(f"{lease.shard}: only a quarantined shard is requeued, {describe(lease)}")
    return replace(lease, quarantined=False, attempts=0)


def publish(
    lease: Lease, *, worker: str, version: int, now: int, receipt: ReceiptReference
) -> Lease:
    """Accept a receipt from the current holder, once.

    Owner and version must be the current ones. If the lease is done already, the same bytes are
    acknowledged again, even after expiry, and other bytes are refused. A first completion needs
    ``now < until``. Raises `Fenced`; a refused publish changes nothing.
    """
    _check_holder(lease, "completion", worker=worker, version=version)
    if lease.receipt is not None:
        if lease.receipt == receipt:
            return lease
        reason = "it is done already with another receipt"
        raise Fenced(action="completion", shard=lease.shard, version=version, reason=reason)
    if lease.quarantined:
        reason = describe(lease)
        raise Fenced(action="completion", shard=lease.shard, version=version, reason=reason)
    _check_expiry(lease, "completion", version=version, now=now)
    return replace(lease, receipt=receipt)


def describe(lease: Lease) -> str:
    """Say the state of a lease in half a sentence, for messages."""
    if lease.done:
        return f"{lease.worker!r} has finished version {lease.version}"
    if lease.quarantined:
        return f"it is quarantined after {lease.attempts} failed attempts"
    if lease.worker:
        return f"{lease.worker!r} holds version {lease.version} until {lease.until}"
    return f"it is free at version {lease.version}"


def _check_times(*, now: int, ttl: int) -> None:
    if now < 0:
        raise SpecError(f"the clock reads {now}, which is before the epoch")
    if ttl <= 0:
        raise SpecError(f"a lease of {ttl} ms would never hold: give a positive --lease-ms")
    if now + ttl > LARGEST:
        raise SpecError(f"a lease from {now} for {ttl} ms would end past 2**63 - 1")


def _check_holder(lease: Lease, action: str, *, worker: str, version: int) -> None:
    if lease.version != version:
        reason = f"version {version} is behind {lease.version}"
        if version > lease.version:
            reason = f"version {version} was never granted, the lease is at {lease.version}"
        else:
            reason += f": {describe(lease)}"
        raise Fenced(action=action, shard=lease.shard, version=version, reason=reason)
    if lease.worker != worker:
        reason = f"{worker!r} is not the holder, {describe(lease)}"
        raise Fenced(action=action, shard=lease.shard, version=version, reason=reason)


def _check_expiry(lease: Lease, action: str, *, version: int, now: int) -> None:
    if now >= lease.until:
        reason = f"the lease expired at {lease.until}, it is {now} now"
        raise Fenced(action=action, shard=lease.shard, version=version, reason=reason)
