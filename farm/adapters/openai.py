"""The adapter of chat completions and completions, at any base URL, streamed or not.

Speaks the wire format itself, so it meets what vLLM, SGLang, llama.cpp and Ollama really send.
"""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from farm.adapters import chat
from farm.adapters.body import encode_body
from farm.adapters.exchange import Exchanged, Interface, exchange, generate, generation_of
from farm.adapters.secret import Secret
from farm.adapters.settings import OpenAISettings
from farm.adapters.transport import Transport
from farm.core.generation import Failure, Generation, Request
from farm.core.task import TaskSpec

_INTERFACE: Final = Interface(
    streamed=chat.read_event, whole=chat.read_whole, ordinary=chat.read_ordinary
)
_PATHS: Final = {"chat": "/chat/completions", "completions": "/completions"}
_NO_DONE: Final = Failure(
    kind="cut",
    detail="the answer broke off: it came without the [DONE] that this endpoint sends",
)


class OpenAIEndpoint:
    """A model behind an OpenAI-style interface.

    Some servers never send the [DONE] that ends a stream, and their answers are taken with a
    warning. One that has sent it once ends every answer with it: a later stream that closes
    cleanly before its [DONE] was cut, also behind a finish reason, and is a failure.
    """

    def __init__(self, settings: OpenAISettings, *, name: str, key: Secret | None = None) -> None:
        self._name = name
        self._settings = settings
        self._key = key
        self._sends_done = False  # whether a streamed answer has ended with [DONE]
        self._base_url = settings.base_url.rstrip("/")
        self._url = self._base_url + _PATHS[settings.api]
        headers = {"content-type": "application/json", **settings.headers}
        if key is not None:
            headers["authorization"] = f"Bearer {key.reveal()}"
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
        return Request(
            model_id=self._name,
            model_version=self._settings.model_version,
            base_url=self._base_url,
            body=self.body(prompt, sample=sample),
            sample=sample,
            task=task.task_id,
        )

    def body(self, prompt: str, *, sample: int = 0) -> dict[str, Any]:
        """Build the whole body of a request."""
        settings = self._settings
        body: dict[str, Any] = {"model": settings.model}
        if settings.api == "chat":
            system = [{"role": "system", "content": settings.system}] if settings.system else []
            body["messages"] = [*system, {"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        body |= settings.request
        if settings.seed is not None:
            body["seed"] = settings.seed + sample
        if settings.logprobs:
            # completions want the number of alternatives; none is enough for the chosen token
            body["logprobs"] = True if settings.api == "chat" else 1
        if settings.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    async def send(self, request: Request) -> Generation:
        """Make one call; what goes wrong is a failure in the generation."""
        if request.body.get("stream"):
            return generation_of(await self.exchange(request.body))
        return await generate(
            self._transport,
            self._url,
            encode_body(request.body, model=self._name),
            interface=_INTERFACE,
            key=self._key,
        )

    async def exchange(self, body: dict[str, Any]) -> Exchanged:
        """Make one call and give all that was read, with its timing."""
        streamed = bool(body.get("stream"))
        exchanged = await exchange(
            self._transport,
            self._url,
            encode_body(body, model=self._name),
            interface=_INTERFACE,
            streamed=streamed,
            key=self._key,
        )
        return self._judged(exchanged) if streamed else exchanged

    def _judged(self, exchanged: Exchanged) -> Exchanged:
        """Hold a streamed answer to the way this endpoint has ended others."""
        warnings = exchanged.reading.warnings
        if exchanged.reading.status != "ok" or "not_streamed" in warnings:
            return exchanged
        if "no_done" not in warnings:
            self._sends_done = True
        elif self._sends_done:
            return replace(exchanged, failure=_NO_DONE)
        return exchanged
