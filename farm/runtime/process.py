"""A worker process as the supervisor sees it: lines in, messages out, an end that is certain."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process

from farm.core.message import (
    Batch,
    LineSplitter,
    Message,
    ProtocolError,
    decode_message,
    encode_line,
)
from farm.errors import FarmError
from farm.runtime.terminate import ask_to_end, kill

_DRAIN_S = 5.0  # for what a dead worker left in its pipe; a child of it may hold the pipe open
_LOG_LINE_BYTES = 4096


class WorkerProcess:
    """One child in a session of its own; `messages` and `log_lines` are read until they end."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._splitter = LineSplitter()

    @classmethod
    async def spawn(cls, command: Sequence[str]) -> WorkerProcess:
        """Start a worker from the event loop's thread, which PDEATHSIG is bound to.

        Raises `OSError` when the system has no process to give.
        """
        process = await anyio.open_process(
            command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def send(self, batch: Batch) -> None:
        """Hand over a batch; to a worker that is dead already, nothing happens."""
        stdin = self._process.stdin
        if stdin is not None:
            try:
                await stdin.send(encode_line(batch))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def end_input(self) -> None:
        """Say that no more work will come."""
        if self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def messages(self) -> AsyncIterator[list[Message]]:
        """Give messages as they arrive, many at a time; raises `ProtocolError` on other lines."""
        async for chunk in _chunks(self._process.stdout):
            said: list[Message] = []
            for line in self._splitter.feed(chunk):
                try:
                    said.append(decode_message(line))
                except ProtocolError:
                    if said:  # what it said before it went astray still counts
                        yield said
                    raise
            if said:
                yield said

    async def log_lines(self) -> AsyncIterator[list[str]]:
        """Give the worker's stderr line by line, as it comes; overlong lines come in pieces."""
        rest = b""
        async for chunk in _chunks(self._process.stderr):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LOG_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            yield [line[:_LOG_LINE_BYTES].decode("utf-8", "replace") for line in lines]
        if rest:
            yield [rest.decode("utf-8", "replace")]

    def ask_to_end(self) -> None:
        """Ask the worker to finish its shard and go."""
        ask_to_end(self._process)

    def kill(self) -> None:
        """Kill the worker and its group now."""
        kill(self._process)

    async def reap(self) -> int:
        """Wait for the exit of a worker that was ended or ends by itself; give its exit code."""
        return await self._process.wait()

    async def close(self) -> None:
        """Kill what is left of the group and close the pipes; never raises, never waits long."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_DRAIN_S):
            self.kill()
            await self._process.wait()
            await self._process.aclose()


def describe_exit(code: int) -> str:
    """Say how a process ended: by itself, or by which signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


class WorkerStartFailed(FarmError):
    """Workers die before they begin any shard: the fault is not in the data."""

    def __init__(self, *, reason: str, log: str) -> None:
        said = f"; its last words: {log!r}" if log else ""
        super().__init__(f"a worker process cannot start: {reason}{said}")


async def _chunks(stream: ByteReceiveStream | None) -> AsyncIterator[bytes]:
    if stream is None:
        return
    try:
        async for chunk in stream:
            yield chunk
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
