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
MAX_WORKER_BYTES = 256  # so that a name stands uncut in every event that tells of it


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

    Raises `Busy` when the shard is done, quarantined or held, and `SpecError` as `check_claim`
    does or when the version would pass 2**63 - 1.
    """
    check_claim(worker=worker, now=now, ttl=ttl)
    if lease.version >= LARGEST:
        raise SpecError(f"{lease.shard}: version {lease.version} cannot rise any further")
    if not eligible(lease, now=now):
        raise Busy(f"{lease.shard}: {describe(lease)}")
    return replace(
        lease, worker=worker, version=lease.version + 1, until=now + ttl, incarnation=incarnation
    )


def check_claim(*, worker: str, now: int, ttl: int) -> None:
    """Refuse a claim that no shard could grant; raises `SpecError`.

    The name of the worker is 1 to `MAX_WORKER_BYTES` bytes of valid UTF-8, `now` is not negative,
    `ttl` is positive, and their sum is at most 2**63 - 1.
    """
    if not worker:
        raise SpecError("a claim needs the name of a worker")
    try:
        size = len(worker.encode())
    except UnicodeEncodeError as error:
        raise SpecError(f"the worker name {worker!r} is not valid UTF-8") from error
    if size > MAX_WORKER_BYTES:
        raise SpecError(
            f"the worker name {worker[:20]!r}... has {size} bytes, the limit is {MAX_WORKER_BYTES}"
        )
    _check_times(now=now, ttl=ttl)


def renew(lease: Lease, *, worker: str, version: int, now: int, ttl: int) -> Lease:
    """Move the expiry of a lease that is still held; nothing else changes.

    Raises `Fenced` when the lease was lost, has expired or is done: an expired lease is never
    revived, since somebody may already have been told that it is free.
    """
    _check_times(now=now, ttl=ttl)
    _check_unfinished(lease, "renewal", worker=worker, version=version)
    _check_expiry(lease, "renewal", version=version, now=now)
    return replace(lease, until=now + ttl)


def release(lease: Lease, *, worker: str, version: int) -> Lease:
    """Give a shard back unfinished: the worker is cleared, the version stays.

    Its own holder may do so after expiry as well, as long as nobody else has claimed it. Raises
    `Fenced` when somebody has, or when the shard is done or quarantined.
    """
    _check_unfinished(lease, "release", worker=worker, version=version)
    return free(lease)


def free(lease: Lease) -> Lease:
    """Clear the owner of a lease whose holder is known to be gone; the version stays."""
    return replace(lease, worker="", until=0, incarnation="")


def fail(lease: Lease, *, worker: str, version: int, max_attempts: int) -> Lease:
    """Give a shard back after its execution failed, and charge it one attempt.

    At `max_attempts` the shard is quarantined: no claim is granted before a `requeue`. Raises
    `Fenced` as `release` does.
    """
    _check_unfinished(lease, "failure", worker=worker, version=version)
    attempts = lease.attempts + 1
    return replace(free(lease), attempts=attempts, quarantined=attempts >= max_attempts)


def requeue(lease: Lease) -> Lease:
    """Open a quarantined shard again with a clean count of attempts.

    Raises `SpecError` when it is not quarantined.
    """
    if not lease.quarantined:
        raise SpecError(f"{lease.shard}: only a quarantined shard is requeued, {describe(lease)}")
    return replace(lease, quarantined=False, attempts=0)


def publish(
    lease: Lease, *, worker: str, version: int, now: int, receipt: ReceiptReference
) -> Lease:
    """Accept a receipt from the current holder, once.

    Owner and version must be the current ones. If the lease is done already, the same bytes are
    acknowledged again, even after expiry, and other bytes are refused. A first completion needs
    ``0 <= now < until``. Raises `Fenced`, and `SpecError` on a clock before the epoch; a refused
    publish changes nothing.
    """
    _check_holder(lease, "completion", worker=worker, version=version)
    if lease.receipt is not None:
        if lease.receipt == receipt:
            return lease
        reason = "it is done already with another receipt"
        raise Fenced(action="completion", shard=lease.shard, version=version, reason=reason)
    _check_now(now)
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


def _check_now(now: int) -> None:
    if now < 0:
        raise SpecError(f"the clock reads {now}, which is before the epoch")


def _check_times(*, now: int, ttl: int) -> None:
    _check_now(now)
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
    # a free lease has no holder, so not even the empty name may act on it
    if not lease.worker or lease.worker != worker:
        reason = f"{worker!r} is not the holder, {describe(lease)}"
        raise Fenced(action=action, shard=lease.shard, version=version, reason=reason)


def _check_unfinished(lease: Lease, action: str, *, worker: str, version: int) -> None:
    _check_holder(lease, action, worker=worker, version=version)
    if lease.done:
        raise Fenced(action=action, shard=lease.shard, version=version, reason=describe(lease))


def _check_expiry(lease: Lease, action: str, *, version: int, now: int) -> None:
    if now >= lease.until:
        reason = f"the lease expired at {lease.until}, it is {now} now"
        raise Fenced(action=action, shard=lease.shard, version=version, reason=reason)
