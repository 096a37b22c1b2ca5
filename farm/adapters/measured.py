"""A served model under measurement: streamed calls with honest stamps, and plain control calls.

The clock starts when a connection stands, just before the first byte of the request is written,
so opening connections is told apart from waiting for the model. Bytes are stamped when they
are read, before anything looks into them. What the answer means is read by farm.adapters.stream.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec
import orjson

from farm.adapters import chat, responses
from farm.adapters.collect import Collector, mend
from farm.adapters.exchange import masked_reading
from farm.adapters.foreign import bare_error_in, list_in, object_in, read_object, storable, text_in
from farm.adapters.secret import Secret, quoted, shown
from farm.adapters.sse import SseEvent
from farm.adapters.stream import (
    STREAM_TYPES,
    BrokenStream,
    Dialect,
    Stamped,
    not_a_stream,
    read_stream,
)
from farm.adapters.transport import reason_of
from farm.core.reading import Reading, Timing
from farm.core.served import ControlReply, Served

MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
MAX_CONTROL_BYTES: Final = 64 * 1024 * 1024  # the tokens of a long prompt are a long list
_ERROR_BYTES: Final = 64 * 1024
_READ_BUFFER: Final = 1024 * 1024  # a small buffer pauses the socket in mid-stream
_PATHS: Final = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses"}
_DIALECTS: Final[Mapping[str, Dialect]] = {
    "chat_completions": chat.read_event,
    "responses": responses.read_event,
}
_KEPT: Final = (b'"usage"', b'"timings"', b'"metrics"', b'"tool_calls"', b'"call_id"')
# what an answer in one piece may be and still not be what was asked for
_ANSWERED: Final = frozenset({"ok", "empty", "no_visible_output"})


class MeasuredEndpoint:
    """One server; open it with `async with`. Speaks to `url` and nothing else.

    Redirects are not followed, proxies and credentials of the environment are not looked at.
    At most `connections` sockets are open, which must not be fewer than the calls at a time:
    waiting for a socket would look like waiting for the server.
    """

    def __init__(
        self, url: str, *, connections: int, timeout_s: float, key: Secret | None = None
    ) -> None:
        base = url.rstrip("/")
        for tail in ("/chat/completions", "/responses", "/v1"):
            base = base.removesuffix(tail)
        self._base = base
        self._connections = connections
        self._timeout_s = timeout_s
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        self._session = aiohttp.ClientSession(
            # a connection a call: some servers close theirs behind a stream, and the next call
            # would be lost on it; opening one is outside the clock
            connector=aiohttp.TCPConnector(limit=self._connections + 2, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            trust_env=False,
            read_bufsize=_READ_BUFFER,
            trace_configs=[_connection_trace()],
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def stream(self, body: bytes, *, protocol: str, request_id: str) -> Served:
        """Make one streamed call; whatever goes wrong is a status of the reading."""
        clock = SimpleNamespace(asked=time.perf_counter(), began=None)
        try:
            async with self._opened.post(
                self._base + _PATHS[protocol],
                data=body,
                headers={
                    "X-Request-Id": request_id,
                    "Accept": "text/event-stream",
                    # what compresses a stream holds events back
                    "Accept-Encoding": "identity",
                },
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=10.0),
                trace_request_ctx=clock,
            ) as response:
                return self._masked(await self._read(response, protocol, clock))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            elapsed = time.perf_counter() - (clock.began or clock.asked)
            reading = Reading(
                status="error",
                error=shown(_reason(error), self._key, most=300),
                error_code="timeout" if isinstance(error, TimeoutError) else "connection",
                timing=Timing(elapsed_s=elapsed),
            )
            return self._masked(Served(reading=reading, connect_s=_connect_s(clock)))

    async def control(
        self, method: str, path: str, body: object = None, *, timeout_s: float = 30.0
    ) -> ControlReply:
        """Ask the server something that is not for the model; status 0 when there is no reply.

        The key is taken out of whatever comes back.
        """
        data = None if body is None else orjson.dumps(body)
        try:
            async with self._opened.request(
                method,
                self._base + path,
                data=data,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=10.0),
            ) as response:
                raw = await _bounded(response, MAX_CONTROL_BYTES)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return ControlReply(status=0, text=shown(_reason(error), self._key, most=300))
        try:
            body = orjson.loads(raw)
            if self._key is not None:
                body = self._key.masked_json(body)
            return ControlReply(status=response.status, body=body)
        except orjson.JSONDecodeError:
            text = raw.decode("utf-8", "replace")
            if self._key is not None:
                text = self._key.masked_raw(text)
            return ControlReply(status=response.status, text=text[:300])

    @property
    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the endpoint is used outside its `async with`")
        return self._session

    async def _read(
        self, response: aiohttp.ClientResponse, protocol: str, clock: SimpleNamespace
    ) -> Served:
        connect_s = _connect_s(clock)
        began = clock.began or clock.asked
        if not 200 <= response.status < 300:
            return await _refused(response, connect_s, began, self._key)
        if response.content_type not in STREAM_TYPES:
            return await _not_a_stream(response, protocol, connect_s, began, self._key)
        kept = _Kept(_DIALECTS[protocol])
        reading = await read_stream(_reads(response, began), kept.take, key=self._key)
        return Served(
            reading=reading,
            usage=kept.usage,
            timings=kept.timings,
            server_metrics=kept.metrics,
            tool_ids=tuple(kept.tool_ids),
            reasoning_field=kept.reasoning_field or "reasoning_content",
            http_status=response.status,
            connect_s=connect_s,
        )

    def _masked(self, served: Served) -> Served:
        """Take the key out of what the server said: some quote it back, even as an answer.

        The ids of tool calls stay: they are sent back to the server, and stand in no file.
        """
        if self._key is None:
            return served
        return msgspec.structs.replace(
            served,
            reading=masked_reading(served.reading, self._key),
            usage=self._key.masked_json(served.usage),
            timings=self._key.masked_json(served.timings),
            server_metrics=self._key.masked_json(served.server_metrics),
        )


class _Kept:
    """A dialect that also keeps the server's own objects and the ids of tool calls."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.usage: Mapping[str, Any] | None = None
        self.timings: Mapping[str, Any] | None = None
        self.metrics: Mapping[str, Any] | None = None
        self.tool_ids: list[str] = []
        self.reasoning_field = ""

    def take(self, event: SseEvent, out: Any) -> None:  # noqa: ANN401  a Collector, or its stand-in
        """Read an event for the dialect, then for what is kept."""
        self._dialect(event, out)
        # a second look costs as much as the first: only events that may hold something get it
        words = _KEPT if self.reasoning_field else (*_KEPT, b'"reasoning')
        if any(word in event.data for word in words):
            value = read_object(event.data.strip())
            if value is not None:
                self._keep(value)

    def _keep(self, found: Mapping[str, Any]) -> None:
        value = storable(found) or {}
        inner = object_in(value, "response")
        self.usage = object_in(value, "usage") or object_in(inner, "usage") or self.usage
        self.timings = object_in(value, "timings") or object_in(inner, "timings") or self.timings
        self.metrics = object_in(value, "metrics") or object_in(inner, "metrics") or self.metrics
        for choice in list_in(value, "choices")[:1]:
            delta = object_in(choice, "delta")
            if not self.reasoning_field:
                names = ("reasoning_content", "reasoning")
                self.reasoning_field = next((name for name in names if text_in(delta, name)), "")
            for call in list_in(delta, "tool_calls"):
                self._name(text_in(call, "id") if isinstance(call, Mapping) else "")
        if text_in(value, "type") in ("response.output_item.added", "response.output_item.done"):
            self._name(text_in(object_in(value, "item"), "call_id"))

    def _name(self, id: str) -> None:
        if id and id not in self.tool_ids:
            self.tool_ids.append(id)


