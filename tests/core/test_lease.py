"""Who may finish a shard: every rule of claim, renew, release, fail, requeue and publish.

Refusals are held to their exact messages, since these are what a person reads at three at night.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.core import lease as rules
from farm.core.lease import LARGEST, Lease
from farm.errors import Busy, Fenced, SpecError
from tests.examples import DONE, FREE, HELD, QUARANTINED, reference

OWN: dict[str, Any] = {"worker": "w1", "version": 1}


# claim


def test_a_claim_sets_owner_next_version_and_expiry_together() -> None:
    taken = rules.claim(FREE, worker="w1", now=70, ttl=30, incarnation="boot:1:2")
    assert taken == Lease(
        shard="shard-0", worker="w1", version=1, until=100, incarnation="boot:1:2"
    )


def test_a_held_shard_is_offered_at_its_expiry_and_not_a_moment_before() -> None:
    """`until` is the first instant at which somebody else may claim."""
    with pytest.raises(Busy, match=r"^shard-0: 'w1' holds version 1 until 100$"):
        rules.claim(HELD, worker="w2", now=99, ttl=30)
    taken = rules.claim(HELD, worker="w2", now=100, ttl=30)
    assert (taken.worker, taken.version, taken.until) == ("w2", 2, 130)


def test_a_worker_that_claims_its_own_expired_shard_gets_a_new_version_too() -> None:
    """Else the zombie of its own earlier attempt could publish."""
    assert rules.claim(HELD, worker="w1", now=100, ttl=1).version == 2


def test_a_claim_by_hand_drops_the_incarnation_of_the_holder_before() -> None:
    held = replace(HELD, incarnation="boot:1:2")
    assert rules.claim(held, worker="by-hand", now=100, ttl=1).incarnation == ""


@pytest.mark.parametrize(
    ("lease", "message"),
    [
        (DONE, "shard-0: 'w1' has finished version 1"),
        (QUARANTINED, "shard-0: it is quarantined after 3 failed attempts"),
    ],
)
def test_a_settled_shard_is_never_claimed_again(lease: Lease, message: str) -> None:
    with pytest.raises(Busy) as refused:
        rules.claim(lease, worker="w2", now=LARGEST - 1, ttl=1)
    assert str(refused.value) == message
    assert not rules.eligible(lease, now=LARGEST)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"worker": ""}, "a claim needs the name of a worker"),
        ({"worker": "w\udc80"}, "the worker name 'w\\udc80' is not valid UTF-8"),
        (
            {"worker": "é" * 129},
            f"the worker name '{'é' * 20}'... has 258 bytes, the limit is 256",
        ),
        ({"now": -1}, "the clock reads -1, which is before the epoch"),
        ({"ttl": 0}, "a lease of 0 ms would never hold: give a positive --lease-ms"),
        ({"ttl": -5}, "a lease of -5 ms would never hold: give a positive --lease-ms"),
        (
            {"now": LARGEST, "ttl": 1},
            "a lease from 9223372036854775807 for 1 ms would end past 2**63 - 1",
        ),
        (
            {"now": 1, "ttl": LARGEST},
            "a lease from 1 for 9223372036854775807 ms would end past 2**63 - 1",
        ),
    ],
)
def test_a_claim_refuses_what_could_not_be_kept(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        rules.claim(FREE, **{"worker": "w1", "now": 0, "ttl": 30, **wrong})
    assert str(refused.value) == message


def test_times_and_versions_may_reach_the_largest_number_but_not_pass_it() -> None:
    assert rules.claim(FREE, worker="w1", now=LARGEST - 1, ttl=1).until == 2**63 - 1
    last = replace(FREE, version=LARGEST - 1)
    assert rules.claim(last, worker="w1", now=0, ttl=1).version == 2**63 - 1
    with pytest.raises(SpecError, match="version 9223372036854775807 cannot rise any further"):
        rules.claim(replace(FREE, version=LARGEST), worker="w1", now=0, ttl=1)


# renew


def test_a_renewal_moves_the_expiry_and_nothing_else() -> None:
    assert rules.renew(HELD, **OWN, now=99, ttl=30) == replace(HELD, until=129)


def test_a_renewal_never_revives_an_expired_lease() -> None:
    """Somebody may already have been told that it is free."""
    with pytest.raises(Fenced) as refused:
        rules.renew(HELD, **OWN, now=100, ttl=30)
    assert str(refused.value) == (
        "renewal fenced for shard-0 v1: the lease expired at 100, it is 100 now"
    )


def test_a_renewal_of_a_finished_shard_is_refused() -> None:
    """A lease that is done never changes again."""
    with pytest.raises(Fenced, match=r"^renewal fenced for shard-0 v1: 'w1' has finished"):
        rules.renew(DONE, **OWN, now=50, ttl=30)


@pytest.mark.parametrize("wrong", [{"now": -1}, {"ttl": 0}, {"ttl": LARGEST}])
def test_a_renewal_refuses_the_times_a_claim_refuses(wrong: dict[str, int]) -> None:
    with pytest.raises(SpecError):
        rules.renew(HELD, **(OWN | {"now": 50, "ttl": 30} | wrong))


# release and fail


def test_a_release_clears_the_worker_and_keeps_the_version_and_the_attempts() -> None:
    held = replace(HELD, incarnation="boot:1:2", attempts=1)
    assert rules.release(held, **OWN) == Lease(shard="shard-0", version=1, attempts=1)


def test_a_failure_gives_the_shard_back_and_charges_one_attempt() -> None:
    failed = rules.fail(HELD, **OWN, max_attempts=3)
    assert failed == Lease(shard="shard-0", version=1, attempts=1)


def test_at_max_attempts_the_shard_is_quarantined() -> None:
    """Three executions that failed are three, whatever the version says by then."""
    held = replace(HELD, version=9, attempts=2)
    failed = rules.fail(held, worker="w1", version=9, max_attempts=3)
    assert failed == Lease(shard="shard-0", version=9, attempts=3, quarantined=True)
    assert not rules.eligible(failed, now=LARGEST)


def test_claims_and_releases_cost_no_attempt() -> None:
    """Drain, supervisor death and lost leases are not the shard's fault."""
    lease = FREE
    for version in range(1, 10):
        lease = rules.claim(lease, worker="w1", now=0, ttl=10)
        lease = rules.release(lease, worker="w1", version=version)
    assert (lease.version, lease.attempts) == (9, 0)


