"""One shard by hand: claim, score, publish, with the store's own clock and no supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farm.core.change import Claim, Publish
from farm.core.lease import Lease, describe
from farm.core.message import Assignment
from farm.core.receipt import receipt_name
from farm.errors import FarmError, Fenced
from farm.runtime.departure import release
from farm.runtime.worker import Worker
from farm.store.protocol import Store

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class HandSettings:
    """Options of a worker started by hand."""

    worker_id: str
    worker_pid: int
    ttl_ms: int = 30_000
    now_ms: int | None = None
    delay_ms: int = 0
    clock: Callable[[], float] = lambda: time.time() * 1000  # the store's, in milliseconds


def work_once(
    store: Store,
    settings: HandSettings,
    *,
    on_claim: Callable[[Lease], None],
    open_programs: Callable[[], ProgramRunner] | None = None,
) -> Lease | None:
    """Claim, score and publish the first eligible shard; None when there is none.

    `open_programs` is as for `Worker`. `on_claim` is called once the claim is durable and before
    any case is read. Raises `Fenced` when the lease was lost meanwhile; the store is then as the
    winner left it.
    """
    if store.ledger().settled:  # told without a lock, which a read-only disk does not grant
        return None
    claim = Claim(worker=settings.worker_id, ttl=settings.ttl_ms, now=settings.now_ms)
    claimed = _only(store.commit([claim]).outcomes[0])
    if claimed is None:
        return None
    on_claim(claimed)
    worker = Worker(
        store,
        worker_pid=settings.worker_pid,
        say=lambda message: None,
        open_programs=open_programs,
    )
    time.sleep(settings.delay_ms / 1000)
    assignment = Assignment(shard=claimed.shard, version=claimed.version, until=claimed.until)
    data, reference = worker.score(assignment)
    _still_ours(
        store, claimed, now=int(settings.clock()) if settings.now_ms is None else settings.now_ms
    )
    try:
        store.put_receipts({receipt_name(claimed.shard, claimed.version): data})
    except Fenced as error:  # nobody holds the shard: a ledger restored from a copy is behind
        give_back(store, claimed, reason=error.reason)
        reason = f"{error.reason}; the shard was given back: run the same command again"
        raise Fenced(
            action="completion", shard=claimed.shard, version=claimed.version, reason=reason
        ) from error
    publish = Publish(
        shard=claimed.shard,
        worker=settings.worker_id,
        version=claimed.version,
        receipt=reference,
        now=settings.now_ms,
    )
    return _only(store.commit([publish]).outcomes[0])


def give_back(store: Store, claimed: Lease, *, reason: str) -> None:
    """Open a claimed shard to others at once, unless it is done or somebody else's by now."""
    store.commit([release(claimed, reason=reason)])


def _still_ours(store: Store, claimed: Lease, *, now: int) -> None:
    """Look before the receipt is written, so that one who comes late leaves nothing behind.

    Only the publish itself decides: this may still be overtaken, and then leaves an orphan.
    """
    lease = store.ledger().lease(claimed.shard)
    reason = ""
    if (lease.version, lease.worker) != (claimed.version, claimed.worker):
        reason = f"version {claimed.version} is behind {lease.version}: {describe(lease)}"
    elif now >= lease.until:
        reason = f"the lease expired at {lease.until}, it is {now} now"
    if reason:
        raise Fenced(
            action="completion", shard=claimed.shard, version=claimed.version, reason=reason
        )


def _only(outcome: tuple[Lease, ...] | FarmError) -> Lease | None:
    if isinstance(outcome, FarmError):
        raise outcome
    return outcome[0] if outcome else None
