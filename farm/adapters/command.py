"""Ask a program: a request on its standard input, a generation on its standard output.

One process for each call, in a session of its own, seeing only the environment variables that
the models file names. Whatever becomes of the call, nothing of its process group is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from subprocess import PIPE
from types import TracebackType
from typing import Annotated, Any, Final, Self

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process
from msgspec import Meta

from farm.adapters.body import encode_body
from farm.adapters.settings import CommandSettings
from farm.core.generation import Generation, Request, Usage, failed, flaw_of
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
            body={
                "argv": list(self._settings.argv),
                "directory": self._settings.directory,
                "request": told,
            },
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
            process = await anyio.open_process(
                self._settings.argv,
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
        conversation = _Conversation(process)
        try:
            await conversation.hold(data)
        finally:
            await _end(process)
        if conversation.overlong:
            return failed("oversized", f"the program wrote over {MAX_OUTPUT_BYTES} bytes")
        return _generation_of(conversation.output, conversation.words, code=process.returncode)


class _Conversation:
    """What is said between us and one program."""

    def __init__(self, process: Process) -> None:
        self.output = b""
        self.words = b""  # the last ones on its standard error
        self.overlong = False
        self._process = process

    async def hold(self, data: bytes) -> None:
        """Write the request and read what comes, until the program is gone."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, data)
            group.start_soon(self._read)
            group.start_soon(self._listen)
            await self._process.wait()
            # a child that was left behind may hold the pipes open for ever
            _kill_group(self._process)

    async def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        if stdin is None:
            return
        # a program that does not want to hear it all is free to go
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stdin.send(data)
            await stdin.aclose()

    async def _read(self) -> None:
        parts, size = [], 0
        async for part in _parts(self._process.stdout):
            size += len(part)
            if size > MAX_OUTPUT_BYTES:
                self.overlong = True
                _kill_group(self._process)
                return
            parts.append(part)
        self.output = b"".join(parts)

    async def _listen(self) -> None:
        async for part in _parts(self._process.stderr):
            self.words = (self.words + part)[-_LAST_WORDS_BYTES:]


async def _parts(pipe: ByteReceiveStream | None) -> AsyncIterator[bytes]:
    if pipe is None:
        return
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for part in pipe:
            yield part


async def _end(process: Process) -> None:
    """Kill the whole group, reap the program and close the pipes, also when being cancelled."""
    _kill_group(process)
    with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_S):
        await process.aclose()


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
    generation = Generation(
        told.text,
        told.confidence,
        told.token_nll,
        told.token_count,
        confidence_source=None if told.confidence is None else "reported",
        usage=told.usage,
        finish_reason=told.finish_reason,
        model_version=told.model_version,
    )
    flaw = flaw_of(generation)
    return failed("malformed", f"a bad generation: {flaw}"[:500]) if flaw else generation


_decoder = msgspec.json.Decoder(_Told)
