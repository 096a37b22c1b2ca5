"""The JSON Schemas of a qualification: what is read, what is written, what is printed."""

from __future__ import annotations

from typing import Any, Final

from farm.qualify.config import Config
from farm.qualify.devicelease import DeviceLease
from farm.qualify.records import CellRecord
from farm.report.qualified import Audit, Comparison, Summary
from farm.report.schemas import schema_for

_KINDS: Final[dict[str, tuple[type, str]]] = {
    "qualify-config": (Config, "farm qualification configuration"),
    "qualify-lease": (DeviceLease, "farm device lease"),
    "qualify-results": (CellRecord, "a line of a qualification's results.jsonl"),
    "qualify-summary": (Summary, "farm qualification summary"),
    "qualify-comparison": (Comparison, "farm qualification comparison"),
    "qualify-audit": (Audit, "farm qualification audit"),
}
NAMES: Final = tuple(_KINDS)


def schema_of(name: str) -> dict[str, Any]:
    """Give the JSON Schema of one of `NAMES`."""
    kind, title = _KINDS[name]
    return schema_for(kind, title)
