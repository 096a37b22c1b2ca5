"""What endpoints behind HTTP share: one body out, one answer back, over one transport.

An interface says where it is, how it is spoken to, and how a body is built; how answers are
read is told by its `Interface`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from farm.adapters.body import encode_body
from farm.adapters.exchange import Exchanged, Interface, exchange, generate, generation_of
from farm.adapters.secret import Secret
from farm.adapters.settings import HttpSettings
from farm.adapters.transport import Transport
from farm.core.generation import Generation, Request
from farm.core.task import TaskSpec


class HttpEndpoint(ABC):
    """A model behind an interface over HTTP; open it with `async with`.

    `base_url` stands in every request's identity; `path` is where its bodies go.
    """

    def __init__(
        self,
        settings: HttpSettings,
        *,
        name: str,
        key: Secret | None,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        interface: Interface,
    ) -> None:
        self._name = name
        self._version = settings.model_version
        self._key = Secret.within(key, settings.headers)
        self._base_url = base_url
        self._url = base_url + path
        self._interface = interface
        self._transport = Transport(
            connections=settings.concurrency,
            headers={"content-type": "application/json", **headers},
            timeout_s=settings.timeout_s,
            idle_s=settings.idle_s,
        )

    @property
    def model_id(self) -> str:
        """The name the models file gives."""
        return self._name

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    @abstractmethod
    def body(self, prompt: str, *, sample: int = 0) -> dict[str, Any]:
        """Build the whole body of a request."""

    def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Request:
        """Say what would be sent for one sample of a task."""
        return Request(
            model_id=self._name,
            model_version=self._version,
            base_url=self._base_url,
            body=self.body(prompt, sample=sample),
            sample=sample,
            task=task.task_id,
        )

    async def send(self, request: Request) -> Generation:
        """Make one call; what goes wrong is a failure in the generation."""
        if request.body.get("stream"):
            return generation_of(await self.exchange(request.body))
        return await generate(
            self._transport,
            self._url,
            encode_body(request.body, model=self._name),
            interface=self._interface,
            key=self._key,
        )

    async def exchange(self, body: dict[str, Any]) -> Exchanged:
        """Make one call and give all that was read, with its timing."""
        return await exchange(
            self._transport,
            self._url,
            encode_body(body, model=self._name),
            interface=self._interface,
            streamed=bool(body.get("stream")),
            key=self._key,
        )
