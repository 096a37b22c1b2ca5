"""The loop of an evaluation in one process, without a store: ask, judge, record.

Nothing is resumed and nothing is retried here; whoever wants that runs `farm eval`. What the
rows amount to is the report's business.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock, Thread
from types import TracebackType
from typing import Final

import msgspec

from farm.adapters.protocol import ModelAdapter
from farm.core.generation import Generation, failed, flaw_of, told_of
from farm.core.result import CaseResult, counts
from farm.core.task import TaskSpec, render_prompt
from farm.core.trial import Trial
from farm.errors import SpecError
from farm.runtime.answered import Judge
from farm.scoring.registry import scorer
from farm.stats.evalrun import EvalRun

_SHOWN: Final = 500  # characters of a foreign error
Job = tuple[ModelAdapter, TaskSpec, int]  # who is asked what, and the sample


def ask_in_order(jobs: Sequence[Job], judge: Judge) -> list[EvalRun]:
    """Ask one after the other, in the order given, plain adapters in this thread."""
    with _Waiter() as waiter:
        return [_row(job, waiter, judge) for job in jobs]


def ask_at_once(jobs: Sequence[Job], judge: Judge, *, threads: int) -> list[EvalRun]:
    """Ask from several threads; rows come in the order of the jobs."""
    with _Waiter() as waiter, ThreadPoolExecutor(threads, thread_name_prefix="eval") as pool:
        rows = [pool.submit(_row, job, waiter, judge) for job in jobs]
        try:
            return [row.result() for row in rows]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Waiter(AbstractContextManager["_Waiter"]):
    """Waits for coroutines of adapters, on a loop of their own that begins with the first.

    So clients that adapters keep stay on one loop, and the caller may have one running itself.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._lock = Lock()

    def __call__(self, given: Awaitable[object]) -> object:
        """Give what the coroutine gives."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
        value, error = asyncio.run_coroutine_threadsafe(_awaited(given), self._loop).result()
        if error is not None:
            raise error
        return value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _awaited(given: Awaitable[object]) -> tuple[object, BaseException | None]:
    """Wait, and hand over what is raised as a value: some of it would end the loop of all."""
    try:
        return await given, None
    except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
        return None, error


def _row(job: Job, waiter: _Waiter, judge: Judge) -> EvalRun:
    """Ask, with the time it took; judge; record."""
    adapter, task, sample = job
    began = time.perf_counter()
    try:
        given = _call(adapter, task, sample)
        if inspect.isawaitable(given):
            given = waiter(given)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  an adapter is foreign code; the trial is an error
        given = failed("program", f"{type(error).__name__}: {error}"[:_SHOWN])
    elapsed_s = round(time.perf_counter() - began, 6)
    if not isinstance(given, Generation):
        raise SpecError(
            f"model {adapter.model_id!r}: generate gave {type(given).__name__}, not a Generation"
        )
    flaw = flaw_of(given)
    if flaw:
        given = failed("malformed", flaw[:_SHOWN])
    answer = msgspec.structs.replace(given, latency_s=elapsed_s)
    trial = Trial(adapter.model_id, task.task_id, sample)
    verdict, _ = judge(trial.id, task, answer)
    return _row_of(adapter.model_id, task, sample, verdict, answer)


def _call(adapter: ModelAdapter, task: TaskSpec, sample: int) -> object:
    more = {"sample": sample} if "sample" in inspect.signature(adapter.generate).parameters else {}
    return adapter.generate(render_prompt(task), task, **more)


def _row_of(
    model: str, task: TaskSpec, sample: int, verdict: CaseResult, answer: Generation
) -> EvalRun:
    """Return an answered trial as a row of statistics."""
    counted = counts(verdict.outcome)
    told: dict[str, object] = {
        "metric_version": scorer(task.metric_name).version,
        "post_process": task.post_process,
    }
    told |= told_of(answer)
    return EvalRun(
        model_id=model,
        task_id=task.task_id,
        sample=sample,
        category=task.category,
        metric_name=task.metric_name,
        score=verdict.score if counted else None,
        correct=verdict.correct if counted else None,
        outcome=verdict.outcome,
        confidence=answer.confidence,
        token_nll=answer.token_nll,
        token_count=answer.token_count,
        latency_s=answer.latency_s,
        metadata=told,
    )
