"""Where an asking worker keeps its work: shards that were begun, and the trials at each model."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from farm.adapters.protocol import Call, Model
from farm.core.generation import Generation
from farm.core.message import Assignment, ModelPulse
from farm.core.result import counts
from farm.core.trial import Trial
from farm.scoring.trial import Verdict


@dataclass(slots=True, kw_only=True)
class OpenShard:
    """A shard that was begun: what is known of each of its trials."""

    assignment: Assignment
    trials: Sequence[Trial]
    answers: list[Generation | None]
    verdicts: list[Verdict | None]
    left: int


class Place(NamedTuple):
    """A trial of a shard that was begun."""

    shard: OpenShard
    number: int
    trial: Trial
    call: Call


class Desk:
    """A model, and how far this process has come with it."""

    def __init__(self, model: Model, *, limit: int, answered: bool = False) -> None:
        self.model = model
        self.answered = answered  # whether it ever did, in this run
        self.waiting: deque[Place] = deque()
        self.askers = 0  # tasks that ask what is waiting, one trial after another
        self.done = 0
        self.scored = 0
        self.score = 0.0
        self.busy = 0
        self._limit = limit

    @property
    def has_seat(self) -> bool:
        """Whether one more task may ask."""
        return self.askers < self._limit

    @property
    def room(self) -> int:
        """How many more should wait: answers come in groups, and so do the seats they free."""
        return max(0, 2 * self._limit - self.askers - len(self.waiting))

    def count(self, verdict: Verdict) -> None:
        """Take note of a verdict."""
        result = verdict[0]
        self.done += 1
        if counts(result.outcome):
            self.scored += 1
            self.score += result.score

    def pulse(self) -> ModelPulse:
        """Say how far it is."""
        return ModelPulse(
            done=self.done,
            scored=self.scored,
            score=self.score,
            in_flight=self.model.in_flight,
            concurrency=self.model.concurrency,
            busy=self.busy,
        )
