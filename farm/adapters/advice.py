"""What an endpoint's headers say about asking again, and what a status means."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

# An account without credit says 429 like one that is too quick, but no waiting mends it.
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_BUSY: Final = frozenset({408, 409, 425, 429, 529})
_DENIED: Final = frozenset({401, 402, 403})
_MISSING: Final = frozenset({404, 405, 410})
_LONGEST_S: Final = 1e9  # what is longer is no wait


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds an endpoint asks to wait, None when it asks for nothing readable.

    `headers` are matched without regard to case by their own mapping. ``retry-after-ms`` goes
    before ``retry-after``, which holds seconds or a date; `now` is seconds since the epoch.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        wait = max(0.0, moment.timestamp() - now)
    except (ValueError, OverflowError):  # a date beyond all calendars, or an offset is
        return None
    return wait if wait < _LONGEST_S else None


def retry_word(headers: Mapping[str, str]) -> bool | None:
    """Return the endpoint's own word on asking again, None when it gives none."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def kind_of_status(status: int, *, code: str = "", told_to_wait: bool = False) -> str:
    """Return the failure kind of an HTTP status that is not 2xx; `code` is the error's own."""
    if code in _QUOTA_CODES or status in _DENIED:
        return "denied"
    if status in _BUSY or (status == 503 and told_to_wait):
        return "busy"
    if status >= 500:
        return "server"
    if status in _MISSING or 300 <= status < 400:
        return "missing"
    return "invalid"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < _LONGEST_S else None
