"""The JSON Schemas of everything farm reads and writes, made from the types themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from farm.core import event
from farm.core.case import Case
from farm.core.ledger import Ledger
from farm.core.message import Batch, Message
from farm.core.plan import Plan
from farm.core.receipt import Receipt
from farm.report.build import Report

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_for(kind: Any, title: str) -> dict[str, Any]:  # noqa: ANN401  any type msgspec knows
    """Make the JSON Schema of a type."""
    return {"$schema": _DIALECT, "title": title, **msgspec.json.schema(kind)}


def _of(kind: Any, title: str) -> Callable[[], dict[str, Any]]:  # noqa: ANN401  as above
    return lambda: schema_for(kind, title)


def _predictions() -> dict[str, Any]:
    """Give one record; `expected` may be missing only beside `targets`."""
    made = _of(Case, "farm prediction record")()
    made["$defs"]["Case"]["anyOf"] = [{"required": ["expected"]}, {"required": ["targets"]}]
    return made


def _ledger() -> dict[str, Any]:
    """Give the type with the checksum that its wire form ends in."""
    made = _of(Ledger, "farm ledger file")()
    made["$defs"]["Ledger"]["properties"]["checksum"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    }
    made["$defs"]["Ledger"]["required"].append("checksum")
    return made


def _leaderboard() -> dict[str, Any]:
    # these three import numpy when they are asked for: it loads for 100 ms, and no other needs it
    from farm.report.envelope import Envelope

    return _of(Envelope, "farm leaderboard report")()


def _comparison() -> dict[str, Any]:
    from farm.report.compare import Comparison

    return _of(Comparison, "farm comparison")()


def _gate() -> dict[str, Any]:
    from farm.report.gate import GateResult

    return _of(GateResult, "farm gate verdict")()


_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "predictions": _predictions,
    "report": _of(Report, "farm report"),
    "events": event.schema,
    "leaderboard": _leaderboard,
    "comparison": _comparison,
    "gate": _gate,
    "plan": _of(Plan, "farm plan file"),
    "ledger": _ledger,
    "receipt": _of(Receipt, "farm receipt file"),
    "worker-stdin": _of(Batch, "a line of a worker's stdin"),
    "worker-stdout": _of(Message, "a line of a worker's stdout"),
}

SCHEMA_NAMES = tuple(_SCHEMAS)


def schema_of(name: str) -> dict[str, Any]:
    """Give the JSON Schema of a file or of one line of a stream, by its name."""
    return _SCHEMAS[name]()
