"""What holds of a run whatever happens to it, in whatever order: a state machine and its mutants.

The machine acts on a real directory store and keeps its own books, which know nothing of the
rules but what was granted and what was acknowledged. Each invariant is a numbered line below; a
rule that is broken on purpose is found by them, so that they are known to bite.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from farm.core import lease as rules
from farm.core.change import Change, Claim, Fail, Outcome, Publish, Reclaim, Release, Renew, Requeue
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.progress import fold, shard_states
from farm.core.receipt import build_receipt, encode_receipt, receipt_name, refer
from farm.core.result import CaseResult
from farm.errors import FarmError, Fenced, StorageError
from farm.files import atomic
from farm.store.directory import DirectoryStore
from tests.examples import shard_named, states
from tests.faults.runs import make_store

TTL = 10
MOST = 3  # attempts before a shard is set aside
SHARDS = 3
GONE = "00000000-0000-4000-8000-000000000000:1:1"
WORKERS = st.sampled_from(["w1", "w2"])


@dataclass(frozen=True)
class Held:
    """A grant as a worker remembers it; it may be long out of date."""

    shard: str
    worker: str
    version: int


@dataclass
class Books:
    """What an observer outside of the rules knows of one shard."""

    version: int = 0  # the highest ever granted
    until: int = 0  # until when the current grant was promised
    holder: str = ""
    last: str = ""  # to whom it was granted last, whoever holds it now
    accepted: tuple[int, bytes] | None = None  # version and bytes of the acknowledged receipt
    charged: int = 0  # failures since the last requeue
    receipts: dict[int, bytes] = field(default_factory=dict)


class Runs(RuleBasedStateMachine):
    """Several workers, supervisors that crash, a clock that jumps, a disk that fails."""

    held = Bundle("held")

    @initialize()
    def begin(self) -> None:
        # thousands of commits: in memory where there is such a place, since none of it must last
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.TemporaryDirectory(prefix="farm-law-", dir=place)
        self.path = make_store(self.folder.name, cases=7, shards=SHARDS)
        self.now = 1_000
        self.store = self.open()
        self.names = [shard.name for shard in self.store.plan.shards]
        self.books = {name: Books() for name in self.names}
        self.revision = 0
        self.seen: Ledger = self.store.ledger()

    def open(self) -> DirectoryStore:
        return DirectoryStore(self.path, clock=lambda: self.now)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def commit(self, change: Change) -> Outcome:
        committed = self.store.commit([change])
        # I10 the revision rises by one with a commit that changed something, else not at all
        changed = committed.ledger.leases != self.seen.leases
        assert committed.ledger.revision == self.revision + changed
        self.revision = committed.ledger.revision
        self.seen = committed.ledger  # a rule may commit more than once
        return committed.outcomes[0]

    # --- what may happen ---------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 5, TTL, 35, -20, 1_000_000, -900]))
    def time_passes_or_jumps(self, ms: int) -> None:
        self.now = max(0, self.now + ms)

    @rule(target=held, worker=WORKERS, limit=st.integers(1, 2), ours=st.booleans())
    def claim(self, worker: str, limit: int, ours: bool) -> Any:
        incarnation = GONE if ours else ""
        outcome = self.commit(Claim(worker=worker, ttl=TTL, limit=limit, incarnation=incarnation))
        assert not isinstance(outcome, FarmError)
        return multiple(*[self.granted(lease, worker) for lease in outcome])

    @rule(target=held, worker=WORKERS)
    def take_over_at_expiry(self, worker: str) -> Any:
        self.now = max([self.now, *(books.until for books in self.books.values())])
        return self.claim(worker, limit=SHARDS, ours=False)

    def granted(self, lease: Lease, worker: str) -> Held:
        books = self.books[lease.shard]
        # I3 versions strictly increase, also for the same worker
        assert lease.version > books.version, "version did not rise"
        # I5 a claim is granted on a free shard, or at its expiry by the store's clock
        assert not books.holder or self.now >= books.until, "taken over before its expiry"
        # I4 a finished or set-aside shard is never granted
        assert books.accepted is None, "claimed though done"
        assert books.charged < MOST, "claimed though quarantined"
        books.version, books.until, books.holder = lease.version, self.now + TTL, worker
        books.last = worker
        assert lease.until == books.until
        return Held(lease.shard, worker, lease.version)

    @rule(held=held)
    def renew(self, held: Held) -> None:
        books = self.books[held.shard]
        outcome = self.commit(
            Renew(shard=held.shard, worker=held.worker, version=held.version, ttl=TTL)
        )
        if isinstance(outcome, FarmError):
            return
        # I7 a renewal never revives what expired, finished or was taken
        assert books.accepted is None, "renewed though done"
        assert (books.holder, books.version) == (held.worker, held.version), "renewed by a loser"
        assert self.now < books.until, "revived after its expiry"
        books.until = self.now + TTL

    @rule(held=held, charge=st.booleans())
    def give_back(self, held: Held, charge: bool) -> None:
        books = self.books[held.shard]
        given = {"shard": held.shard, "worker": held.worker, "version": held.version}
        change = (
            Fail(**given, max_attempts=MOST, reason="test")  # type: ignore[arg-type]
            if charge
            else Release(**given, reason="test")  # type: ignore[arg-type]
        )
        outcome = self.commit(change)
        if isinstance(outcome, FarmError):
            return
        assert (books.holder, books.version) == (held.worker, held.version), "given by a loser"
        assert books.accepted is None, "given back though done"
        books.holder = ""
        books.charged += charge
        # I6 it is set aside at the limit, neither before nor after
        assert outcome[0].quarantined == (books.charged >= MOST)

    @rule(index=st.integers(0, SHARDS - 1), times=st.integers(1, MOST))
    def fail_again_and_again(self, index: int, times: int) -> None:
        for _ in range(times):
            if not rules.eligible(self.store.ledger().leases[index], now=self.now):
                return
            for granted in self.claim("w1", limit=SHARDS, ours=False).values:
                self.give_back(granted, charge=True)

    @rule(held=held, verdict=st.booleans())
    def publish(self, held: Held, verdict: bool) -> None:
        """First publish, duplicate, late one, or another verdict under the same version."""
        shard = shard_named(self.store.plan, held.shard)
        result = CaseResult(id="c", correct=verdict, score=float(verdict), outcome="correct")
        receipt = build_receipt([result] * shard.cases, worker_pid=1)
        data = encode_receipt(receipt)
        books = self.books[held.shard]
        name = receipt_name(held.shard, held.version)
        try:
            self.store.put_receipts({name: data})
        except Fenced:
            # I4 a receipt's bytes never change
            assert books.receipts.get(held.version, data) != data
            return
        assert books.receipts.setdefault(held.version, data) == data, "a receipt was replaced"
        outcome = self.commit(
            Publish(
                shard=held.shard,
                worker=held.worker,
                version=held.version,
                receipt=refer(receipt, data),
            )
        )
        if isinstance(outcome, FarmError):
            # I1 what was accepted is acknowledged whenever it comes again, also after its expiry
            assert books.accepted != (held.version, data), "a duplicate was refused"
            return
        if books.accepted is None:
            # I2 what is accepted is the newest grant, by its holder, in time
            assert held.version == books.version, "an old version was accepted"
            assert books.holder == held.worker, "somebody else's grant was used"
            assert self.now < books.until, "accepted after its expiry"
            books.accepted = (held.version, data)
        # I1 there is one accepted receipt a shard
        assert books.accepted == (held.version, data), "two receipts were accepted"

    @rule(
        index=st.integers(0, SHARDS - 1),
        ms=st.sampled_from([-1, 0, 1]),
        behind=st.sampled_from([0, 0, 1]),
        acts=st.sampled_from([("publish",), ("publish", "publish"), ("renew",), ("fail",), ("",)]),
        verdict=st.booleans(),
    )
    def a_late_grant_is_used_about_its_expiry(
        self, index: int, ms: int, behind: int, acts: tuple[str, ...], verdict: bool
    ) -> None:
        """Whoever was granted a shard last acts just before its time is up, or just after.

        Or it does so in the name of its grant before. Rules differ here and hardly anywhere else;
        a held grant drawn at random is mostly an old one, and the clock mostly far from its end.
        """
        name = self.names[index % len(self.names)]
        books = self.books[name]
        if books.version <= behind:
            return
        used = Held(name, books.last, books.version - behind)
        until = books.until
        for number, act in enumerate(acts, start=1):
            # of two the first is in time
            self.now = max(0, until + (ms if number == len(acts) else -1))
            if act == "publish":
                self.publish(used, verdict)
            elif act == "renew":
                self.renew(used)
            else:
                self.give_back(used, charge=act == "fail")

    @rule(incarnation=st.sampled_from([GONE, "", "another"]), index=st.integers(0, SHARDS - 1))
    def reclaim(self, incarnation: str, index: int) -> None:
        """A new supervisor frees what a dead one held: of that one, and nobody else's."""
        lease = self.store.ledger().leases[index % len(self.names)]
        outcome = self.commit(
            Reclaim(shard=lease.shard, worker=lease.worker, incarnation=incarnation)
        )
        assert not isinstance(outcome, FarmError)
        if outcome:
            assert lease.incarnation == incarnation
            assert self.books[lease.shard].accepted is None, "freed though done"
            self.books[lease.shard].holder = ""

    @rule(index=st.integers(0, SHARDS - 1))
    def requeue(self, index: int) -> None:
        name = self.names[index % len(self.names)]
        books = self.books[name]
        outcome = self.commit(Requeue(shard=name))
        assert isinstance(outcome, FarmError) == (books.charged < MOST or bool(books.accepted))
        if not isinstance(outcome, FarmError):
            books.charged = 0

    @rule()
    def crash_and_reopen(self) -> None:
        self.store.close()
        self.store = self.open()
        before = self.store.ledger()
        # I11 to open, sweep and confirm again changes nothing
        self.store.sweep(alive=lambda pid: False)
        self.store.confirm()
        assert self.store.ledger() == before

    @rule(
        step=st.sampled_from(["write", "fsync", "rename", "folder"]),
        number=st.sampled_from([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS]),
        worker=WORKERS,
    )
    def commit_fails(self, step: str, number: int, worker: str) -> None:
        """The disk fails within a claim: nothing is granted, and after a sync nobody goes on."""
        before = self.store.ledger()
        if not any(rules.eligible(lease, now=self.now) for lease in before.leases):
            return
        with broken(step, number), pytest.raises(StorageError):
            self.store.commit([Claim(worker=worker, ttl=TTL)])
        if step in {"fsync", "folder"}:
            with pytest.raises(StorageError):
                self.store.commit([Claim(worker=worker, ttl=TTL)])
            # what nobody was told of is not shown either, as long as this process lives
            assert self.store.ledger() == before
        self.crash_and_reopen()
        after = self.store.ledger()
        if after != before:
            # the rename happened and its durability is unknown: a grant that nobody was told of
            assert step == "folder"
            self.revision = after.revision
            for lease, old in zip(after.leases, before.leases, strict=True):
                if lease != old:
                    self.granted(lease, worker)

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def the_ledger_is_as_the_books_say(self) -> None:
        ledger = self.store.ledger()
        # I8 no shard is lost or made; I15 every one is in one state
        assert [lease.shard for lease in ledger.leases] == self.names
        assert sum(states(ledger).values()) == len(self.names)
        assert ledger.revision == self.revision
        for lease in ledger.leases:
            books = self.books[lease.shard]
            assert lease.version == books.version
            # I4, I9 what was acknowledged stands, byte for byte, and stands for ever
            assert lease.done == (books.accepted is not None), "done without acknowledgement"
            if books.accepted is not None:
                assert lease.version == books.accepted[0]
                assert self.store.read_receipt(lease) == books.accepted[1]
            else:
                assert lease.attempts == books.charged
                assert lease.quarantined == (books.charged >= MOST)
                # I13 whoever lets its time pass loses it: every open shard can be had again
                if not lease.quarantined:
                    assert rules.eligible(lease, now=max(books.until, lease.until))
        # I14 the totals are the sums over the receipts
        for lease in ledger.leases:
            if lease.receipt is not None:
                assert lease.receipt.total == shard_named(self.store.plan, lease.shard).cases
        self.seen = ledger

    @invariant()
    def the_events_tell_the_same(self) -> None:
        # I16 after the receipt of a version nothing else is told of it
        self.store.tell([])
        assert fold(self.store.events()) == shard_states(self.store.ledger())


