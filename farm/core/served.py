"""What a measured call brings back: the reading, and what the server said of itself, whole.

A reading holds what farm understands; the objects beside it are kept as the server sent them, so
that a figure can be questioned later. Times are farm.core.reading's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from farm.core.reading import Reading


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a served model; None is "not told", which is not empty."""

    reading: Reading
    usage: Mapping[str, Any] | None = None  # the last usage object of the answer
    timings: Mapping[str, Any] | None = None  # llama.cpp's own clock
    server_metrics: Mapping[str, Any] | None = None  # vLLM's `metrics` of a request
    tool_ids: tuple[str, ...] = ()  # as the server named its calls, in order of appearance
    reasoning_field: str = "reasoning_content"  # the server's name for reasoning
    http_status: int | None = None
    connect_s: float | None = None  # to have a connection, before the clock of the reading began


class ControlReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that is not for the model: its status and its JSON, if it is JSON."""

    status: int
    body: Any = None
    text: str = ""  # the beginning of a body that is not JSON