@pytest.mark.parametrize("action", ["release", "failure"])
@pytest.mark.parametrize(
    ("lease", "reason"),
    [
        (DONE, "'w1' has finished version 1"),
        (replace(QUARANTINED, version=1), "'w1' is not the holder, it is quarantined after"),
    ],
)
def test_a_settled_shard_is_neither_released_nor_charged(
    action: str, lease: Lease, reason: str
) -> None:
    with pytest.raises(Fenced) as refused:
        _act(action, lease, OWN, now=0)
    assert str(refused.value).startswith(f"{action} fenced for shard-0 v1: {reason}")


# requeue


def test_a_requeue_opens_a_quarantined_shard_with_a_clean_count() -> None:
    opened = rules.requeue(QUARANTINED)
    assert opened == Lease(shard="shard-0", version=3)
    assert rules.claim(opened, worker="w1", now=0, ttl=1).version == 4


@pytest.mark.parametrize(
    ("lease", "state"),
    [
        (FREE, "it is free at version 0"),
        (HELD, "'w1' holds version 1 until 100"),
        (DONE, "'w1' has finished version 1"),
    ],
)
def test_only_a_quarantined_shard_is_requeued(lease: Lease, state: str) -> None:
    with pytest.raises(SpecError) as refused:
        rules.requeue(lease)
    assert str(refused.value) == f"shard-0: only a quarantined shard is requeued, {state}"


# publish


def test_the_holder_publishes_before_expiry() -> None:
    published = rules.publish(HELD, **OWN, now=99, receipt=reference())
    assert published == replace(HELD, receipt=reference())
    assert published.done


def test_a_first_completion_at_expiry_is_refused() -> None:
    with pytest.raises(Fenced) as refused:
        rules.publish(HELD, **OWN, now=100, receipt=reference())
    assert str(refused.value) == (
        "completion fenced for shard-0 v1: the lease expired at 100, it is 100 now"
    )


def test_a_first_completion_before_the_epoch_is_refused() -> None:
    """A clock below zero would make every expiry lie in the future."""
    with pytest.raises(SpecError, match="the clock reads -1, which is before the epoch"):
        rules.publish(HELD, **OWN, now=-1, receipt=reference())


def test_the_same_bytes_are_acknowledged_again_even_after_expiry() -> None:
    """A worker that did not hear the first answer asks again; the lease is the same object."""
    assert rules.publish(DONE, **OWN, now=LARGEST, receipt=reference()) is DONE


