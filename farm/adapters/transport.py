"""One way to an HTTP endpoint: connections, deadlines, and bounds.

Speaks HTTP and knows no interface: it gives the status, the headers and the stamped reads of a
body. Redirects are never followed, so a key cannot be led elsewhere. Proxies and credentials of
the environment are not looked at; what is sent is what the configuration says.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import aiohttp

from farm.adapters.deadline import Deadline, Deadlines
from farm.adapters.stream import BrokenStream, Stamped

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REFUSAL_BYTES: Final = 64 * 1024
_READ_BUFFER: Final = 256 * 1024  # small buffers slow long streams down by an order
_STALE_PART: Final = 10  # connections are kept while fewer than one in so many was stale


class CallFailed(Exception):
    """A request that got no usable reply; `kind` is a word of FAILURES.

    `stale` says that it went out on a connection kept from before, which was closed then.
    """

    def __init__(self, kind: str, detail: str, *, stale: bool = False) -> None:
        self.kind = kind
        self.stale = stale
        super().__init__(detail)


class Reply(NamedTuple):
    """What came back; `reads` may be read once, within the `async with` that gave it."""

    status: int
    content_type: str
    headers: Mapping[str, str]  # matched without regard to case
    reads: AsyncIterator[Stamped]


class Whole(NamedTuple):
    """A reply that was read to its end, or, with `broken`, as far as it came."""

    status: int
    headers: Mapping[str, str]  # matched without regard to case
    data: bytes
    at: float  # when the last of it came
    reads: int
    broken: BrokenStream | None


class Transport:
    """Posts JSON to the paths below one base URL; open it with `async with`.

    `connections` bounds the sockets. A request is over after `timeout_s`; `idle_s` is the
    longest silence, `connect_s` the time for a connection. Bodies over `max_body_bytes` are
    not read on, those of refusals over `MAX_REFUSAL_BYTES`. Stamps are monotonic seconds since
    the request was handed to the socket.

    Servers close connections that we take for open, llama-server right after an answer. A
    request that met such a connection, and not one byte of a reply, is `stale`: the server may
    have taken it all the same, so whoever counts calls must know, and nothing is sent twice here.
    From a server that does so often no connection is kept any more.
    """

    def __init__(
        self,
        *,
        connections: int,
        headers: Mapping[str, str],
        timeout_s: float,
        idle_s: float,
        connect_s: float = 10.0,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._connections = connections
        self._headers = dict(headers)
        self._timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=connect_s, sock_read=idle_s
        )
        self._timeout_s = timeout_s
        self._idle_s = idle_s
        # of a reply that is fetched whole, nothing is seen before its head
        self._heads = Deadlines(min(timeout_s, idle_s))
        self._connecting = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._max_body_bytes = max_body_bytes
        self._session: aiohttp.ClientSession | None = None
        self._keeping: aiohttp.ClientSession | None = None  # closed when no call is in it
        self._used_again = 0
        self._stale = 0

    async def __aenter__(self) -> Transport:
        self._session = self._keeping = self._new_session(keep=True)
        return self

    async def __aexit__(self, *exc: object) -> None:
        sessions = {self._session, self._keeping}
        self._session = self._keeping = None
        for session in sessions:
            if session is not None:
                await session.close()

    def _new_session(self, *, keep: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                ttl_dns_cache=300,
                socket_factory=_new_socket,
                force_close=not keep,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            timeout=self._timeout,
            trust_env=False,
            read_bufsize=_READ_BUFFER,
            auto_decompress=True,
        )

    @asynccontextmanager
    async def post(self, url: str, body: bytes) -> AsyncIterator[Reply]:
        """Send a JSON body; raises `CallFailed` when no reply comes.

        A break in mid-body shows as `BrokenStream` from `reads`.
        """
        try:
            began, response = await self._send(url, body, self._timeout)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise _call_failed(error) from error
        try:
            yield Reply(
                response.status,
                response.content_type,
                response.headers,
                self._reads(response, began),
            )
        finally:
            # a body read to its end gives its connection back, any other is closed
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def fetch(self, url: str, body: bytes) -> Whole:
        """Send a JSON body and read the reply; raises `CallFailed` when none comes."""
        try:
            with Deadline(self._heads):
                began, response = await self._send(url, body, self._connecting)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise _call_failed(error) from error
        try:
            return await self._read(response, began)
        finally:
            if not response.closed:  # as it is at the end of its body, with its connection free
                response.close()

    async def _read(self, response: aiohttp.ClientResponse, began: float) -> Whole:
        """Read a body to its end, or to where it is too long, breaks off, or stops coming."""
        ok = 200 <= response.status < 300
        most = self._max_body_bytes if ok else MAX_REFUSAL_BYTES
        content, parts, length = response.content, list[bytes](), 0
        at, broken = 0.0, None
        try:
            while not content.at_eof() and length <= most:
                if content.is_eof():  # nearly always: all of it came with the head
                    parts.append(content.read_nowait())
                else:
                    parts.append(await self._wait_for_more(content, began))
                at, length = time.perf_counter() - began, length + len(parts[-1])
            if length > most:
                reason = f"the answer is longer than {most} bytes"
                broken = BrokenStream(reason, at=at, status="oversized")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            broken = _broken(error, at=time.perf_counter() - began)
        return Whole(response.status, response.headers, b"".join(parts), at, len(parts), broken)

    async def _wait_for_more(self, content: aiohttp.StreamReader, began: float) -> bytes:
        left = began + self._timeout_s - time.perf_counter()
        async with asyncio.timeout(min(self._idle_s, left)):
            return await content.readany()

    async def _send(
        self, url: str, body: bytes, bounds: aiohttp.ClientTimeout
    ) -> tuple[float, aiohttp.ClientResponse]:
        """Send until the head of a reply is there; also give when that was begun."""
        if self._session is None:
            raise RuntimeError("the transport is used outside its `async with`")
        fresh: list[int] = []
        _fresh.set(fresh)
        began = time.perf_counter()
        try:
            response = await self._session.post(
                url, data=body, allow_redirects=False, timeout=bounds
            )
        except aiohttp.ClientConnectorError:
            raise  # no name, no socket, nobody there: no connection from before was met
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, OSError) as error:
            if fresh or isinstance(error, TimeoutError):
                raise
            self._met_stale()
            raise CallFailed("connection", reason_of(error), stale=True) from error
        if not fresh:
            self._used_again += 1
        return began, response

    def _met_stale(self) -> None:
        """Count a connection found closed; keep none any more where that is no rare chance.

        A server that ends idle connections after a while meets a request in one of very many; one
        that closes behind each answer would have most requests sent twice.
        """
        self._stale += 1
        often = self._stale * _STALE_PART > self._used_again
        if often and self._session is self._keeping:
            self._session = self._new_session(keep=False)

    async def _reads(
        self, response: aiohttp.ClientResponse, began: float
    ) -> AsyncIterator[Stamped]:
        total = 0
        try:
            async for data in response.content.iter_any():
                at = time.perf_counter() - began
                total += len(data)
                if total > self._max_body_bytes:
                    reason = f"the answer is longer than {self._max_body_bytes} bytes"
                    raise BrokenStream(reason, at=at, status="oversized")
                yield at, data
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _broken(error, at=time.perf_counter() - began) from error


# The sockets made for the request that is being sent. aiohttp's own tracing could tell as much,
# and costs more than half of a request.
_fresh: ContextVar[list[int]] = ContextVar("_fresh")


def _new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    _fresh.get().append(made.fileno())
    return made


def _broken(error: Exception, *, at: float) -> BrokenStream:
    timed_out = isinstance(error, TimeoutError)
    reason = "nothing came in time" if timed_out else reason_of(error)
    return BrokenStream(reason, at=at, timed_out=timed_out)


def _call_failed(error: Exception) -> CallFailed:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return CallFailed("connection", "no connection in time")
    if isinstance(error, TimeoutError):
        return CallFailed("timeout", "no reply in time")
    if isinstance(error, (aiohttp.InvalidURL, ValueError)):
        return CallFailed("missing", f"the address cannot be used: {reason_of(error)}")
    if isinstance(error, aiohttp.ClientSSLError):
        return CallFailed("connection", f"no trusted connection: {reason_of(error)}")
    if isinstance(error, aiohttp.ClientResponseError):
        return CallFailed("malformed", f"the reply is not HTTP: {reason_of(error)}")
    return CallFailed("connection", reason_of(error))


def reason_of(error: Exception) -> str:
    """Say what a foreign error says, in one line; whoever shows it masks it, and cuts it."""
    text = str(error)
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    ):
        # its own words speak of ssl also where none is asked for
        text = f"no connection to {error.host}:{error.port}: {error.os_error.strerror or text}"
    elif isinstance(error, aiohttp.ClientResponseError):
        text = error.message  # its own words begin with a status that nobody sent
    return " ".join(text.split()) or type(error).__name__
