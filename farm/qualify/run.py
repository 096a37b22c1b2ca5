"""The loop over cells: claim, check, prepare, measure, judge, publish; one at a time, in order.

A cell counts once its receipt is in the ledger. Whatever stops the loop before that, a refusal, a
signal or a crash, leaves the cell open, and the same command goes on with it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
import msgspec

from farm.core.change import Change, Claim, Publish, Reclaim, Release, Renew
from farm.core.event import Event, Note, note
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.receipt import encode_receipt, receipt_name, refer
from farm.errors import Corrupt, FarmError, NotPermitted
from farm.qualify.cells import Cell, cells_of, request_ids
from farm.qualify.config import Config
from farm.qualify.devicelease import DeviceLease
from farm.qualify.hooks import Hooks
from farm.qualify.ports import CodeVerdict, Endpoint, Files, Judge
from farm.qualify.preflight import check_room, preflight, slot_room
from farm.qualify.records import CellRecord, Wave, program_of, receipt_of, record_cell
from farm.qualify.wave import run_wave
from farm.qualify.workload import Fixture, archive, messages_of, prepare
from farm.store.protocol import Store

RESULTS_FILE = "results.jsonl"
_TTL_MS = 3_600_000  # a gone process is known to be gone at once, this is for where it is not
_NOT_LET_IN = frozenset({401, 402, 403, 404, 405, 407, 503})
_ENCODER = msgspec.json.Encoder()
_FIXTURES = msgspec.json.Decoder(Fixture)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Everything one invocation works with."""

    config: Config
    lease: DeviceLease
    store: Store
    files: Files
    endpoint: Endpoint
    hooks: Hooks
    judge: Judge
    worker: str
    incarnation: str = ""
    is_gone: Callable[[str], bool] = lambda incarnation: False
    on_events: Callable[[Sequence[Event]], None] = lambda events: None
    catch_signals: bool = True
    wall_clock: Callable[[], float] = field(default=time.time)


async def run_cells(session: Session) -> signal.Signals | None:
    """Measure every open cell; give the signal that ended it early, None when none did.

    Raises the `FarmError` that stopped it; cells that were published stand.
    """
    began = time.monotonic()
    caught: list[signal.Signals] = []
    await _commit(session, _reclaims(session))
    await _tell(
        session, note("run.started", pid=os.getpid(), workers=1, **standing(session.store.ledger()))
    )
    try:
        with _Flattened():
            async with anyio.create_task_group() as group:
                if session.catch_signals:
                    group.start_soon(_watch, group.cancel_scope, caught)
                await _loop(session)
                group.cancel_scope.cancel()
    except FarmError as error:
        await _tell(session, _ended("run.failed", session, began, reason=str(error)))
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(write_results, session.store.ledger(), session.files)
    if caught:
        await _tell(session, _ended("run.interrupted", session, began, signal=caught[0].name))
        return caught[0]
    if session.store.ledger().complete:
        await _tell(session, _ended("run.completed", session, began))
    else:
        reason = "other owners hold leases"
        await _tell(session, _ended("run.pending", session, began, reason=reason))
    return None


def write_results(ledger: Ledger, files: Files) -> None:
    """Put together results.jsonl from the cells that count."""
    files.replace(RESULTS_FILE, results_text(ledger, files.cell))


def results_text(ledger: Ledger, cell: Callable[[str], bytes]) -> bytes:
    """Return what results.jsonl holds: the cells that count, in the order of the plan."""
    return b"".join(
        cell(receipt_name(lease.shard, lease.version)) + b"\n"
        for lease in ledger.leases
        if lease.done
    )


def standing(ledger: Ledger) -> dict[str, int]:
    """Return how far a run is, in the fields of its events."""
    done = [lease.receipt for lease in ledger.leases if lease.receipt is not None]
    return {
        "completed_shards": len(done),
        "active_shards": len(ledger.leases),
        "evaluated": sum(receipt.total for receipt in done),
        "correct": sum(receipt.correct for receipt in done),
    }


async def _loop(session: Session) -> None:
    cells = {cell.shard: cell for cell in cells_of(session.config)}
    while True:
        claim = Claim(worker=session.worker, ttl=_TTL_MS, incarnation=session.incarnation)
        claimed = await _commit(session, [claim])
        if not claimed:
            return
        (lease,) = claimed
        try:
            record = await _measure(session, cells[lease.shard], lease)
            await _publish(session, lease, record)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await _release(session, lease, error)
            raise
        await anyio.to_thread.run_sync(write_results, session.store.ledger(), session.files)


async def _measure(session: Session, cell: Cell, lease: Lease) -> CellRecord:
    config = session.config
    seen = await preflight(
        cell,
        config=config,
        lease=session.lease,
        hooks=session.hooks,
        endpoint=session.endpoint,
        now=session.wall_clock(),
    )
    fixtures = [await _fixture(session, cell, one) for one in request_ids(config, cell)]
    largest = max(fixture.tokens or 0 for fixture in fixtures)
    room = await slot_room(session.endpoint, config=config)
    # a fixture may be longer than its target, by the window or as its bytes are fixed
    check_room(max(cell.context, largest), cell=cell, config=config, room=room)
    if cell.cache == "cold":
        await session.hooks.reset_cache()
    wave = await _timed(session, cell, lease, fixtures)
    if why := no_measurement(wave):
        raise NotPermitted(
            f"{config.url}: every request of the cell {why}: then run the same command again"
        )
    verdicts = [await _judge(session, program_of(talk)) for talk in wave.conversations]
    return record_cell(
        cell,
        wave,
        version=lease.version,
        fixtures=fixtures,
        verdicts=verdicts,
        preflight=seen,
    )