def test_other_bytes_for_a_finished_shard_are_refused_even_before_expiry() -> None:
    with pytest.raises(Fenced) as refused:
        rules.publish(DONE, **OWN, now=1, receipt=reference("a", wrong=("a",)))
    assert str(refused.value) == (
        "completion fenced for shard-0 v1: it is done already with another receipt"
    )


@pytest.mark.parametrize("now", [1, 100])
def test_owner_and_version_are_judged_before_anything_else(now: int) -> None:
    """The same bytes of a stale version are refused too: only its own version is acknowledged."""
    done = replace(DONE, version=2)
    with pytest.raises(Fenced) as refused:
        rules.publish(done, **OWN, now=now, receipt=reference())
    assert str(refused.value) == (
        "completion fenced for shard-0 v1: version 1 is behind 2: 'w1' has finished version 2"
    )


@pytest.mark.parametrize(
    ("lease", "worker", "version", "reason"),
    [
        (
            replace(HELD, version=2, worker="w2"),
            "w1",
            1,
            "version 1 is behind 2: 'w2' holds version 2 until 100",
        ),
        (HELD, "w1", 2, "version 2 was never granted, the lease is at 1"),
        (HELD, "w2", 1, "'w2' is not the holder, 'w1' holds version 1 until 100"),
        (replace(FREE, version=1), "w1", 1, "'w1' is not the holder, it is free at version 1"),
        (
            replace(QUARANTINED, version=1),
            "w1",
            1,
            "'w1' is not the holder, it is quarantined after 3 failed attempts",
        ),
    ],
)
@pytest.mark.parametrize("action", ["renewal", "release", "failure", "completion"])
def test_only_the_current_holder_acts_on_a_lease(
    action: str, lease: Lease, worker: str, version: int, reason: str
) -> None:
    with pytest.raises(Fenced) as refused:
        _act(action, lease, {"worker": worker, "version": version}, now=0)
    assert str(refused.value) == f"{action} fenced for shard-0 v{version}: {reason}"
    assert (refused.value.shard, refused.value.version) == ("shard-0", version)


@pytest.mark.parametrize("action", ["renewal", "release", "failure", "completion"])
@pytest.mark.parametrize("version", [0, 2])
def test_a_free_lease_has_no_holder_not_even_the_empty_name(action: str, version: int) -> None:
    """The owner of a free lease is "", and "" must not pass for it."""
    free = replace(FREE, version=version)
    with pytest.raises(Fenced, match="'' is not the holder, it is free"):
        _act(action, free, {"worker": "", "version": version}, now=0)


def _act(action: str, lease: Lease, who: dict[str, Any], *, now: int) -> Lease:
    match action:
        case "renewal":
            return rules.renew(lease, **who, now=now, ttl=1)
        case "release":
            return rules.release(lease, **who)
        case "failure":
            return rules.fail(lease, **who, max_attempts=3)
        case _:
            return rules.publish(lease, **who, now=now, receipt=reference())


# laws

_times = st.integers(min_value=0, max_value=200)
_workers = st.sampled_from(["w1", "w2", ""])
_steps = st.lists(
    st.tuples(
        st.sampled_from(["claim", "renewal", "release", "failure", "completion", "requeue"]),
        _workers,
        st.integers(0, 6),
        _times,
    ),
    max_size=40,
)


@given(_steps)
def test_in_any_history_versions_never_fall_and_a_receipt_never_changes(
    steps: list[tuple[str, str, int, int]],
) -> None:
    """Safety comes from the version alone: the clock of these histories runs wild."""
    lease = FREE
    for action, worker, version, now in steps:
        before = lease
        try:
            if action == "claim":
                lease = rules.claim(lease, worker=worker, now=now, ttl=10)
                assert lease.version == before.version + 1
            elif action == "requeue":
                lease = rules.requeue(lease)
            else:
                lease = _act(action, lease, {"worker": worker, "version": version}, now=now)
        except (Busy, Fenced, SpecError):
            assert lease is before
        assert lease.version >= before.version
        assert lease.attempts <= 3
        assert not (lease.quarantined and (lease.worker or lease.done))
        if before.done:
            assert lease == before
        if lease.done and not before.done:
            assert (lease.worker, lease.version) == (before.worker, before.version)
            assert now < before.until
