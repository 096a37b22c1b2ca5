"""The seams of this room: what an adapter is, and what the wrappers ask of stores and loops.

Everything a loop needs to know of a model stands here; which adapter it is, and what is
wrapped around it, does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from farm.core.cost import Spent
from farm.core.event import Note
from farm.core.generation import Generation, Request
from farm.core.task import TaskSpec


class Call(NamedTuple):
    """One attempt at a request, as it passes through the wrappers.

    `spent_s` is what earlier attempts at it and the pauses after them took, and not what was
    waited for a turn.
    """

    request: Request
    digest: str
    attempt: int = 1
    spent_s: float = 0.0


Pass = Callable[[Call], Awaitable[Generation]]  # a wrapper, or what it wraps
Tell = Callable[[Note], None]  # hears what happened, at once and without waiting


class ModelAdapter(Protocol):
    """The smallest surface of a model: an id that is unique in a run, and one method.

    `generate` may be a coroutine function. A plain one may block: it is called in a thread. An
    optional keyword `sample` is given to adapters that take it. When it raises, the run ends as
    pending; a model that could not answer is a Generation with a `failure`.
    """

    @property
    def model_id(self) -> str:
        """Name the model in reports."""

    def generate(self, prompt: str, task: TaskSpec) -> Generation | Awaitable[Generation]:
        """Answer a rendered prompt; `task` is for adapters that need to know more."""


class Endpoint(Protocol):
    """A model that is asked by requests, so that answers can be kept and calls counted.

    Opened and closed by `async with`. `request` is pure: the same arguments give an equal
    request, complete in all that could change the answer.
    """

    @property
    def model_id(self) -> str:
        """Name the model in reports."""

    def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Request:
        """Say what would be sent for one sample of a task."""

    async def send(self, request: Request) -> Generation:
        """Send it, once; whatever goes wrong at the endpoint is a failure in the generation."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Model(Protocol):
    """What a run loop asks: an endpoint with its wrappers, opened and closed by `async with`."""

    @property
    def model_id(self) -> str:
        """Name the model in reports."""

    @property
    def in_flight(self) -> int:
        """How many calls are out now."""

    @property
    def concurrency(self) -> int:
        """How many calls may be out now."""

    def halt(self) -> None:
        """Let no further call out; those that are out may end. What waits raises `Halted`."""

    def call(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Call:
        """Say what would be asked for one sample of a task; pure."""

    async def look_ahead(self, calls: Sequence[Call]) -> None:
        """Look up at once what will be answered soon; `answer` is then quicker, and the same."""

    def answer(self, call: Call) -> Awaitable[Generation]:
        """Answer, from the cache or by as many calls as the limits allow.

        An answer is durable, where there is a cache, before it is returned. A call that failed
        for good is a generation with a failure. Raises `Halted` when the run cannot go on.
        """


class AnswerCache(Protocol):
    """Where paid answers are kept; see farm.store.cache."""

    async def find(self, digest: str) -> Generation | None:
        """Give the answer kept under a request's digest."""

    async def find_many(self, digests: Sequence[str]) -> list[Generation | None]:
        """Give for each of many digests what `find` gives, at the price of about one."""

    async def keep(self, digest: str, generation: Generation, *, model: str) -> Generation:
        """Make an answer durable; give the one that counts, the first that was kept.

        That is `generation` itself if it is this one.
        """


class CallLedger(Protocol):
    """Where calls are counted; see farm.store.costs. Nothing here waits."""

    def begin(self, request: Request, *, digest: str, attempt: int) -> int:
        """Write down that a call is about to be made; attempts count from 1.

        The entry outlives this process once this returns.
        """

    def settle(self, call: int, generation: Generation | None) -> None:
        """Write down how it ended; None is a call that was given up."""

    def kept(self, digest: str, *, another: bool = False) -> None:
        """Write down that the answer is durable: a call for it was not wasted.

        With `another` it was, since the answer that is kept came from elsewhere.
        """

    def spent(self) -> Spent:
        """Sum up."""
