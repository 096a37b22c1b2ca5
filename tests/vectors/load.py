"""The known answers beside this file, read once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def known(name: str) -> Any:
    """Return the parsed JSON of ``tests/vectors/NAME.json``."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8"))


def rows(name: str, part: str, **having: object) -> list[Any]:
    """Return the rows of a part whose fields equal `having`; never an empty list."""
    found = [
        row
        for row in known(name)[part]
        if all(row.get(key) == value for key, value in having.items())
    ]
    assert found, f"{name}.json has no row of {part} with {having}"
    return found
