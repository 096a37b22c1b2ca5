"""Read a models file: TOML with a table for each model, and every fault named at once.

The rules that a type cannot say stand here: what a URL may hold, what a request may not, that
a key is named and never written down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from farm.adapters.registry import adapter_names, settings_type
from farm.adapters.settings import Common, HttpSettings, ScriptedSettings
from farm.adapters.tables import Problems, fit_fields, read_toml
from farm.core.address import address_fault
from farm.core.generation import FAILURES

_NAME: Final = re.compile(r"[A-Za-z0-9._:/@+-]{1,100}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KEY_HEADERS: Final = frozenset(
    {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization", "x-goog-api-key"}
)
# what the adapter itself puts into a request
_OURS: Final = frozenset(
    {"model", "messages", "prompt", "stream", "stream_options", "n", "best_of", "logprobs"}
)


def read_models(path: str) -> dict[str, Common]:
    """Read the models of a file, in its order; raises SpecError with all that is wrong.

    The file has a table ``[models.NAME]`` for each model; NAME is the model id of reports.
    """
    document = read_toml(path)
    problems = Problems(path)
    models: dict[str, Common] = {}
    for name in document:
        if name != "models":
            problems.add(
                "", name[:80], "only [models.NAME] tables stand here", rule="unknown_field"
            )
    tables = document.get("models")
    if not isinstance(tables, dict) or not tables:
        problems.add("", "models", "has no table [models.NAME]", rule="missing_field")
        tables = {}
    for name, table in tables.items():
        settings = _read_model(name, table, problems)
        if settings is not None:
            models[name] = settings
    problems.raise_if_any()
    return models


def _read_model(name: str, table: object, problems: Problems) -> Common | None:
    place = f"models.{name[:100]}"
    if not _NAME.fullmatch(name):
        detail = f"{name[:100]!r} must be of letters, digits and ._:/@+- (at most 100)"
        problems.add(place, "", detail, rule="bad_name")
    if not isinstance(table, dict):
        problems.add(place, "", "is not a table", rule="bad_value")
        return None
    adapter = table.get("adapter")
    if not isinstance(adapter, str):
        problems.add(place, "adapter", "is missing", rule="missing_field")
        return None
    kind = settings_type(adapter)
    if kind is None:
        known = ", ".join(adapter_names())
        detail = f"{adapter[:80]!r} is not known; the adapters are {known}"
        problems.add(place, "adapter", detail, rule="bad_value")
        return None
    before = len(problems.found)
    fit = fit_fields(table, kind, place=place, problems=problems)
    for field, detail in _faults_of(kind, fit):
        problems.add(place, field, detail, rule="bad_value")
    return None if len(problems.found) > before else msgspec.convert(table, kind)


def _faults_of(kind: type[Common], fit: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if issubclass(kind, HttpSettings):
        if "base_url" in fit:
            fault = address_fault(fit["base_url"])
            if fault is not None:
                yield "base_url", fault[1]
        if fit.get("key_env") and not _VARIABLE.fullmatch(fit["key_env"]):
            # a key that was written here by mistake must not be printed
            yield "key_env", "must be the name of an environment variable, never the key itself"
        yield from _header_faults(fit.get("headers", {}))
        yield from _request_faults(fit.get("request", {}))
    if issubclass(kind, ScriptedSettings):
        for index, step in enumerate(fit.get("steps", ())):
            if step.failure and step.failure not in FAILURES:
                kinds = ", ".join(FAILURES)
                yield f"steps[{index}].failure", f"{step.failure!r} is not one of {kinds}"


def _header_faults(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        field = f"headers.{name[:80]}"
        if name.lower() in _KEY_HEADERS:
            yield field, "would hold a key; name an environment variable in key_env"
        elif not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            yield field, "is not a header that can be sent"


def _request_faults(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in request:
        if name in _OURS:
            yield f"request.{name}", "is set by farm itself; see the settings beside it"
    for path, value in _walk(request, "request"):
        if isinstance(value, float) and not math.isfinite(value):
            yield path, "is not a finite number"
        elif not isinstance(value, str | int | float | bool):
            yield path, f"is a {type(value).__name__}, which JSON does not have"


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Give every leaf with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{index}]")
    else:
        yield path, value
