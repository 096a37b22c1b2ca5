"""Write the JSON that is sent: to an endpoint, or to a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from farm.errors import SpecError

_ENCODER: Final = msgspec.json.Encoder()


def encode_body(body: Mapping[str, Any], *, model: str) -> bytes:
    """Encode a request body; raises SpecError for text that is not Unicode."""
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError as error:
        raise SpecError(f"request to {model!r}: a text holds a lone surrogate") from error