class broken:  # noqa: N801  reads as a word where it is used
    """Within this block the disk fails at one step of a snapshot commit."""

    def __init__(self, step: str, number: int) -> None:
        self.step, self.number = step, number

    def __enter__(self) -> None:
        self.kept = (atomic.write_fully, atomic.full_sync, os.rename)
        fail = self.fail
        if self.step == "write":
            atomic.write_fully = fail
        elif self.step == "rename":
            os.rename = fail
        else:
            atomic.full_sync = self.sync

    def fail(self, *given: object, **options: object) -> None:
        raise OSError(self.number, os.strerror(self.number))

    def sync(self, fd: int) -> None:
        is_folder = os.path.isdir(f"/dev/fd/{fd}")
        if is_folder == (self.step == "folder"):
            self.fail()
        os.fsync(fd)

    def __exit__(self, *gone: object) -> None:
        atomic.write_fully, atomic.full_sync, os.rename = self.kept


def play(*, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Runs,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )


def test_a_run_keeps_its_promises_whatever_happens() -> None:
    play(examples=60, steps=40)


# --- rules that are broken on purpose --------------------------------------------------------

_publish, _claim, _renew, _fail = rules.publish, rules.claim, rules.renew, rules.fail


def no_version_check(lease: Lease, *, version: int, **given: Any) -> Lease:
    return _publish(lease, version=lease.version, **given)


