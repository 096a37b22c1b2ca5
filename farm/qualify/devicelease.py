"""The operator's permission to use the devices: who may measure where, and until when.

It is a file that a person writes; holding it is checked before every cell. Its lock keeps two
qualifications apart, not other clients: those the operator keeps away.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from farm.errors import NotPermitted, Problem, SpecError
from farm.qualify.config import Filled
from farm.qualify.manifest import is_required, read_fields, read_manifest


class DeviceLease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave to use the devices of exactly these nodes until `expires_unix` (seconds)."""

    nodes: Annotated[tuple[Filled, ...], Meta(min_length=1)]
    expires_unix: Annotated[float, Meta(gt=0)]
    lock_path: Filled
    allowed_gpu_pids: tuple[Annotated[int, Meta(ge=1)], ...]


def read_device_lease(data: bytes, *, file: str) -> DeviceLease:
    """Read a lease; raises `SpecError` naming every field that is missing, marked or wrong."""
    raw = read_manifest(data, file=file)
    known, problems = read_fields(raw, DeviceLease, file=file)
    for name in DeviceLease.__struct_fields__:
        if name not in raw or is_required(raw[name]):
            detail = "is missing or still REQUIRED: the operator fills it in"
            problems.append(Problem(file, "", name, "missing_field", detail))
    if "\0" in known.get("lock_path", ""):
        problems.append(Problem(file, "", "lock_path", "bad_value", "no path holds a zero byte"))
    if problems:
        raise SpecError(problems=problems)
    return DeviceLease(**known)


def check_device_lease(lease: DeviceLease, *, nodes: tuple[str, ...], now: float) -> None:
    """Refuse a lease that has expired or names other nodes than the model's; `now` in seconds."""
    if now >= lease.expires_unix:
        raise NotPermitted(
            f"the device lease expired at {_moment(lease.expires_unix)}, it is {_moment(now)}: "
            "get a new one, then run the same command again"
        )
    if sorted(set(lease.nodes)) != sorted(set(nodes)):
        raise NotPermitted(
            f"the device lease is for nodes {sorted(lease.nodes)}, the model runs on "
            f"{sorted(nodes)}: they must be the same, get a lease for these"
        )


def _moment(unix: float) -> str:
    try:
        return datetime.fromtimestamp(unix, tz=UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{unix:g} (unix)"
