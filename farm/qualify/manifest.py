"""Read a JSON manifest field by field, so that one refusal names everything that is wrong.

REQUIRED marks what the person who copied an example still has to fill in. A mark may stand for
any value, also inside a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from farm.errors import Problem, SpecError

MARK: Final = "REQUIRED"
MAX_BYTES: Final = 1024 * 1024


def is_required(value: object) -> bool:
    """Tell whether a value is, or holds, the mark of something still to be filled in."""
    if isinstance(value, str):
        return value.strip().startswith(MARK)  # "required" is a word of request options
    if isinstance(value, list):
        return any(is_required(inner) for inner in value)
    if isinstance(value, dict):
        return any(is_required(inner) for inner in value.values())
    return False


def read_manifest(data: bytes, *, file: str) -> dict[str, Any]:
    """Decode one JSON object; raises `SpecError` on anything else, duplicate keys included."""
    if len(data) > MAX_BYTES:
        raise SpecError(f"{file}: {len(data)} bytes are too many for a manifest")

    def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the key {name!r} stands twice in one object")
        return dict(pairs)

    def refuse(word: str) -> float:
        raise ValueError(f"{word} is not JSON")

    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{file}: not a JSON manifest: {error}") from error
    if not isinstance(value, dict):
        raise SpecError(f"{file}: a manifest is a JSON object, this is {type(value).__name__}")
    return value


def read_fields(
    raw: dict[str, Any], kind: type[msgspec.Struct], *, file: str
) -> tuple[dict[str, Any], list[Problem]]:
    """Convert each field to its type; give those that are right and a problem for each other.

    Marked and missing fields are in neither; defaults are filled in.
    """
    known: dict[str, Any] = {}
    problems: list[Problem] = []
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    problems += [
        Problem(file, "", name, "unknown_field", "is not a field of this manifest")
        for name in raw.keys() - fields.keys()
    ]
    for name, field in fields.items():
        if name not in raw:
            if not field.required:
                known[name] = field.default if field.default is not msgspec.NODEFAULT else {}
            continue
        if is_required(raw[name]):
            continue
        try:
            known[name] = msgspec.convert(raw[name], field.type)
        except msgspec.ValidationError as error:
            problems.append(Problem(file, "", name, "bad_value", f"{raw[name]!r:.80}: {error}"))
    return known, sorted(problems)
