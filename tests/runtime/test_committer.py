"""Nobody waits for ever for a commit."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from farm.core.change import Claim
from farm.core.event import Event
from farm.errors import FarmError
from farm.runtime.committer import Committer
from farm.store.memory import MemoryStore
from tests.examples import plan_of


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
