"""The adapter of chat completions and completions, at any base URL, streamed or not.

Speaks the wire format itself, so it meets what vLLM, SGLang, llama.cpp and Ollama really send.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from farm.adapters import chat
from farm.adapters.endpoint import HttpEndpoint
from farm.adapters.exchange import Exchanged, Interface
from farm.adapters.secret import Secret
from farm.adapters.settings import OpenAISettings
from farm.core.generation import Failure

_INTERFACE: Final = Interface(
    streamed=chat.read_event, whole=chat.read_whole, ordinary=chat.read_ordinary
)
_PATHS: Final = {"chat": "/chat/completions", "completions": "/completions"}
_NO_DONE: Final = Failure(
    kind="cut",
    detail="the answer broke off: it came without the [DONE] that this endpoint sends",
)


class OpenAIEndpoint(HttpEndpoint):
    """A model behind an OpenAI-style interface.

    Some servers never send the [DONE] that ends a stream, and their answers are taken with a
    warning. One that has sent it once ends every answer with it: a later stream that closes
    cleanly before its [DONE] was cut, also behind a finish reason, and is a failure.
    """

    def __init__(self, settings: OpenAISettings, *, name: str, key: Secret | None = None) -> None:
        headers = dict(settings.headers)
        if key is not None:
            headers["authorization"] = f"Bearer {key.reveal()}"
        super().__init__(
            settings,
            name=name,
            key=key,
            base_url=settings.base_url.rstrip("/"),
            path=_PATHS[settings.api],
            headers=headers,
            interface=_INTERFACE,
        )
        self._settings = settings
        self._sends_done = False  # whether a streamed answer has ended with [DONE]

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

    async def exchange(self, body: dict[str, Any]) -> Exchanged:
        """Make one call and give all that was read, with its timing."""
        exchanged = await super().exchange(body)
        return self._judged(exchanged) if body.get("stream") else exchanged

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
