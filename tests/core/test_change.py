"""Many changes on one ledger: their order, their refusals, and when nothing changes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farm.core.change import (
    Change,
    Claim,
    Fail,
    Publish,
    Reclaim,
    Release,
    Renew,
    Requeue,
    apply,
)
from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import first_ledger
from farm.errors import Fenced, SpecError
from tests.examples import plan_of, reference

OPEN = first_ledger(plan_of(3))
HELD = "shard-0"


def after(ledger: Ledger, *changes: Change, now: int = 0) -> Ledger:
    """The ledger after changes that must all be granted."""
    ledger, outcomes = apply(ledger, changes, now=now)
    assert all(isinstance(outcome, tuple) for outcome in outcomes), outcomes
    return ledger


CLAIMED = after(OPEN, Claim(worker="w1", ttl=100, incarnation="boot:1:2"))


def test_a_claim_takes_the_first_eligible_shards_in_plan_order() -> None:
    ledger, (first, second) = apply(
        OPEN, [Claim(worker="w1", ttl=10, limit=2), Claim(worker="w2", ttl=10, limit=2)], now=5
    )
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert [lease.shard for lease in first] == ["shard-0", "shard-1"]
    assert [lease.shard for lease in second] == ["shard-2"]
    assert [lease.worker for lease in ledger.leases] == ["w1", "w1", "w2"]


def test_later_changes_see_what_earlier_ones_did() -> None:
    """One commit holds a whole life: claim, failure, claim, publish."""
    ledger, outcomes = apply(
        OPEN,
        [
            Claim(worker="w1", ttl=10),
            Fail(shard="shard-0", worker="w1", version=1, max_attempts=3, reason="died"),
            Claim(worker="w2", ttl=10),
            Publish(shard="shard-0", worker="w2", version=2, receipt=reference()),
        ],
        now=0,
    )
    assert [type(outcome) for outcome in outcomes] == [tuple] * 4
    assert ledger.lease("shard-0") == Lease(
        shard="shard-0", worker="w2", version=2, until=10, attempts=1, receipt=reference()
    )
    assert outcomes[0] == (Lease(shard="shard-0", worker="w1", version=1, until=10),)


def test_a_commit_raises_the_revision_by_one_however_many_changes_it_holds() -> None:
    assert OPEN.revision == 0
    assert after(OPEN, *[Claim(worker="w", ttl=1)] * 3).revision == 1


def test_a_refusal_is_an_outcome_and_keeps_no_other_change_from_happening() -> None:
    stale = Publish(shard="shard-0", worker="w9", version=1, receipt=reference())
    ledger, (refusal, claimed) = apply(CLAIMED, [stale, Claim(worker="w2", ttl=1)], now=0)
    assert isinstance(refusal, Fenced)
    assert isinstance(claimed, tuple)
    assert ledger.lease("shard-0") is CLAIMED.lease("shard-0")
    assert ledger.lease("shard-1").worker == "w2"


@pytest.mark.parametrize(
    "change",
    [
        Publish(shard="shard-0", worker="w9", version=1, receipt=reference()),
        Renew(shard="shard-0", worker="w1", version=2, ttl=1),
        Release(shard="shard-1", worker="", version=0, reason=""),
        Fail(shard="shard-1", worker="", version=0, max_attempts=1, reason=""),
        Requeue(shard="shard-0"),
        Reclaim(shard="shard-0", worker="w1", incarnation="boot:9:9"),
        Reclaim(shard="shard-0", worker="w9", incarnation="boot:1:2"),
        Reclaim(shard="shard-1", worker="", incarnation=""),
        Claim(worker="w2", ttl=1, limit=0),
        Claim(worker="", ttl=1),
        Renew(shard="shard-0", worker="w1", version=1, ttl=100),  # to the instant it has already
    ],
)
def test_when_no_lease_changes_the_ledger_is_the_same_object(change: Change) -> None:
    """A store writes nothing then."""
    assert apply(CLAIMED, [change], now=0)[0] is CLAIMED


def test_a_redelivered_publish_is_acknowledged_and_changes_nothing() -> None:
    publish = Publish(shard="shard-0", worker="w1", version=1, receipt=reference())
    done = after(CLAIMED, publish)
    again, (outcome,) = apply(done, [publish], now=10**6)
    assert again is done
    assert outcome == (done.lease("shard-0"),)


def test_a_wrong_claim_is_refused_also_when_there_is_nothing_to_take() -> None:
    """Else the mistake shows on some days only."""
    full = after(OPEN, Claim(worker="w", ttl=100, limit=3))
    _, (outcome,) = apply(full, [Claim(worker="", ttl=1)], now=0)
    assert str(outcome) == "a claim needs the name of a worker"
    _, (outcome,) = apply(full, [Claim(worker="w2", ttl=1)], now=0)
    assert outcome == ()


@pytest.mark.parametrize(
    "change",
    [
        Renew(shard="shard-9", worker="w", version=1, ttl=1),
        Release(shard="shard-9", worker="w", version=1, reason=""),
        Requeue(shard="shard-9"),
        Reclaim(shard="shard-9", worker="w", incarnation="boot:1:2"),
    ],
)
def test_a_shard_that_is_not_in_the_plan_is_refused_by_name(change: Change) -> None:
    _, (outcome,) = apply(OPEN, [change], now=0)
    assert isinstance(outcome, SpecError)
    assert str(outcome) == "'shard-9' is not a shard of this run: see `farm status`"


def test_a_change_with_its_own_time_does_not_look_at_the_stores_clock() -> None:
    """`--now-ms` is a logical clock; None means the clock of the store."""
    held = after(OPEN, Claim(worker="w1", ttl=10, now=50), now=10**12)
    assert held.lease("shard-0").until == 60
    publish = Publish(shard="shard-0", worker="w1", version=1, receipt=reference())
    _, (late,) = apply(held, [publish], now=10**12)
    assert isinstance(late, Fenced)
    done = after(held, replace(publish, now=59), now=10**12)
    assert done.lease("shard-0").done


def test_a_reclaim_frees_a_lease_of_the_named_supervisor_and_charges_nothing() -> None:
    freed = after(CLAIMED, Reclaim(shard="shard-0", worker="w1", incarnation="boot:1:2"))
    assert freed.lease("shard-0") == Lease(shard="shard-0", version=1)


def test_a_lease_claimed_by_hand_is_never_reclaimed() -> None:
    """It has no incarnation, and no supervisor can be known to be gone: it waits for expiry."""
    by_hand = after(OPEN, Claim(worker="w1", ttl=100))
    reclaim = Reclaim(shard="shard-0", worker="w1", incarnation="")
    assert apply(by_hand, [reclaim], now=0)[0] is by_hand


def test_a_finished_lease_is_never_reclaimed() -> None:
    done = after(
        CLAIMED, Publish(shard="shard-0", worker="w1", version=1, receipt=reference()), now=5
    )
    reclaim = Reclaim(shard="shard-0", worker="w1", incarnation="boot:1:2")
    assert apply(done, [reclaim], now=0)[0] is done
