"""The adapter of Anthropic's messages, streamed or not."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from farm.adapters import messages
from farm.adapters.body import encode_body
from farm.adapters.exchange import Exchanged, Interface, exchange, generation_of
from farm.adapters.secret import Secret
from farm.adapters.settings import AnthropicSettings
from farm.adapters.transport import Transport
from farm.core.generation import Generation, Request
from farm.core.task import TaskSpec

_INTERFACE: Final = Interface(streamed=messages.read_event, whole=messages.read_whole)


class AnthropicEndpoint:
    """A model behind the messages interface."""

    def __init__(
        self, settings: AnthropicSettings, *, name: str, key: Secret | None = None
    ) -> None:
        self._name = name
        self._settings = settings
        self._key = key
        self._base_url = settings.base_url.rstrip("/").removesuffix("/v1")
        headers = {
            "content-type": "application/json",
            "anthropic-version": settings.version,
            **settings.headers,
        }
        if key is not None:
            headers["x-api-key"] = key.reveal()
        self._transport = Transport(
            connections=settings.concurrency,
            headers=headers,
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

    def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Request:
        """Say what would be sent for one sample of a task."""
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": settings.max_tokens,
            "messages": [{"role": "user", "content": prompt}],
        }
        if settings.system:
            body["system"] = settings.system
        body |= settings.request
        if settings.stream:
            body["stream"] = True
        return Request(
            model_id=self._name,
            model_version=settings.model_version,
            base_url=self._base_url,
            body=body,
            sample=sample,
            task=task.task_id,
        )

    async def send(self, request: Request) -> Generation:
        """Make one call; what goes wrong is a failure in the generation."""
        return generation_of(await self.exchange(request.body))

    async def exchange(self, body: dict[str, Any]) -> Exchanged:
        """Make one call and give all that was read, with its timing."""
        return await exchange(
            self._transport,
            f"{self._base_url}/v1/messages",
            encode_body(body, model=self._name),
            interface=_INTERFACE,
            streamed=bool(body.get("stream")),
            key=self._key,
        )
