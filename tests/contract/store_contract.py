"""What every store promises; a test module names it once for each kind of store.

Handles stand for processes: they share a home and know nothing of each other.
"""

from __future__ import annotations

import pytest

from farm.core.change import Change, Claim, Fail, Publish, Reclaim, Release, Renew, Requeue
from farm.core.event import note
from farm.core.lease import Lease
from farm.core.progress import fold, shard_states
from farm.core.receipt import receipt_name
from farm.errors import Corrupt, FarmError, Fenced, SpecError
from farm.store.protocol import Store
from tests.contract.homes import Home
from tests.examples import lines, receipt_bytes, reference

DATA = receipt_bytes("case-0")
OTHER = receipt_bytes("case-0", wrong=("case-0",))
RECEIPT = reference("case-0")
DRAINING = note("run.draining", reason="asked to")


def granted(store: Store, change: Change) -> tuple[Lease, ...]:
    """The leases one change touched; it must not be refused."""
    (outcome,) = store.commit([change]).outcomes
    assert isinstance(outcome, tuple), outcome
    return outcome


def refused(store: Store, change: Change) -> FarmError:
    """Why a change was refused; it must be."""
    (outcome,) = store.commit([change]).outcomes
    assert isinstance(outcome, FarmError), outcome
    return outcome


def finish(store: Store, *, worker: str = "w1") -> Lease:
    """Claim the first shard, write its receipt, publish it."""
    (lease,) = granted(store, Claim(worker=worker, ttl=100))
    store.put_receipts({receipt_name(lease.shard, lease.version): DATA})
    (done,) = granted(store, publish(worker, lease.version))
    return done


def publish(worker: str, version: int) -> Publish:
    return Publish(shard="shard-0", worker=worker, version=version, receipt=RECEIPT)


