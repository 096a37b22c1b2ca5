"""A run in a directory: plan, cases, ledger, receipts, events, each a file.

::

    plan.json      identity, scorer, shards with counts, digests, places; written once
    cases.jsonl    the shards' canonical records; written once
    cases.order    the bucket of each record in file order; written once
    tasks.jsonl    where models are asked: the tasks, with their metrics; written once
    ledger.json    the snapshot of all leases, replaced whole by every commit
    receipts/      immutable, one a (shard, version); losers are kept, never counted
    events.jsonl   append only
    run.lock lock  never unlinked: one for a supervisor's life, one for each commit

Every change takes the commit lock, re-reads, checks, writes. Only local file systems with flock
and a working fsync are supported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from types import TracebackType

import msgspec

from farm.core.change import Change, apply
from farm.core.event import Event, Note
from farm.core.lease import Lease
from farm.core.ledger import Ledger, decode_ledger, encode_ledger
from farm.core.narration import narrate_all
from farm.core.plan import Plan, Shard, decode_plan
from farm.core.progress import fold, missing_events
from farm.core.receipt import ReceiptReference, check_bytes, receipt_name
from farm.errors import Corrupt, Fenced, SpecError
from farm.files.atomic import Folder, open_written, storage_errors
from farm.files.lock import FileLock
from farm.store.casefile import CASES_NAME, open_to_read, read_extent
from farm.store.journal import Journal
from farm.store.protocol import Committed

PLAN_FILE = "plan.json"
LEDGER_FILE = "ledger.json"
RECEIPTS = "receipts"
EVENTS_FILE = "events.jsonl"
LOCK_FILE = "lock"
RUN_LOCK_FILE = "run.lock"


def wall_clock() -> float:
    """Give the time in milliseconds since the epoch."""
    return time.time() * 1000


def exists(path: str) -> bool:
    """Tell whether there is a store at `path`; raises `Corrupt` when there are its ruins.

    A folder without a plan in which work was done is a ruin. What an init that was killed leaves
    behind is none: no event was told and no receipt was written.
    """
    if os.path.exists(os.path.join(path, PLAN_FILE)):
        return True
    receipts = os.path.join(path, RECEIPTS)
    with storage_errors(path):
        worked = os.path.exists(os.path.join(path, EVENTS_FILE)) or (
            os.path.isdir(receipts) and bool(os.listdir(receipts))
        )
    if worked:
        reason = "missing, though a run was going on in this folder"
        raise Corrupt(path=os.path.join(path, PLAN_FILE), reason=reason)
    return False


class DirectoryStore:
    """An open store; use it as a context manager or call `close`."""

    def __init__(
        self,
        path: str,
        *,
        invocation_id: str = "",
        clock: Callable[[], float] = wall_clock,
        lock_timeout_s: float = 10.0,
    ) -> None:
        """Open an initialised store.

        Raises `SpecError` when there is none at `path`, and `Corrupt` when there are its ruins.
        """
        self.path = path
        self._clock = clock
        self._lock_timeout_s = lock_timeout_s
        if not exists(path):
            raise SpecError(f"{path!r} is not a store: make one with `farm init --store {path}`")
        self._folder = Folder(path)
        self._receipts: Folder | None = None
        self._lock: FileLock | None = None
        self._cases_fd = -1
        self._snapshot_fd = -1  # open on the snapshot we know, so its inode cannot be reused
        self._known: tuple[Ledger, str] | None = None
        self._seen: tuple[int, ...] = ()  # which file that was, and how it looked when read
        self._confirmed = False  # whether the snapshot we know is durable for certain
        try:
            self._plan = decode_plan(
                self._folder.read(PLAN_FILE), path=os.path.join(path, PLAN_FILE)
            )
        except BaseException:
            self._folder.close()
            raise
        self._cases = {shard.name: shard.cases for shard in self._plan.shards}
        self._journal = Journal(
            os.path.join(path, EVENTS_FILE),
            run_id=self._plan.run_id,
            invocation_id=invocation_id,
            clock=clock,
        )

    @property
    def plan(self) -> Plan:
        """What is to be done."""
        return self._plan

    def ledger(self) -> Ledger:
        """Read the latest snapshot, without a lock: a rename is seen whole or not at all."""
        return self._latest()[0]

    def commit(self, changes: Sequence[Change]) -> Committed:
        """Apply changes in one durable snapshot; see `Store.commit`."""
        with self._locked():
            ledger, checksum = self._latest()
            new, outcomes = apply(ledger, changes, now=int(self._clock()))
            if new is ledger:
                self._confirm()
                return Committed(ledger=new, outcomes=outcomes, events=[])
            self._journal.catch_up(ledger, self._cases)
            self._journal.open()
            new = msgspec.structs.replace(new, previous=checksum)
            self._write(new)
            notes = narrate_all(changes, outcomes, before=ledger, cases=self._cases)
            return Committed(ledger=new, outcomes=outcomes, events=self._journal.append(notes))

    def confirm(self) -> None:
        """Make the snapshot that is there durable, before anybody builds on it.

        Its writer may have been killed between the rename and the sync of the folder. Changes
        no file and needs no lock: the sync serves whatever snapshot is there by then.
        """
        self._latest()
        self._confirm()

    def events_missing(self) -> bool:
        """Tell whether the event file is behind the ledger, as a killed writer leaves it."""
        return bool(missing_events(self.ledger(), fold(self.events()), self._cases))

    def read_cases(self, shard: Shard) -> bytes:
        """Give a shard's records, held against the digest in the plan."""
        path = os.path.join(self.path, CASES_NAME)
        if self._cases_fd < 0:
            self._cases_fd = open_to_read(path)
        data = b"".join([read_extent(self._cases_fd, path, extent) for extent in shard.extents])
        if sha256(data).hexdigest() != shard.sha256:
            raise Corrupt(path=path, reason=f"the cases of {shard.name} do not match their digest")
        return data

    def read_kept(self, name: str) -> bytes:
        """Give a file of an evaluation, held against its digest in the plan."""
        path = os.path.join(self.path, name)
        with _must_be_there(path):
            data = self._folder.read(name)
        if not self.plan.seals(name, data):
            raise Corrupt(path=path, reason="edited: its digest is not the one in the plan")
        return data

    def put_receipts(self, receipts: Mapping[str, bytes]) -> None:
        """Make receipts durable, once each; see `Store.put_receipts`."""
        folder = self._receipts_folder()
        for name in folder.create_once(receipts):
            if folder.read(name) != receipts[name]:
                shard, _, version = name.removesuffix(".json").partition(".v")
                reason = "another receipt was written under this version"
                raise Fenced(action="completion", shard=shard, version=int(version), reason=reason)

    def read_receipt(self, lease: Lease) -> bytes:
        """Give the bytes of a done lease's receipt, held against the ledger."""
        path, reference = self._receipt_of(lease)
        with _must_be_there(path):
            data = self._receipts_folder().read(receipt_name(lease.shard, lease.version))
        check_bytes(data, reference, path=path)
        return data

    def check_receipt(self, lease: Lease) -> None:
        """Hold the size of a done lease's receipt against the ledger."""
        path, reference = self._receipt_of(lease)
        with _must_be_there(path):
            size = os.stat(path, follow_symlinks=False).st_size
        if size != reference.bytes:
            reason = f"{size} bytes where the ledger has {reference.bytes}"
            raise Corrupt(path=path, reason=reason)

    def tell(self, notes: Sequence[Note]) -> list[Event]:
        """Append events that no commit told of."""
        with self._locked():
            self._journal.catch_up(self._latest()[0], self._cases)
            return self._journal.append(notes)

    def number(self, notes: Sequence[Note]) -> list[Event]:
        """Stamp events without writing them, for a command that must change no file."""
        return self._journal.number(notes)

    def events(self) -> Iterator[Event]:
        """Read the run's events from the first on."""
        return self._journal.read()

    def events_size(self) -> int:
        """Give the size of the event file in bytes, to tell whether it has grown; 0 without one."""
        try:
            return os.stat(EVENTS_FILE, dir_fd=self._folder.fd, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def sweep(self, *, alive: Callable[[int], bool]) -> None:
        """Remove what killed processes left unfinished; for the holder of the run lock.

        Snapshots are written under the commit lock alone, so every other one of them is dead;
        receipts are written without it, also by workers that were started by hand.
        """
        # here and not at the top: it loads for 10 ms, which a worker process saves
        from farm.store.staging import sweep_staging

        with self._locked():
            self._folder.sweep()
            self._receipts_folder().sweep(alive=alive)
            sweep_staging(self.path, alive=alive)

    def run_lock(self) -> FileLock:
        """Give the lock that a supervisor holds for its life; not taken yet."""
        return FileLock(os.path.join(self.path, RUN_LOCK_FILE))

    def close(self) -> None:
        """Close every file; nothing is written."""
        self._journal.close()
        self._forget()
        if self._cases_fd >= 0:
            os.close(self._cases_fd)
            self._cases_fd = -1
        if self._lock is not None:
            self._lock.close()
        if self._receipts is not None:
            self._receipts.close()
        self._folder.close()

    def __enter__(self) -> DirectoryStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._lock is None:
            self._lock = FileLock(os.path.join(self.path, LOCK_FILE))
        with self._lock.held(timeout_s=self._lock_timeout_s):
            yield

    def _latest(self) -> tuple[Ledger, str]:
        """Give the snapshot on disk and its checksum, re-read only when another one is there."""
        if self._known is not None and self._folder.poison.reason:
            return self._known  # what is on disk may be a snapshot that nobody was told of
        path = os.path.join(self.path, LEDGER_FILE)
        with _must_be_there(path):
            there = os.stat(LEDGER_FILE, dir_fd=self._folder.fd, follow_symlinks=False)
            if self._known is not None and _look_of(there) == self._seen:
                return self._known
            if self._known is not None:
                self._journal.doubt()
            self._open_snapshot()
            with open(self._snapshot_fd, "rb", closefd=False) as file:
                data = file.read()
        ledger, checksum = decode_ledger(data, path=path)
        if ledger.run_id != self._plan.run_id:
            reason = f"it belongs to run {ledger.run_id}, the plan is of run {self._plan.run_id}"
            raise Corrupt(path=path, reason=reason)
        if [lease.shard for lease in ledger.leases] != [shard.name for shard in self._plan.shards]:
            raise Corrupt(path=path, reason="its shards are not those of the plan")
        self._known = (ledger, checksum)
        self._confirmed = False
        return self._known

    def _confirm(self) -> None:
        if not self._confirmed:
            self._folder.sync()
            self._confirmed = True

    def _write(self, ledger: Ledger) -> None:
        data, checksum = encode_ledger(ledger)
        self._folder.replace(LEDGER_FILE, data)
        with storage_errors(os.path.join(self.path, LEDGER_FILE)):
            self._open_snapshot()
        self._known = (ledger, checksum)
        self._confirmed = True

    def _open_snapshot(self) -> None:
        self._forget()
        path = os.path.join(self.path, LEDGER_FILE)
        self._snapshot_fd = open_written(path, dir_fd=self._folder.fd)
        self._seen = _look_of(os.fstat(self._snapshot_fd))

    def _forget(self) -> None:
        if self._snapshot_fd >= 0:
            os.close(self._snapshot_fd)
            self._snapshot_fd = -1
        self._known = None

    def _receipts_folder(self) -> Folder:
        if self._receipts is None:
            path = os.path.join(self.path, RECEIPTS)
            if not os.path.isdir(path):
                raise Corrupt(path=path, reason="missing, or no folder")
            self._receipts = Folder(path, poison=self._folder.poison)
        return self._receipts

    def _receipt_of(self, lease: Lease) -> tuple[str, ReceiptReference]:
        if lease.receipt is None:
            raise SpecError(f"{lease.shard} is not done, it has no receipt")
        name = receipt_name(lease.shard, lease.version)
        return os.path.join(self.path, RECEIPTS, name), lease.receipt


def _look_of(status: os.stat_result) -> tuple[int, ...]:
    """Tell one snapshot from another, and from itself when somebody has edited it in place."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _must_be_there(path: str) -> Iterator[None]:
    """Translate what the operating system says of a file that the store counts on."""
    try:
        with storage_errors(path, passing=(FileNotFoundError,)):
            yield
    except FileNotFoundError as error:
        raise Corrupt(path=path, reason="missing, and the run counts on it") from error
