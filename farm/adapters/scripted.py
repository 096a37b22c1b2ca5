"""A model that does what its script says: answers, failures and waits, one step after another.

For tests and rehearsals of what stands around a model; `calls` tells what it was asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from farm.adapters.settings import Step
from farm.core.generation import Failure, Generation
from farm.core.task import TaskSpec


class ScriptedAdapter:
    """Plays steps: those of the task asked for, or else those of no task.

    A step's turn lasts for `times` calls, the last one's for ever. Steps of a task are counted
    for that task, the others for each task apart.
    """

    def __init__(self, steps: Sequence[Step], *, model_id: str = "scripted") -> None:
        self.model_id = model_id
        self.calls: list[tuple[str, int]] = []  # task and sample of every call, in order
        self._steps = steps
        self._asked: dict[str, int] = {}

    async def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Play the next step."""
        self.calls.append((task.task_id, sample))
        step = self._next(task.task_id)
        if step.delay_s:
            await asyncio.sleep(step.delay_s)
        if step.failure:
            failure = Failure(
                kind=step.failure, detail="as the script says", retry_after_s=step.retry_after_s
            )
            return Generation(step.text, failure=failure)
        return Generation(
            step.text,
            step.confidence,
            confidence_source=None if step.confidence is None else "reported",
            finish_reason="stop",
        )

    def _next(self, task: str) -> Step:
        own = [step for step in self._steps if step.task == task]
        steps = own or [step for step in self._steps if not step.task]
        if not steps:
            return Step(failure="unrecorded")
        number = self._asked.get(task, 0)
        self._asked[task] = number + 1
        for step in steps:
            if number < step.times:
                return step
            number -= step.times
        return steps[-1]
