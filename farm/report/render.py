"""The report value as text."""

from __future__ import annotations

import msgspec

_encoder = msgspec.json.Encoder()


def to_json(value: object, *, indent: int = 0) -> bytes:
    """Give a report, or any other value, as strict JSON with a newline at its end.

    One line by default; `indent` spreads it out for people.
    """
    data = _encoder.encode(value)
    if indent:
        data = msgspec.json.format(data, indent=indent)
    return data + b"\n"
