"""Short ways to the values that tests of adapters are full of."""

from __future__ import annotations

from typing import Any

import msgspec

from farm.adapters.settings import OpenAISettings
from farm.core.event import Note
from farm.core.generation import Request
from farm.core.task import TaskSpec


def task(id: str = "t1", **more: Any) -> TaskSpec:
    """Make a task that any adapter can be asked."""
    fields: dict[str, Any] = {
        "category": "open",
        "prompt": "What is two and two?",
        "targets": ("4",),
        "metric_name": "exact_match",
        "post_process": "none",
    }
    return TaskSpec(task_id=id, **{**fields, **more})


def openai_settings(url: str, **more: Any) -> OpenAISettings:
    """Make settings of a model at a loopback server."""
    fields = {"adapter": "openai", "base_url": f"{url}/v1", "model": "m", **more}
    return msgspec.convert(fields, OpenAISettings)


def request(sample: int = 0, **more: Any) -> Request:
    """Make a request."""
    fields: dict[str, Any] = {
        "model_id": "model",
        "model_version": "",
        "base_url": "http://127.0.0.1:1/v1",
        "body": {"model": "m", "prompt": "p"},
        "sample": sample,
        "task": "t1",
    }
    return Request(**{**fields, **more})


class Heard:
    """Hears events and keeps them."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def __call__(self, noted: Note) -> None:
        self.notes.append(noted)

    @property
    def names(self) -> list[str]:
        return [noted.event for noted in self.notes]


class Clock:
    """A clock that stands still until somebody sleeps by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