class StoreContract:
    """The tests; a subclass gives the fixture `home`, three shards with a case each."""

    def test_a_fresh_store_has_every_shard_free_and_nothing_told(self, home: Home) -> None:
        store = home.open()
        assert [lease.shard for lease in store.ledger().leases] == ["shard-0", "shard-1", "shard-2"]
        assert (store.ledger().revision, store.ledger().run_id) == (0, store.plan.run_id)
        assert list(store.events()) == []

    def test_what_one_handle_claims_another_sees_and_does_not_get(self, home: Home) -> None:
        one, two = home.open(), home.open()
        (first,) = granted(one, Claim(worker="w1", ttl=100))
        assert two.ledger().lease("shard-0") == first
        (second,) = granted(two, Claim(worker="w2", ttl=100))
        assert (first.shard, second.shard) == ("shard-0", "shard-1")
        assert one.ledger() == two.ledger()

    def test_handles_that_ask_in_turn_share_out_every_shard_once(self, home: Home) -> None:
        handles = [home.open() for _ in range(5)]
        taken = [granted(handle, Claim(worker=f"w{i}", ttl=9)) for i, handle in enumerate(handles)]
        assert [[lease.shard for lease in leases] for leases in taken] == [
            ["shard-0"], ["shard-1"], ["shard-2"], [], [],
        ]  # fmt: skip

    def test_the_clock_of_the_store_decides_when_a_change_brings_no_time(self, home: Home) -> None:
        store = home.open()
        (lease,) = granted(store, Claim(worker="w1", ttl=100))
        assert lease.until == 1_100
        home.clock.now = 1_099
        assert granted(store, Renew(shard="shard-0", worker="w1", version=1, ttl=50)) == (
            Lease(shard="shard-0", worker="w1", version=1, until=1_149),
        )
        home.clock.now = 1_149
        assert isinstance(refused(store, publish("w1", 1)), Fenced)
        (lease,) = granted(store, Claim(worker="w2", ttl=100, now=5_000))
        assert (lease.version, lease.until) == (2, 5_100)

    def test_a_late_worker_is_fenced_by_whoever_took_over_elsewhere(self, home: Home) -> None:
        """The zombie wakes, its version is behind, and the winner's receipt stands."""
        zombie, winner = home.open(), home.open()
        granted(zombie, Claim(worker="w1", ttl=100))
        home.clock.now = 1_100
        done = finish(winner, worker="w2")
        before = home.state()
        refusal = refused(zombie, publish("w1", 1))
        assert str(refusal) == (
            "completion fenced for shard-0 v1: version 1 is behind 2: 'w2' has finished version 2"
        )
        assert home.state() == before
        assert zombie.ledger().lease("shard-0") == done

    def test_a_publish_is_acknowledged_again_by_any_handle_and_told_once(self, home: Home) -> None:
        finish(home.open())
        other = home.open()
        home.clock.now = 10**6
        before = home.state()
        (lease,) = granted(other, publish("w1", 1))
        assert lease.done
        assert home.state() == before
        other.commit([publish("w1", 1), Claim(worker="w2", ttl=1)])
        told = [event.event for event in other.events()]
        assert told == ["shard.claimed", "shard.completed", "shard.claimed"]

    def test_released_failed_and_requeued_shards_go_round_with_rising_versions(
        self, home: Home
    ) -> None:
        one, two = home.open(), home.open()
        granted(one, Claim(worker="w", ttl=9))
        granted(two, Release(shard="shard-0", worker="w", version=1, reason="drained"))
        granted(one, Claim(worker="w", ttl=9))
        granted(two, Fail(shard="shard-0", worker="w", version=2, max_attempts=1, reason="died"))
        assert one.ledger().lease("shard-0").quarantined
        (next_one,) = granted(one, Claim(worker="w", ttl=9))
        assert next_one.shard == "shard-1"
        granted(one, Requeue(shard="shard-0"))
        (lease,) = granted(two, Claim(worker="w", ttl=9))
        assert (lease.shard, lease.version, lease.attempts) == ("shard-0", 3, 0)

    def test_the_leases_of_a_supervisor_that_is_gone_are_freed_at_once(self, home: Home) -> None:
        gone, next_one = home.open(), home.open()
        granted(gone, Claim(worker="w", ttl=9, incarnation="boot:1:2"))
        granted(next_one, Reclaim(shard="shard-0", worker="w", incarnation="boot:1:2"))
        (lease,) = granted(next_one, Claim(worker="w", ttl=9))
        assert (lease.shard, lease.version) == ("shard-0", 2)

    def test_all_changes_of_a_commit_are_one_revision(self, home: Home) -> None:
        store = home.open()
        committed = store.commit([Claim(worker="w", ttl=9)] * 4 + [Requeue(shard="shard-0")])
        assert committed.ledger.revision == 1
        assert committed.ledger == store.ledger()
        kinds = [type(outcome) for outcome in committed.outcomes]
        assert kinds == [tuple, tuple, tuple, tuple, SpecError]

    @pytest.mark.parametrize(
        "changes",
        [
            [],
            [publish("w9", 1)],
            [Claim(worker="w2", ttl=1)],
            [Claim(worker="", ttl=1)],
            [Renew(shard="shard-0", worker="w", version=1, ttl=100)],
            [Reclaim(shard="shard-0", worker="w", incarnation="")],
        ],
        ids=["none", "refused", "nothing free", "wrong", "same expiry", "by hand"],
    )
    def test_when_nothing_changes_nothing_is_written_and_nothing_told(
        self, home: Home, changes: list[Change]
    ) -> None:
        granted(home.open(), Claim(worker="w", ttl=100, limit=3))
        before = home.state()
        committed = home.open().commit(changes)
        assert committed.events == []
        assert home.state() == before

    def test_receipts_are_written_once_and_the_same_bytes_may_come_again(self, home: Home) -> None:
        one, two = home.open(), home.open()
        one.put_receipts({"shard-0.v1.json": DATA})
        two.put_receipts({"shard-0.v1.json": DATA})
        with pytest.raises(Fenced) as refusal:
            two.put_receipts({"shard-0.v1.json": OTHER})
        assert str(refusal.value) == (
            "completion fenced for shard-0 v1: another receipt was written under this version"
        )
        granted(one, Claim(worker="w1", ttl=9))
        (done,) = granted(one, publish("w1", 1))
        assert two.read_receipt(done) == DATA
        two.check_receipt(done)

    def test_a_receipt_that_is_not_what_the_ledger_counts_on_is_reported(self, home: Home) -> None:
        """Here the loser's bytes were written first, under the very version that was accepted."""
        store = home.open()
        store.put_receipts({"shard-0.v1.json": OTHER})
        granted(store, Claim(worker="w1", ttl=9))
        (done,) = granted(store, publish("w1", 1))
        with pytest.raises(Corrupt, match=r"shard-0\.v1\.json: \d+ bytes where the ledger has"):
            store.read_receipt(done)
        with pytest.raises(Corrupt, match=r"shard-0\.v1\.json"):
            store.check_receipt(done)

    def test_a_receipt_that_is_missing_is_reported_by_name(self, home: Home) -> None:
        store = home.open()
        granted(store, Claim(worker="w1", ttl=9))
        (done,) = granted(store, publish("w1", 1))
        for look in (store.read_receipt, store.check_receipt):
            with pytest.raises(Corrupt, match=r"shard-0\.v1\.json: missing"):
                look(done)

    def test_a_shard_that_is_not_done_has_no_receipt_to_read(self, home: Home) -> None:
        store = home.open()
        for look in (store.read_receipt, store.check_receipt):
            with pytest.raises(SpecError, match="shard-0 is not done, it has no receipt"):
                look(store.ledger().lease("shard-0"))

    def test_an_orphan_receipt_counts_for_nothing(self, home: Home) -> None:
        store = home.open()
        store.put_receipts({"shard-0.v9.json": OTHER})
        assert finish(store).receipt == RECEIPT
        assert store.read_receipt(store.ledger().lease("shard-0")) == DATA

    def test_the_cases_of_a_shard_are_its_canonical_lines(self, home: Home) -> None:
        store = home.open()
        for index, shard in enumerate(store.plan.shards):
            assert store.read_cases(shard) == lines(index)

    def test_events_are_numbered_by_one_whoever_writes(self, home: Home) -> None:
        """Two handles take turns, commit by commit and word by word."""
        one, two = home.open(), home.open()
        one.tell([DRAINING])
        two.commit([Claim(worker="w1", ttl=9)])
        two.tell([DRAINING, DRAINING])
        one.commit([Claim(worker="w2", ttl=9, limit=2)])
        two.tell([DRAINING])
        events = list(home.open().events())
        assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6, 7]
        assert list(one.events()) == events == list(two.events())

    def test_a_commit_answers_with_the_very_events_that_were_written(self, home: Home) -> None:
        store = home.open()
        told = store.tell([DRAINING])
        committed = store.commit([Claim(worker="w1", ttl=9, limit=2)])
        assert [*told, *committed.events] == list(store.events())
        first = committed.events[0]
        assert (first.event, first.level, first.shard) == ("shard.claimed", "info", "shard-0")
        assert (first.run_id, first.invocation_id) == (store.plan.run_id, "invocation-1")
        assert first.ts == "1970-01-01T00:00:01.000000Z"

    def test_telling_nothing_writes_nothing(self, home: Home) -> None:
        before = home.state()
        assert home.open().tell([]) == []
        assert home.state() == before

    def test_the_events_of_a_finished_run_fold_to_its_ledger(self, home: Home) -> None:
        store, other = home.open(), home.open()
        granted(other, Claim(worker="w0", ttl=9))
        granted(other, Release(shard="shard-0", worker="w0", version=1, reason="drained"))
        finish(store)
        for shard in ("shard-1", "shard-2"):
            granted(other, Claim(worker="w2", ttl=9))
            granted(store, Publish(shard=shard, worker="w2", version=1, receipt=reference("x")))
        assert store.ledger().complete
        assert fold(store.events()) == shard_states(store.ledger())
