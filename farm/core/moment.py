"""Times of a store's clock as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = 10**11  # March 1973: what is below was given by hand, as a logical clock is
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999


def moment(ms: int) -> str:
    """Give a time in milliseconds since the epoch as UTC, ``2026-11-30T12:04:31Z``.

    Logical clocks count from somewhere near zero and have no date: their times stay numbers.
    """
    if not _FIRST_MS <= ms <= _LAST_MS:
        return str(ms)
    at = _EPOCH + timedelta(milliseconds=ms)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
