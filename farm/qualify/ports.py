"""What a qualification needs of the world, each under ten methods; farm.wiring_qualify fills in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from farm.core.served import ControlReply, Served


class Endpoint(Protocol):
    """The server under measurement, opened and closed by `async with`."""

    async def stream(self, body: bytes, *, protocol: str, request_id: str) -> Served:
        """Make one streamed call; whatever goes wrong is a status of its reading."""

    async def control(
        self, method: str, path: str, body: object = None, *, timeout_s: float = 30.0
    ) -> ControlReply:
        """Ask something that is not for the model; status 0 when there is no reply."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Commands(Protocol):
    """Programs of the operator; both raise `NotPermitted` when one does not do its work."""

    async def hook(
        self,
        argv: Sequence[str],
        question: Mapping[str, Any],
        *,
        environment: Sequence[str],
        timeout_s: float,
    ) -> Mapping[str, Any]:
        """Run a hook that answers JSON with JSON; it sees the named variables alone."""

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> str:
        """Run a program and give what it prints."""


class LocalTokenizer(Protocol):
    """A tokenizer read from local files; see `farm.wiring_qualify`."""

    def count(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> int:
        """Count the tokens of a conversation under the tokenizer's own template."""


class CodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the withheld cases said of a program; `passed` is None when it was not evaluated."""

    evaluated: bool
    passed: bool | None
    reason: str | None = None
    detail: str = ""
    isolation: str = ""


class Judge(Protocol):
    """Runs the code task's withheld cases; blocks, so it belongs on a thread."""

    def __call__(self, source: str) -> CodeVerdict:
        """Judge one program; whatever it contains ends in a verdict."""


class Files(Protocol):
    """The files of a run beside its store; each write is whole and durable, or did not happen."""

    def fixture(self, request_id: str) -> bytes | None:
        """Give a fixture that was saved before."""

    def keep_fixture(self, request_id: str, data: bytes) -> None:
        """Save a fixture under its request's id."""

    def keep_cell(self, name: str, data: bytes) -> None:
        """Save the record of a cell under the name of its receipt, once."""

    def cell(self, name: str) -> bytes:
        """Give the record of a cell; raises `Corrupt` when it is not there."""

    def read(self, name: str) -> bytes | None:
        """Give a file of that name, None when there is none."""

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in place of the one of that name."""
