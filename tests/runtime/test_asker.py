"""The loop that asks: what goes wrong over one trial costs that trial and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.lift import LiftedEndpoint
from farm.adapters.settings import Common
from farm.core.change import Claim
from farm.core.generation import Generation
from farm.core.message import Assignment, Batch, Message, Returned, Scored
from farm.core.task import TaskSpec
from farm.errors import FarmError, SandboxLost, SpecError, StorageError
from farm.runtime.asked import tasks_of
from farm.runtime.asker import Asker
from farm.scoring.trial import TrialJudge, Verdict
from farm.store.directory import DirectoryStore
from farm.wiring_eval import Selection, ensure_evaluation
from tests.eval.asking import mocks, write_tasks

Answer = Callable[[TaskSpec], Generation]
Judge = Callable[[str, TaskSpec, Generation], Verdict]


def right(task: TaskSpec) -> Generation:
    return Generation("right")


class Adapter:
    model_id = "rule_based"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        return self.answer(task)


class Waits(Adapter):
    async def generate(self, prompt: str, task: TaskSpec) -> Generation:  # type: ignore[override]
        await asyncio.sleep(0)
        return self.answer(task)


def ask(folder: Path, adapter: Adapter, judge: Judge, *, accept: bool = False) -> list[Message]:
    """Ask eight tasks, a shard each, as one worker does; give what it says."""
    path = str(folder / "store")
    selection = Selection(
        tasks=write_tasks(folder, 8), models=mocks(folder), names=("rule_based",), shards=64
    )
    ensure_evaluation(path, selection, on_events=lambda events: None)
    said: list[Message] = []

    async def story(store: DirectoryStore) -> None:
        claim = Claim(worker="w", ttl=60_000, limit=64, incarnation="")
        outcome = store.commit([claim]).outcomes[0]
        assert not isinstance(outcome, FarmError)

        async def batches() -> AsyncIterator[Batch]:
            yield Batch(
                assignments=tuple(
                    Assignment(shard=one.shard, version=one.version, until=one.until)
                    for one in outcome
                )
            )

        endpoint = LiftedEndpoint(adapter)
        async with ComposedModel(endpoint, Common(adapter="test"), Surroundings()) as model:
            asker = Asker(
                store,
                tasks=tasks_of(store),
                models={"rule_based": model},
                limits={"rule_based": 8},
                judge=judge,  # type: ignore[arg-type]  # whoever judges so
                worker_pid=1,
                say=said.append,
                accept_errors=accept,
            )
            async with asyncio.timeout(20):
                await asker.run(batches())

    with DirectoryStore(path) as store:
        asyncio.run(story(store))
    return said


def raising(error: BaseException) -> Callable[[TaskSpec], Generation]:
    def answer(task: TaskSpec) -> Generation:
        if task.task_id == "t3":
            raise error
        return right(task)

    return answer


def judging(error: Exception) -> Judge:
    usual = TrialJudge()

    def judge(id: str, task: TaskSpec, answer: Generation) -> Verdict:
        if task.task_id == "t3" and answer.failure is None:
            raise error
        return usual(id, task, answer)

    return judge


FAULTS: list[tuple[str, Adapter, Judge]] = [
    ("SpecError: odd", Adapter(raising(SpecError("odd"))), TrialJudge()),
    ("CancelledError", Waits(raising(asyncio.CancelledError())), TrialJudge()),
    ("ZeroDivisionError: odd", Adapter(right), judging(ZeroDivisionError("odd"))),
    ("SandboxLost: odd", Adapter(right), judging(SandboxLost("odd"))),
]


@pytest.mark.parametrize(("word", "adapter", "judge"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_over_one_trial_gives_back_its_shard_and_no_other(
    word: str, adapter: Adapter, judge: Judge, tmp_path: Path
) -> None:
    """Of eight shards, one trial each, seven are published; the eighth names what was raised."""
    said = ask(tmp_path, adapter, judge)
    (returned,) = [one for one in said if isinstance(one, Returned)]
    assert "rule_based|t3|0" in returned.reason
    assert word in returned.reason
    published = {one.shard for one in said if isinstance(one, Scored)}
    assert returned.shard not in published
    assert sum(one.receipt.total for one in said if isinstance(one, Scored)) == 7


def test_a_request_that_cannot_be_made_is_that_trials_failure(tmp_path: Path) -> None:
    """A request may be refused before anything is sent, as a text with half a character is."""

    class Picky(LiftedEndpoint):
        def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Any:
            if task.task_id == "t3":
                raise SpecError("odd")
            return super().request(prompt, task, sample=sample)

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(globals(), "LiftedEndpoint", Picky)
        said = ask(tmp_path, Adapter(right), TrialJudge())
    (returned,) = [one for one in said if isinstance(one, Returned)]
    assert "SpecError: odd" in returned.reason
    assert sum(one.receipt.total for one in said if isinstance(one, Scored)) == 7


def test_a_fault_that_is_accepted_is_an_error(tmp_path: Path) -> None:
    """With errors accepted as they are, all is published: seven verdicts and an error."""
    said = ask(tmp_path, Adapter(right), judging(ZeroDivisionError("odd")), accept=True)
    assert not any(isinstance(one, Returned) for one in said)
    outcomes = [one.receipt.outcomes for one in said if isinstance(one, Scored)]
    assert sum(found.get("error", 0) for found in outcomes) == 1
    assert sum(found.get("correct", 0) for found in outcomes) == 7


@pytest.mark.parametrize("error", [MemoryError(), StorageError(path="p", reason="full")])
def test_what_concerns_the_run_ends_it(error: Exception, tmp_path: Path) -> None:
    """No later trial would fare better."""
    with pytest.raises(BaseExceptionGroup) as caught:
        ask(tmp_path, Adapter(right), judging(error))
    assert caught.value.subgroup(type(error)) is not None
