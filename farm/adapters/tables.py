"""Read a TOML file and turn its tables into values, naming everything that is wrong at once."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from farm.errors import Problem, SpecError

MAX_FILE_BYTES: Final = 4 * 1024 * 1024


def read_toml(path: str, *, parse_float: Callable[[str], object] = float) -> dict[str, Any]:
    """Read a TOML file; raises SpecError for one that cannot be read or is too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise SpecError(f"{path}: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        return tomllib.loads(text, parse_float=parse_float)
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: byte {error.start + 1} is not UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{path}: is not TOML: {str(error).lower()}") from error


class Problems:
    """Collects what is wrong with one file."""

    def __init__(self, file: str) -> None:
        self.found: list[Problem] = []
        self._file = file

    def add(self, place: str, field: str, detail: str, *, rule: str) -> None:
        """Note one."""
        self.found.append(Problem(self._file, place, field, rule, detail))

    def raise_if_any(self) -> None:
        """Raise SpecError with all of them."""
        if self.found:
            raise SpecError(problems=self.found[:100], total=len(self.found))


def fit_fields(
    table: Mapping[str, Any], kind: type[msgspec.Struct], *, place: str, problems: Problems
) -> dict[str, Any]:
    """Return the fields of a table that fit their types, converted.

    Every unknown, missing and unfit field is a problem of its own.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in table:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            problems.add(place, name[:80], f"is not a setting here{hint}", rule="unknown_field")
    fit: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in table:
            if field.required:
                problems.add(place, name, "is missing", rule="missing_field")
            continue
        try:
            fit[name] = msgspec.convert(table[name], field.type)
        except msgspec.ValidationError as error:
            text = str(error)
            problems.add(place, name, text[:1].lower() + text[1:], rule="bad_value")
    return fit
