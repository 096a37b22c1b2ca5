"""How far an evaluation is, model by model: what was there before, and what its workers say now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from farm.core.event import Note, note
from farm.core.message import ModelPulse, Pulse
from farm.stats.evalrun import EvalRun

_TOLD_S: Final = 10.0  # between two events about progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A model at one moment; `rate` is trials a second of this invocation, `mean` None for none."""

    model: str
    done: int
    trials: int
    rate: float
    in_flight: int
    concurrency: int
    busy: int
    mean: float | None


class Tally:
    """Adds up. `clock` is monotonic seconds."""

    def __init__(self, models: Sequence[str], *, trials: int, clock: Callable[[], float]) -> None:
        """Begin at nothing; `trials` is the number of each model's trials."""
        self.cost = ""
        self._trials = trials
        self._clock = clock
        self._began = self._told = clock()
        self._before = {model: [0, 0, 0.0] for model in models}  # done, scored, sum of scores
        self._pulses: dict[str, dict[str, ModelPulse]] = {}  # worker -> model -> how far

    def add_finished(self, rows: Iterable[EvalRun]) -> None:
        """Count trials that an earlier invocation finished."""
        for row in rows:
            figures = self._before[row.model_id]
            figures[0] += 1
            if row.scored:
                figures[1] += 1
                figures[2] += row.score or 0.0

    def take(self, worker: str, pulse: Pulse) -> Sequence[Note]:
        """Take what a worker says; give the events that are due."""
        self._pulses[worker] = pulse.models
        self.cost = pulse.cost
        now = self._clock()
        if now - self._told < _TOLD_S:
            return ()
        self._told = now
        return [
            note(
                "model.progressed",
                model=one.model,
                done=one.done,
                trials=one.trials,
                rate=round(one.rate, 3),
                in_flight=one.in_flight,
                concurrency=one.concurrency,
                busy=one.busy,
                mean=0.0 if one.mean is None else round(one.mean, 6),
                cost=self.cost,
            )
            for one in self.standings()
        ]

    def ended(self, worker: str) -> None:
        """Take note that a worker is no more: what it did counts, and it has no call out."""
        self._pulses[worker] = {
            model: replace(pulse, in_flight=0, concurrency=0)
            for model, pulse in self._pulses.get(worker, {}).items()
        }

    def standings(self) -> list[Standing]:
        """Give every model's, in the order of the run."""
        elapsed = max(0.001, self._clock() - self._began)
        found: list[Standing] = []
        for model, (before, scored, score) in self._before.items():
            now = [models[model] for models in self._pulses.values() if model in models]
            done = sum(one.done for one in now)
            counted = scored + sum(one.scored for one in now)
            total = score + sum(one.score for one in now)
            found.append(
                Standing(
                    model=model,
                    done=min(self._trials, int(before) + done),
                    trials=self._trials,
                    rate=done / elapsed,
                    in_flight=sum(one.in_flight for one in now),
                    concurrency=sum(one.concurrency for one in now),
                    busy=sum(one.busy for one in now),
                    mean=total / counted if counted else None,
                )
            )
        return found
