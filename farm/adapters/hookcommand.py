"""Run a hook: a program that is given JSON on its stdin and answers with JSON on its stdout.

It sees the variables that the configuration names and no others, runs in a session of its own
and is ended with everything it started when its time is over.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from subprocess import PIPE
from typing import Any, Final

import anyio
import orjson
from anyio.abc import ByteReceiveStream, Process

from farm.errors import NotPermitted

MAX_OUTPUT_BYTES: Final = 1024 * 1024
_SHOWN: Final = 300
_REST_S: Final = 0.5  # for what a program said before it ended and nobody has read yet
_REAP_S: Final = 5.0


async def run_hook(
    argv: Sequence[str],
    question: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Mapping[str, Any]:
    """Run one hook and return the object it answers with.

    Raises `NotPermitted`, naming the program, when it cannot be started, takes too long, exits
    with anything but 0, says more than a MiB, or answers with anything but one JSON object.
    """
    output = await run_command(
        argv, orjson.dumps(question), environment=environment, timeout_s=timeout_s
    )
    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise _unusable(argv, f"did not answer with JSON: {output[:_SHOWN]!r}") from error
    if not isinstance(answer, dict):
        raise _unusable(argv, f"did not answer with a JSON object: {output[:_SHOWN]!r}")
    return answer


async def run_command(
    argv: Sequence[str], stdin: bytes, *, environment: Mapping[str, str], timeout_s: float
) -> bytes:
    """Run a program to its end and return its stdout; raises `NotPermitted` as `run_hook` does."""
    try:
        process = await anyio.open_process(
            argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise _unusable(argv, f"cannot be started: {error}") from error
    talk = _Talk(process)
    try:
        with anyio.fail_after(timeout_s):
            await talk.hold(stdin)
    except TimeoutError as error:
        raise _unusable(argv, f"did not end within {timeout_s:g} s") from error
    finally:
        _kill_group(process)
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_S):
            await process.aclose()
    if talk.overlong:
        raise _unusable(argv, f"said more than {MAX_OUTPUT_BYTES} bytes")
    if process.returncode != 0:
        raise _unusable(argv, f"ended with {process.returncode}: {talk.words!r}")
    return bytes(talk.output)


class _Talk:
    """What is said between us and one program."""

    def __init__(self, process: Process) -> None:
        self.output = bytearray()
        self.words = b""  # the last ones on its stderr
        self.overlong = False
        self._process = process

    async def hold(self, stdin: bytes) -> None:
        """Say what there is to say and hear the program out, until it is gone."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, stdin)
            group.start_soon(self._read)
            group.start_soon(self._listen)
            await self._process.wait()
            # also what it left running
            _kill_group(self._process)
            # but not what it left in a session of its own, which may hold the pipes for ever
            group.cancel_scope.deadline = anyio.current_time() + _REST_S

    async def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        # a program that does not want to hear it all is free to go
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            if stdin is not None:
                await stdin.send(data)
                await stdin.aclose()

    async def _read(self) -> None:
        async for part in _parts(self._process.stdout):
            self.output += part
            if len(self.output) > MAX_OUTPUT_BYTES:
                self.overlong = True
                _kill_group(self._process)
                return

    async def _listen(self) -> None:
        async for part in _parts(self._process.stderr):
            self.words = (self.words + part)[-_SHOWN:]


async def _parts(pipe: ByteReceiveStream | None) -> AsyncIterator[bytes]:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if pipe is not None:
            async for part in pipe:
                yield part


def _kill_group(process: Process) -> None:
    # PermissionError is what macOS says of a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _unusable(argv: Sequence[str], what: str) -> NotPermitted:
    return NotPermitted(f"hook {' '.join(argv)!r} {what}: mend it, then run the same command again")
