"""Make an endpoint of a plain model adapter: an object with an id and `generate`."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import msgspec

from farm.adapters.protocol import ModelAdapter
from farm.core.generation import FAILURES, Generation, Request, failed, flaw_of
from farm.core.task import TaskSpec
from farm.errors import FarmError, Halted


class LiftedEndpoint:
    """Calls an adapter's `generate`, in a thread of its own pool unless it is a coroutine.

    The request holds the prompt, the whole task, which an adapter may look at, and `identity`,
    the settings that decide on answers; its digest stands for the answer as long as `version`
    does: change it when the adapter changes. A task is handed to the adapter as it was given to
    `request`, so a request must be sent by the endpoint that made it.
    """

    def __init__(
        self,
        adapter: ModelAdapter,
        *,
        name: str = "",
        version: str = "",
        threads: int = 8,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self._adapter = adapter
        self._name = name or adapter.model_id
        self._version = version
        self._threads = threads
        self._identity = dict(identity or {})
        self._tasks: dict[str, tuple[TaskSpec, dict[str, Any]]] = {}
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
        known, fields = self._tasks.get(task.task_id, (None, {}))
        if known is not task:
            fields = msgspec.to_builtins(task)
            self._tasks[task.task_id] = task, fields
        return Request(
            model_id=self._name,
            model_version=self._version,
            base_url="",
            body={"adapter": self._identity, "prompt": prompt, "task": fields},
            sample=sample,
            task=task.task_id,
        )

    async def send(self, request: Request) -> Generation:
        """Let the adapter answer; raises `Halted` when it raises, or gives no generation.

        A generation that could not be kept, or holds figures out of their range, is a failure.

        The adapter is foreign code: what goes wrong in it is for a person, and the answers that
        other models are giving meanwhile must not be lost over it. FarmErrors are its own word.
        """
        task, _ = self._tasks[request.task]
        work = asyncio.ensure_future(self._generate(request, task))
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
        error = work.exception()
        if error is None:
            given = work.result()
            if isinstance(given, Generation):
                return _checked(given)
            raise self._halted(f"generate gave {type(given).__name__}, not a Generation", task)
        if isinstance(error, FarmError) or not isinstance(error, Exception):
            raise error
        raise self._halted(f"generate raised {error!r}{_place_of(error)}", task) from error

    async def _generate(self, request: Request, task: TaskSpec) -> object:
        prompt = request.body["prompt"]
        more = {"sample": request.sample} if self._takes_sample else {}
        if self._is_async:
            return await self._adapter.generate(prompt, task, **more)  # type: ignore[misc]
        loop = asyncio.get_running_loop()
        given = await loop.run_in_executor(
            self._pool,
            lambda: self._adapter.generate(prompt, task, **more),
        )
        if inspect.isawaitable(given):  # a plain function that returns a coroutine
            return await given
        return given

    def _halted(self, detail: str, task: TaskSpec) -> Halted:
        return Halted(
            reason="adapter",
            model=self._name,
            detail=f"{detail}, on task {task.task_id!r}",
            way_out="mend the adapter, then run the same command again",
        )


def _checked(given: Generation) -> Generation:
    """Give a generation as it is, or a failure in its place when it is not as it should be."""
    flaw = flaw_of(given)
    if not flaw and given.failure is not None and given.failure.kind not in FAILURES:
        flaw = f"its failure is of no known kind: {given.failure.kind!r}"
    return failed("program", f"a bad generation: {flaw}"[:500]) if flaw else given


def _place_of(error: Exception) -> str:
    """Say where an error came up, for who wrote the adapter."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
