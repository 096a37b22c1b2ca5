"""Nobody waits for ever for a commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from farm.core.change import Claim
from farm.core.event import Event
from farm.errors import Busy, FarmError
from farm.files.lock import FileLock
from farm.runtime.committer import Committer
from farm.store.directory import DirectoryStore
from farm.store.memory import MemoryStore
from tests.examples import plan_of
from tests.runtime.runs import make_store


def test_a_committer_that_has_ended_refuses_instead_of_keeping_people_waiting() -> None:
    """A listener that fails ends it; what was durable by then is answered all the same."""

    def broken(events: Sequence[Event]) -> None:
        raise OSError("nobody listens")

    async def main() -> None:
        committer = Committer(MemoryStore(plan_of(), cases={}), on_events=broken)
        answers = []
        with pytest.raises(ExceptionGroup):  # noqa: PT012  the group is what raises
            async with anyio.create_task_group() as group:
                group.start_soon(committer.run)
                with anyio.CancelScope(shield=True), anyio.fail_after(5):
                    answers = await committer.commit([Claim(worker="w1", ttl=9)])
                await anyio.sleep_forever()
        assert len(answers) == 1
        with anyio.fail_after(5), pytest.raises(FarmError, match="was given up"):
            await committer.commit([Claim(worker="w2", ttl=9)])

    anyio.run(main)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[DirectoryStore, FileLock]]:
    """A store that tries for its lock for 10 ms, and somebody else who holds that lock."""
    path = make_store(tmp_path, shards=2)
    holder = FileLock(f"{path}/lock")
    holder.acquire(timeout_s=5)
    with DirectoryStore(path, lock_timeout_s=0.01) as store:
        yield store, holder
    holder.close()


def test_a_store_that_somebody_has_locked_is_waited_for_and_the_holder_is_told(
    locked: tuple[DirectoryStore, FileLock],
) -> None:
    """A worker by hand that was stopped in the middle of its commit goes on after a while."""
    store, holder = locked
    told: list[Event] = []

    def release_on_the_third_word(events: Sequence[Event]) -> None:
        told.extend(events)
        if len(told) == 3:
            holder.release()

    async def main() -> None:
        committer = Committer(store, on_events=release_on_the_third_word)
        async with anyio.create_task_group() as group:
            group.start_soon(committer.run)
            with anyio.fail_after(20):
                outcomes = await committer.commit([Claim(worker="w1", ttl=60_000)])
            assert not isinstance(outcomes[0], FarmError)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert [event.event for event in told] == ["store.awaited"] * 3 + ["shard.claimed"]
    assert f"held by process {os.getpid()}" in str(told[0].fields["reason"])


def test_a_run_that_is_to_end_waits_for_no_lock(locked: tuple[DirectoryStore, FileLock]) -> None:
    """Else every worker's last word would be waited for in turn."""
    store, _ = locked

    async def main() -> None:
        committer = Committer(store, on_events=lambda events: None)
        committer.hasty = True
        async with anyio.create_task_group() as group:
            group.start_soon(committer.run)
            for _ in range(2):
                with anyio.fail_after(5), pytest.raises(Busy, match="held by"):
                    await committer.commit([Claim(worker="w1", ttl=9)])
            group.cancel_scope.cancel()

    anyio.run(main)
