"""Read fields of JSON that others wrote, trusting neither its shape nor its types.

Every function gives what is there if it is of the kind asked for, and nothing else: a server
that sends a number where a text belongs must not end a run. Objects are asked whether they are
`dict`, which is what decoders make: the same question of `Mapping` costs ten times as much.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import orjson

from farm.core.generation import Usage

MAX_COUNT: Final = 2**53
_PLAIN_USAGE: Final = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_EMPTY: Final[Mapping[str, Any]] = {}


def read_object(data: bytes) -> Mapping[str, Any] | None:
    """Decode a JSON object; None when it is not one.

    A lone surrogate inside a string is let through: a server may cut a pair over two chunks.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data)  # slower, and less strict about surrogates
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def object_in(value: object, name: str) -> Mapping[str, Any]:
    """Give the object under a name, an empty one when there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else _EMPTY


def list_in(value: Mapping[str, Any], name: str) -> list[Any]:
    """Give the list under a name, an empty one when there is none."""
    found = value.get(name)
    return found if isinstance(found, list) else []


def text_in(value: Mapping[str, Any], *names: str) -> str:
    """Give the first text that is not empty under one of the names, "" when there is none."""
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def count_in(value: Mapping[str, Any], *names: str) -> int | None:
    """Give the first count under one of the names, None when there is none.

    Nothing is counted beyond 2^53: sums of such numbers would leave what JSON can carry.
    """
    for name in names:
        found = value.get(name)
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_COUNT:
            return found
    return None


def number_in(value: Mapping[str, Any], name: str) -> float | None:
    """Give the finite number under a name, None when there is none."""
    found = value.get(name)
    return float(found) if is_number(found) and math.isfinite(found) else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a number that a float can hold; true and false are none."""
    if isinstance(value, float):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_COUNT


def written(value: Mapping[str, Any]) -> str:
    """Write an object that should have come as its JSON; "" for one too deep to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def storable(value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
    """Give a value that any encoder takes: surrogates replaced, integers of any size as floats.

    What a lenient decoder let through would otherwise end a run when it is written down. None for
    a value that is nested too deep to be written.
    """
    try:
        return _storable(value)
    except RecursionError:
        return None


def _storable(value: object) -> Any:  # noqa: ANN401  JSON in, JSON out
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_storable(name): _storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 2**1000 else None
    return value


def error_in(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Give message and code of an error object, None when there is none.

    Seen in the wild: ``{"error": {"message", "code", "type"}}``, ``{"error": "text"}``,
    ``{"object": "error", "message", "code"}``, and, under a status, ``{"message", ...}`` and
    ``{"detail": ...}``.
    """
    error = value if value.get("object") == "error" else value.get("error")
    if isinstance(error, dict) and any(error.values()):  # some send an empty one with every chunk
        message = text_in(error, "message", "type", "code") or "an error without a message"
        return message, _code_in(error)
    if isinstance(error, str) and error:
        return error, ""
    return None


def bare_error_in(value: Mapping[str, Any]) -> tuple[str, str]:
    """Give message and code of what is known to be an error, whatever its shape."""
    found = error_in(value)
    if found is not None:
        return found
    message = text_in(value, "message", "detail", "error_description")
    return message or "an error without a message", _code_in(value)


def _code_in(error: Mapping[str, Any]) -> str:
    """Give the code of an error, or else its type: a word or a number."""
    code = error.get("code") or error.get("type")
    if isinstance(code, int) and not isinstance(code, bool):
        return str(code) if abs(code) <= MAX_COUNT else ""
    return code if isinstance(code, str) else ""


def usage_in(value: Mapping[str, Any]) -> Usage | None:
    """Read the usage of chat completions or of the Responses interface, None when there is none."""
    usage = object_in(value, "usage")
    if not usage:
        return None
    if usage.keys() <= _PLAIN_USAGE:  # most servers tell no more, and most answers come here
        return Usage(
            prompt_tokens=count_in(usage, "prompt_tokens"),
            completion_tokens=count_in(usage, "completion_tokens"),
        )
    prompt = object_in(usage, "prompt_tokens_details") or object_in(usage, "input_tokens_details")
    completion = object_in(usage, "completion_tokens_details") or object_in(
        usage, "output_tokens_details"
    )
    reasoning = count_in(completion, "reasoning_tokens")
    return Usage(
        prompt_tokens=count_in(usage, "prompt_tokens", "input_tokens"),
        completion_tokens=count_in(usage, "completion_tokens", "output_tokens"),
        cached_tokens=count_in(prompt, "cached_tokens"),
        reasoning_tokens=count_in(usage, "reasoning_tokens") if reasoning is None else reasoning,
    )
