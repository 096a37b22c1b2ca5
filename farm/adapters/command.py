"""Ask a program: a request on its standard input, a generation on its standard output.

One process for each call, in a session of its own, seeing only the environment variables that
the models file names. Whatever becomes of the call, nothing of its process group is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from types import TracebackType
from typing import Annotated, Any, Final, Self

import anyio
import msgspec
from msgspec import Meta

from farm.adapters.body import encode_body
from farm.adapters.settings import CommandSettings
from farm.core.generation import Generation, Request, Usage, failed
from farm.core.task import TaskSpec

MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
_LAST_WORDS_BYTES: Final = 2000
_REAP_S: Final = 5.0


class _Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program may write."""

    text: str
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    token_nll: Annotated[float, Meta(ge=0)] | None = None
    token_count: Annotated[int, Meta(ge=0)] | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    model_version: str | None = None


class CommandEndpoint:
    """A model behind a program."""

    def __init__(
        self, settings: CommandSettings, *, name: str, environment: Mapping[str, str]
    ) -> None:
        self._name = name
        self._settings = settings
        self._environment = {
            variable: environment[variable]
            for variable in settings.environment
            if variable in environment
        }

    @property
    def model_id(self) -> str:
        """The name the models file gives."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def request(self, prompt: str, task: TaskSpec, *, sample: int) -> Request:
        """Say what the program would be told, and which program."""
        told: dict[str, Any] = {
            "model": self._settings.model,
            "prompt": prompt,
            "task": {
                "task_id": task.task_id,
                "category": task.category,
                "metadata": task.metadata,
            },
            "sample": sample,
        }
        return Request(
            model_id=self._name,
            model_version=self._settings.model_version,
            base_url="",
            body={"argv": list(self._settings.argv), "request": told},
            sample=sample,
            task=task.task_id,
        )

    async def send(self, request: Request) -> Generation:
        """Run the program once; what goes wrong is a failure in the generation."""
        data = encode_body(request.body["request"], model=self._name)
        try:
            async with asyncio.timeout(self._settings.timeout_s) as limit:
                return await self._run(data)
        except TimeoutError:
            if not limit.expired():
                raise
            detail = f"the program gave no answer within {self._settings.timeout_s:g} s"
            return failed("timeout", detail)

    async def _run(self, data: bytes) -> Generation:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._settings.argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment,
                cwd=self._settings.directory or None,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            program = self._settings.argv[0]
            return failed("missing", f"{program!r} cannot be started: {error}")
        try:
            output, words = await _talk(process, data)
        finally:
            await _end(process)
        if output is None:
            return failed("oversized", f"the program wrote over {MAX_OUTPUT_BYTES} bytes")
        return _generation_of(output, words, code=process.returncode)


async def _talk(process: Process, data: bytes) -> tuple[bytes | None, bytes]:
    """Write the request and read what comes, until the program is done.

    Gives its output, None when that was over the bound, and its last words.
    """
    async with asyncio.TaskGroup() as group:
        words = group.create_task(_last_words(process))
        group.create_task(_write(process, data))
        output = await _read_all(process)
        if output is None:
            _kill_group(process)
        await process.wait()
        # a child that was left behind may hold the pipe open for ever
        _kill_group(process)
    return output, words.result()


async def _write(process: Process, data: bytes) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    # a program that does not want to hear it all is free to go
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(data)
        await stdin.drain()
        stdin.close()


async def _read_all(process: Process) -> bytes | None:
    parts, size = [], 0
    while process.stdout is not None and (part := await process.stdout.read(65536)):
        size += len(part)
        if size > MAX_OUTPUT_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


async def _last_words(process: Process) -> bytes:
    tail = b""
    while process.stderr is not None and (part := await process.stderr.read(65536)):
        tail = (tail + part)[-_LAST_WORDS_BYTES:]
    return tail


async def _end(process: Process) -> None:
    """Kill the whole group and reap the program, also when we are being cancelled."""
    _kill_group(process)
    with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_S):
        await process.wait()


def _kill_group(process: Process) -> None:
    # PermissionError is what macOS says of a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _generation_of(output: bytes, words: bytes, *, code: int | None) -> Generation:
    said = words.decode("utf-8", "replace").strip()
    if code != 0:
        return failed("program", f"the program ended with {code}: {said[-500:]!r}")
    try:
        told = _decoder.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        seen = output[:80]
        return failed("malformed", f"the program wrote no generation: {error}: {seen!r}")
    return Generation(
        told.text,
        told.confidence,
        told.token_nll,
        told.token_count,
        confidence_source=None if told.confidence is None else "reported",
        usage=told.usage,
        finish_reason=told.finish_reason,
        model_version=told.model_version,
    )


_decoder = msgspec.json.Decoder(_Told)
