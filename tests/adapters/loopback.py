"""An HTTP server on the loopback that does exactly what a test says, byte by byte.

Plain asyncio, so that a test can break off a reply, hold it back or cut it anywhere; no HTTP
library stands between the test's bytes and the client's socket.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine; nothing on the loopback takes as long as the bound."""

    async def bounded() -> Result:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """The server's side of one connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.closed = False

    async def send(self, data: bytes) -> None:
        """Put bytes on the wire now, in one write."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a whole reply; the connection stays open."""
        lines = [
            f"HTTP/1.1 {status} Said",
            f"content-type: {content_type}",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def begin(self, *, status: int = 200, content_type: str = "text/event-stream") -> None:
        """Send the head of a chunked reply."""
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: {content_type}\r\n"
        await self.send(head.encode() + b"transfer-encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the reply."""
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def hang_up(self) -> None:
        """Close the connection in the ordinary way."""
        self.closed = True
        self._writer.close()

    def reset(self) -> None:
        """Break the connection: the client's socket sees a reset."""
        self.closed = True
        link = self._writer.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Handler = Callable[[Received, Wire], Awaitable[None]]


class Loopback:
    """Serves with a handler; keeps what it received. Open it with `async with`."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.received: list[Received] = []
        self.most_at_once = 0
        self.connections = 0
        self._at_once = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        link = writer.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not wire.closed:
                received = await _receive(reader)
                self.received.append(received)
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    await self.handler(received, wire)
                finally:
                    self._at_once -= 1
        writer.close()


async def _receive(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


def answer(text: str, **more: Any) -> bytes:
    """Write a whole chat completion; `more` stands beside the choices."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    choice["finish_reason"] = more.pop("finish_reason", "stop")
    if "logprobs" in more:
        choice["logprobs"] = more.pop("logprobs")
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    body = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]}
    return json.dumps({**body, "usage": usage, **more}).encode()


def saying(text: str) -> Handler:
    """Make a handler that gives one answer to everything."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(answer(text))

    return handle