def no_measurement(wave: Wave) -> str:
    """Say why a wave says nothing of its cell, "" when it does: no request was let in at all.

    Lost connections, a wrong key or address, a server that still loads its model. Any other
    answer is one, be it an error: it belongs to the server that is measured.
    """
    served = [one.served for talk in wave.conversations for one in talk.exchanges]
    if all(one.reading.error_code == "connection" for one in served):
        return "lost its connection: start the server"
    statuses = sorted({one.http_status or 0 for one in served})
    if not set(statuses) <= _NOT_LET_IN:
        return ""
    named = " and ".join(str(status) for status in statuses)
    return f"was answered with HTTP {named} ({served[0].reading.error!r:.200}): mend that"


async def _timed(session: Session, cell: Cell, lease: Lease, fixtures: Sequence[Fixture]) -> Wave:
    """Run the wave, the cell's lease renewed for as long as it takes."""
    async with anyio.create_task_group() as group:
        group.start_soon(_keep, session, lease)
        wave = await run_wave(
            cell,
            fixtures,
            config=session.config,
            endpoint=session.endpoint,
            expires_unix=session.lease.expires_unix,
        )
        group.cancel_scope.cancel()
    return wave


async def _fixture(session: Session, cell: Cell, request_id: str) -> Fixture:
    """Give a request's fixture: the saved one if there is one, else make and save it."""
    saved = await anyio.to_thread.run_sync(session.files.fixture, request_id)
    if saved is not None:
        return checked_fixture(saved, request_id)
    fixture = await prepare(
        request_id,
        target=cell.context,
        mode=session.config.fixture_mode,
        count=session.hooks.count_tokens,
    )
    data = _ENCODER.encode(fixture)
    await anyio.to_thread.run_sync(session.files.keep_fixture, request_id, data)
    return fixture


def checked_fixture(saved: bytes, request_id: str) -> Fixture:
    """Read a saved fixture; raises `Corrupt` when it is not what its request's id gives."""
    path = f"fixtures/{request_id}.json"
    try:
        fixture = _FIXTURES.decode(saved)
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"not a fixture: {error}") from error
    text = archive(request_id, records=fixture.records, filler=fixture.filler)
    if list(fixture.messages) != list(messages_of(request_id, text)):
        raise Corrupt(path=path, reason="its messages are not what its seed gives")
    return fixture


async def _judge(session: Session, program: str | None) -> CodeVerdict | None:
    if program is None:
        return None
    return await anyio.to_thread.run_sync(session.judge, program)


async def _publish(session: Session, lease: Lease, record: CellRecord) -> None:
    name = receipt_name(lease.shard, lease.version)
    line = _ENCODER.encode(record)
    receipt = receipt_of(record, line, worker_pid=os.getpid())
    data = encode_receipt(receipt)
    change = Publish(
        shard=lease.shard,
        worker=session.worker,
        version=lease.version,
        receipt=refer(receipt, data),
    )

    def write() -> None:
        session.files.keep_cell(name, line)
        session.store.put_receipts({name: data})

    with anyio.CancelScope(shield=True):  # what is measured is kept, also on the way out
        await anyio.to_thread.run_sync(write)
        await _commit(session, [change])


async def _release(session: Session, lease: Lease, error: BaseException) -> None:
    """Give the cell back, uncharged; it stays open for the next invocation."""
    if session.store.ledger().lease(lease.shard).done:
        return
    reason = str(error)[:500] if isinstance(error, FarmError) else "the run was ended"
    release = Release(
        shard=lease.shard, worker=session.worker, version=lease.version, reason=reason
    )
    try:
        await _commit(session, [release])
    except FarmError:
        # the error that brought us here says more; a lease of a gone process is taken over
        return


async def _keep(session: Session, lease: Lease) -> None:
    """Renew a lease for as long as its wave takes."""
    while True:
        await anyio.sleep(_TTL_MS / 3000)
        renew = Renew(shard=lease.shard, worker=session.worker, version=lease.version, ttl=_TTL_MS)
        await _commit(session, [renew])


async def _watch(scope: anyio.CancelScope, caught: list[signal.Signals]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            caught.append(number)
            scope.cancel()
            return


def _reclaims(session: Session) -> list[Change]:
    return [
        Reclaim(shard=lease.shard, worker=lease.worker, incarnation=lease.incarnation)
        for lease in session.store.ledger().leases
        if lease.worker
        and not lease.settled
        and lease.incarnation
        and session.is_gone(lease.incarnation)
    ]


async def _commit(session: Session, changes: Sequence[Change]) -> tuple[Lease, ...]:
    """Make changes durable off the event loop; give the leases touched, raise the first refusal."""
    if not changes:
        return ()
    done = await anyio.to_thread.run_sync(session.store.commit, changes)
    session.on_events(done.events)
    touched: list[Lease] = []
    for outcome in done.outcomes:
        if isinstance(outcome, FarmError):
            raise outcome
        touched.extend(outcome)
    return tuple(touched)


async def _tell(session: Session, noted: Note) -> None:
    with anyio.CancelScope(shield=True):
        session.on_events(await anyio.to_thread.run_sync(session.store.tell, [noted]))


def _ended(event: str, session: Session, began: float, **more: str) -> Note:
    elapsed_s = round(time.monotonic() - began, 6)
    return note(event, elapsed_s=elapsed_s, **more, **standing(session.store.ledger()))


class _Flattened(AbstractContextManager[None]):
    """Let the one error of a task group through as itself: nobody catches a group of one."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
            if not isinstance(error, BaseExceptionGroup):
                raise error
