"""The adapter of Anthropic's messages, streamed or not."""

from __future__ import annotations

from typing import Any, Final

from farm.adapters import messages
from farm.adapters.endpoint import HttpEndpoint
from farm.adapters.exchange import Interface
from farm.adapters.secret import Secret
from farm.adapters.settings import AnthropicSettings

_INTERFACE: Final = Interface(streamed=messages.read_event, whole=messages.read_whole)


class AnthropicEndpoint(HttpEndpoint):
    """A model behind the messages interface."""

    def __init__(
        self, settings: AnthropicSettings, *, name: str, key: Secret | None = None
    ) -> None:
        headers = {"anthropic-version": settings.version, **settings.headers}
        if key is not None:
            headers["x-api-key"] = key.reveal()
        super().__init__(
            settings,
            name=name,
            key=key,
            base_url=settings.base_url.rstrip("/").removesuffix("/v1"),
            path="/v1/messages",
            headers=headers,
            interface=_INTERFACE,
        )
        self._settings = settings

    def body(self, prompt: str, *, sample: int = 0) -> dict[str, Any]:
        """Build the whole body of a request; samples of one prompt are alike."""
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
        return body