def _connection_trace() -> aiohttp.TraceConfig:
    """Note when a connection stands."""

    async def stands(session: object, context: SimpleNamespace, params: object) -> None:
        clock = context.trace_request_ctx
        if clock is not None:
            clock.began = time.perf_counter()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(stands)
    return trace


def _connect_s(clock: SimpleNamespace) -> float | None:
    return None if clock.began is None else float(clock.began - clock.asked)


async def _reads(response: aiohttp.ClientResponse, began: float) -> AsyncIterator[Stamped]:
    total = 0
    try:
        async for data in response.content.iter_any():
            at = time.perf_counter() - began
            total += len(data)
            if total > MAX_STREAM_BYTES:
                reason = f"the answer is longer than {MAX_STREAM_BYTES} bytes"
                raise BrokenStream(reason, at=at, status="oversized")
            yield at, data
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        at = time.perf_counter() - began
        timed_out = isinstance(error, TimeoutError)
        raise BrokenStream(_reason(error), at=at, timed_out=timed_out) from error


async def _refused(
    response: aiohttp.ClientResponse, connect_s: float | None, began: float, key: Secret | None
) -> Served:
    data = await _bounded(response, _ERROR_BYTES)
    value = read_object(data)
    message, code = bare_error_in(value) if value is not None else ("", "")
    if 300 <= response.status < 400:
        target = shown(mend(response.headers.get("location", "")), key, most=200)
        message = f"redirects to {target!r}, which is not followed: set url to it"
    message = message or quoted(data, key, most=200)
    reading = Reading(
        status="error",
        error=shown(mend(message), key, most=500),
        error_code=shown(mend(code), key, most=100) or str(response.status),
        timing=Timing(elapsed_s=time.perf_counter() - began),
    )
    return Served(reading=reading, http_status=response.status, connect_s=connect_s)


async def _not_a_stream(
    response: aiohttp.ClientResponse,
    protocol: str,
    connect_s: float | None,
    began: float,
    key: Secret | None,
) -> Served:
    """Judge what came where a stream was asked for.

    What an answer in one piece says is kept. It is no measurement: its one arrival would be the
    first payload, the last and every gap.
    """
    data = await _bounded(response, MAX_CONTROL_BYTES)
    value = read_object(data)
    usage: Mapping[str, Any] | None = None
    reading = Reading(status="not_sse")
    if value is not None and protocol == "chat_completions":
        out = Collector(key=key)
        chat.read_whole(value, out)
        reading = out.reading(streamed=False)
        usage = storable(object_in(value, "usage")) or None
    if reading.status in _ANSWERED or value is None or reading.status == "malformed":
        message = not_a_stream(response.content_type, data, key=key)
        reading = msgspec.structs.replace(reading, status="not_sse", error=message)
    timing = Timing(elapsed_s=time.perf_counter() - began)
    return Served(
        reading=msgspec.structs.replace(reading, timing=timing),
        usage=usage,
        http_status=response.status,
        connect_s=connect_s,
    )


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    async for part in response.content.iter_any():
        parts.append(part)
        total += len(part)
        if total >= limit:
            break
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return "nothing came in time" if isinstance(error, TimeoutError) else reason_of(error)
