"""Make an endpoint of a plain model adapter: an object with an id and `generate`."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from farm.adapters.protocol import ModelAdapter
from farm.core.generation import Generation, Request
from farm.core.task import TaskSpec
from farm.errors import SpecError


class LiftedEndpoint:
    """Calls an adapter's `generate`, in a thread of its own pool unless it is a coroutine.

    The request names the prompt and the task; the digest therefore stands for the answer as
    long as `version` does: change it when the adapter changes. A task is handed to the adapter
    as it was given to `request`, so a request must be sent by the endpoint that made it.
    """

    def __init__(
        self, adapter: ModelAdapter, *, name: str = "", version: str = "", threads: int = 8
    ) -> None:
        self._adapter = adapter
        self._name = name or adapter.model_id
        self._version = version
        self._threads = threads
        self._tasks: dict[str, TaskSpec] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._is_async = inspect.iscoroutinefunction(adapter.generate)
        self._takes_sample = "sample" in inspect.signature(adapter.generate).parameters

    @property
    def model_id(self) -> str:
        """The name the models file gives, or else the adapter's."""
        return self._name

    async def __aenter__(self) -> Self:
        if not self._is_async:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            # a thread cannot be stopped; one that is busy ends with its call
            self._pool.shutdown(wait=error is None, cancel_futures=True)
            self._pool = None

    def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Request:
        """Say what the adapter would be given."""
        self._tasks[task.task_id] = task
        return Request(
            model_id=self._name,
            model_version=self._version,
            base_url="",
            body={"prompt": prompt, "task": task.task_id},
            sample=sample,
            task=task.task_id,
        )

    async def send(self, request: Request) -> Generation:
        """Let the adapter answer; raises SpecError when what it gives is no generation."""
        task = self._tasks[request.task]
        prompt = request.body["prompt"]
        more = {"sample": request.sample} if self._takes_sample else {}
        if self._is_async:
            given = await self._adapter.generate(prompt, task, **more)  # type: ignore[misc]
        else:
            loop = asyncio.get_running_loop()
            given = await loop.run_in_executor(
                self._pool,
                lambda: self._adapter.generate(prompt, task, **more),
            )
            if inspect.isawaitable(given):  # a plain function that returns a coroutine
                given = await given
        if not isinstance(given, Generation):
            raise SpecError(
                f"model {self._name!r}: generate gave {type(given).__name__}, not a Generation"
            )
        return given
