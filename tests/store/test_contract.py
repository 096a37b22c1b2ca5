"""Both stores keep the contract, and the same history leads both to the same end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.core.change import Change, Claim, Fail, Publish, Release, Renew, Requeue
from tests.contract.homes import DirectoryHome, Home, MemoryHome
from tests.contract.store_contract import StoreContract
from tests.examples import plan_of, reference


class TestDirectoryStore(StoreContract):
    @pytest.fixture
    def home(self, tmp_path: Path) -> Iterator[Home]:
        home = DirectoryHome(tmp_path / "store", plan_of(3))
        yield home
        home.close()


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def home(self) -> Home:
        return MemoryHome(plan_of(3))


_held = {
    "shard": st.sampled_from(["shard-0", "shard-1"]),
    "worker": st.sampled_from(["w1", "w2"]),
    "version": st.integers(1, 3),
}
_changes = st.one_of(
    st.builds(Claim, worker=st.sampled_from(["w1", "w2"]), ttl=st.integers(1, 50)),
    st.builds(Renew, **_held, ttl=st.integers(1, 50)),
    st.builds(Release, **_held, reason=st.just("drained")),
    st.builds(Fail, **_held, max_attempts=st.just(2), reason=st.just("died")),
    st.builds(Publish, **_held, receipt=st.sampled_from([reference("a"), reference("b")])),
    st.builds(Requeue, shard=_held["shard"]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.lists(_changes, max_size=3), st.booleans(), st.booleans())))
def test_a_directory_ends_where_memory_ends_whoever_commits_and_however_often_it_is_reopened(
    history: list[tuple[list[Change], bool, bool]],
) -> None:
    """The memory store is the plainest statement of what a store does."""
    with tempfile.TemporaryDirectory() as folder:
        home, memory = DirectoryHome(Path(folder) / "store", plan_of(2)), MemoryHome(plan_of(2))
        plain, handles = memory.open(), [home.open(), home.open()]
        for changes, second, reopen in history:
            home.clock.now = memory.clock.now = memory.clock.now + 10
            if reopen:
                handles[second] = home.open()
            ours, theirs = handles[second].commit(changes), plain.commit(changes)
            assert [str(outcome) for outcome in ours.outcomes] == [
                str(outcome) for outcome in theirs.outcomes
            ]
        assert replace(handles[0].ledger(), previous="") == plain.ledger()
        assert [(event.seq, event.event, event.fields) for event in handles[1].events()] == [
            (event.seq, event.event, event.fields) for event in plain.events()
        ]
        home.close()
