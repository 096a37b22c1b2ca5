"""The events of a run fold to the states of its ledger, and what is missing is told again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from farm.core.event import Event, Note, stamp
from farm.core.ledger import Ledger
from farm.core.narration import fenced_note, narrate_all
from farm.core.plan import first_ledger
from farm.core.progress import ShardState, fold, missing_events, shard_states
from farm.errors import Fenced
from tests.examples import plan_of, reference

OPEN = first_ledger(plan_of(3))
CASES = {"shard-0": 1, "shard-1": 1, "shard-2": 1}


def stamped(notes: Sequence[Note]) -> list[Event]:
    return [
        stamp(noted, now_ms=0, run_id="r", invocation_id="i", seq=seq)
        for seq, noted in enumerate(notes, start=1)
    ]


def told(ledger: Ledger, *changes: Change) -> tuple[Ledger, list[Note]]:
    """The ledger after one commit and what is told of it."""
    after, outcomes = apply(ledger, changes, now=0)
    return after, narrate_all(changes, outcomes, before=ledger, cases=CASES)


CLAIM = Claim(worker="w1", ttl=10, incarnation="boot:1:2")
PUBLISH = Publish(shard="shard-0", worker="w1", version=1, receipt=reference())
FAIL = Fail(shard="shard-0", worker="w1", version=1, max_attempts=3, reason="died")
LAST = Fail(shard="shard-0", worker="w1", version=1, max_attempts=1, reason="died")
RELEASE = Release(shard="shard-0", worker="w1", version=1, reason="drained")


@pytest.mark.parametrize(
    ("changes", "names", "fields"),
    [
        ([CLAIM], ["shard.claimed"], {"worker": "w1", "version": 1, "until": 10, "cases": 1}),
        (
            [CLAIM, PUBLISH],
            ["shard.claimed", "shard.completed"],
            {"worker": "w1", "version": 1, "correct": 1, "total": 1, "worker_pid": 7},
        ),
        ([CLAIM, RELEASE], ["shard.claimed", "shard.released"], {"reason": "drained"}),
        (
            [CLAIM, Reclaim(shard="shard-0", worker="w1", incarnation="boot:1:2")],
            ["shard.claimed", "shard.reclaimed"],
            {"worker": "w1", "version": 1, "reason": "its supervisor is gone"},
        ),
        (
            [CLAIM, FAIL],
            ["shard.claimed", "shard.failed"],
            {"worker": "w1", "version": 1, "attempts": 1, "reason": "died"},
        ),
        (
            [CLAIM, LAST],
            ["shard.claimed", "shard.failed", "shard.quarantined"],
            {"version": 1, "attempts": 1},
        ),
        (
            [CLAIM, LAST, Requeue(shard="shard-0")],
            ["shard.claimed", "shard.failed", "shard.quarantined", "shard.requeued"],
            {"shard": "shard-0", "version": 1},
        ),
        ([CLAIM, Renew(shard="shard-0", worker="w1", version=1, ttl=99)], ["shard.claimed"], {}),
        ([CLAIM, PUBLISH, PUBLISH], ["shard.claimed", "shard.completed"], {}),
        ([PUBLISH], [], {}),
    ],
)
def test_each_change_is_told_by_its_events(
    changes: list[Change], names: list[str], fields: dict[str, object]
) -> None:
    """A renewal changes no state, a refusal changes nothing: neither is told."""
    _, notes = told(OPEN, *changes)
    assert [note.event for note in notes] == names
    if notes:
        assert fields.items() <= notes[-1].fields.items()


def test_a_publish_that_comes_again_in_a_later_commit_is_not_told_again() -> None:
    """It is acknowledged beside a change that is told; a shard is completed once."""
    done, _ = told(OPEN, CLAIM, PUBLISH)
    _, notes = told(done, PUBLISH, Claim(worker="w2", ttl=10))
    assert [(note.event, note.fields["shard"]) for note in notes] == [("shard.claimed", "shard-1")]


def test_a_late_worker_is_told_of_with_the_reason_of_its_refusal() -> None:
    refusal = Fenced(action="completion", shard="shard-0", version=1, reason="too late")
    noted = fenced_note(shard="shard-0", worker="w1", refusal=refusal)
    assert noted.fields == {
        "shard": "shard-0", "worker": "w1", "version": 1, "reason": "too late",
    }  # fmt: skip


# laws

_shards = st.sampled_from(["shard-0", "shard-1", "shard-2", "shard-3"])
_workers = st.sampled_from(["w1", "w2", ""])
_versions = st.integers(0, 4)
_held = {"shard": _shards, "worker": _workers, "version": _versions}
_changes = st.one_of(
    st.builds(
        Claim,
        worker=_workers,
        ttl=st.integers(1, 5),
        limit=st.integers(0, 3),
        incarnation=st.sampled_from(["", "boot:1:2"]),
    ),
    st.builds(Renew, **_held, ttl=st.integers(1, 5)),
    st.builds(Release, **_held, reason=st.just("drained")),
    st.builds(Fail, **_held, max_attempts=st.integers(1, 3), reason=st.just("died")),
    st.builds(Publish, **_held, receipt=st.sampled_from([reference("a"), reference("b")])),
    st.builds(Reclaim, shard=_shards, worker=_workers, incarnation=st.just("boot:1:2")),
    st.builds(Requeue, shard=_shards),
)
_histories = st.lists(st.tuples(st.lists(_changes, max_size=4), st.integers(0, 9)), max_size=25)


def lived(history: list[tuple[list[Change], int]]) -> tuple[Ledger, list[Note]]:
    """The ledger and all notes after a history of commits at the given times."""
    ledger, notes = OPEN, []
    for changes, now in history:
        after, outcomes = apply(ledger, changes, now=now)
        notes += narrate_all(changes, outcomes, before=ledger, cases=CASES)
        ledger = after
    return ledger, notes


@given(_histories)
def test_folding_the_events_of_any_history_gives_the_states_of_its_ledger(
    history: list[tuple[list[Change], int]],
) -> None:
    ledger, notes = lived(history)
    assert fold(stamped(notes)) == shard_states(ledger)
    assert missing_events(ledger, fold(stamped(notes)), CASES) == []


@given(_histories, st.integers(0, 60))
def test_from_any_prefix_of_the_events_the_rest_is_recovered(
    history: list[tuple[list[Change], int]], kept: int
) -> None:
    """A kill between commit and append, or a power cut, takes any number of last lines away."""
    ledger, notes = lived(history)
    recovered = missing_events(ledger, fold(stamped(notes[:kept])), CASES)
    assert all(note.fields["recovered"] is True for note in recovered)
    assert fold(stamped([*notes[:kept], *recovered])) == shard_states(ledger)


@given(_histories, _histories)
def test_events_of_another_past_of_the_same_shards_are_brought_to_the_ledger(
    past: list[tuple[list[Change], int]], history: list[tuple[list[Change], int]]
) -> None:
    """A ledger restored from a copy may be behind its events at the same version."""
    ledger, _ = lived(history)
    wrong = fold(stamped(lived(past)[1]))
    recovered = missing_events(ledger, wrong, CASES)
    folded = wrong | fold(stamped(recovered))
    for shard, state in shard_states(ledger).items():
        assert folded[shard] == state


@given(_histories)
def test_a_shard_is_completed_at_most_once_in_the_events(
    history: list[tuple[list[Change], int]],
) -> None:
    _, notes = lived(history)
    done = [note.fields["shard"] for note in notes if note.event == "shard.completed"]
    assert len(done) == len(set(done))


def test_events_that_are_about_no_shard_fold_to_nothing() -> None:
    draining = Note(event="run.draining", fields={"reason": "x"})
    assert fold(stamped([draining])) == {}


def test_a_finished_shard_whose_claim_was_told_gets_only_its_completion() -> None:
    claimed, notes = told(OPEN, CLAIM)
    done, _ = told(claimed, PUBLISH)
    recovered = missing_events(done, fold(stamped(notes)), CASES)
    assert [note.event for note in recovered] == ["shard.completed"]
    assert fold(stamped(notes))["shard-0"] == ShardState(state="leased", worker="w1", version=1)