def owner_only_check(lease: Lease, *, worker: str, version: int, **given: Any) -> Lease:
    if lease.worker != worker:
        raise Fenced(action="completion", shard=lease.shard, version=version, reason="not yours")
    return _publish(lease, worker=worker, version=lease.version, **given)


def no_state_check(lease: Lease, **given: Any) -> Lease:
    return _publish(replace(lease, receipt=None, quarantined=False), **given)


def no_expiry_check(lease: Lease, *, now: int, **given: Any) -> Lease:
    return _publish(lease, now=0, **given)


def same_version_for_same_worker(lease: Lease, *, worker: str, **given: Any) -> Lease:
    new = _claim(lease, worker=worker, **given)
    return replace(new, version=lease.version) if worker == lease.worker else new


def renewal_revives(lease: Lease, *, now: int, **given: Any) -> Lease:
    return replace(_renew(lease, now=0, **given), until=now + TTL)


def never_set_aside(lease: Lease, *, max_attempts: int, **given: Any) -> Lease:
    return _fail(lease, max_attempts=10**6, **given)


def done_reopened(lease: Lease, *, now: int) -> bool:
    return not lease.worker or now >= lease.until


def early_takeover(lease: Lease, *, now: int) -> bool:
    return not lease.settled


MUTANTS: list[tuple[str, Callable[..., Any]]] = [
    ("publish", no_version_check),
    ("publish", owner_only_check),
    ("publish", no_state_check),
    ("publish", no_expiry_check),
    ("claim", same_version_for_same_worker),
    ("renew", renewal_revives),
    ("fail", never_set_aside),
    ("eligible", done_reopened),
    ("eligible", early_takeover),
]


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=[m.__name__ for _, m in MUTANTS])
def test_a_broken_rule_is_found(
    name: str, mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, name, mutant)
    with pytest.raises(AssertionError):
        play(examples=600, steps=40)  # one in fifty finds it, and the first ends the search
