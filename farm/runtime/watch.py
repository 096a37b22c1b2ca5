"""Who hears of a run while it goes: a supervisor of its shifts, an onlooker of the supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from farm.core.event import Note
from farm.core.lease import Lease
from farm.core.message import Pulse


class Watch(Protocol):
    """Who looks on while a run goes; nothing here waits."""

    def published(self, lease: Lease) -> None:
        """Hear that a receipt counts."""

    def pulse(self, worker: str, pulse: Pulse) -> Sequence[Note]:
        """Hear how far a worker is; give what is to be told of it."""

    def ended(self, worker: str) -> None:
        """Hear that a worker is no more."""


class Hears(Protocol):
    """What a shift tells the run of as it happens; nothing here waits."""

    def published(self, lease: Lease) -> None:
        """Hear that a receipt counts."""

    def returned(self, shard: str, reason: str) -> None:
        """Hear that a shard was given back and is not wanted again in this run."""

    def unwanted(self) -> frozenset[str]:
        """Say which shards it must not claim."""

    def halting(self, reason: str) -> Sequence[Note]:
        """Hear that the run is to end: no worker may go on; give what is to be told of it."""

    def pulse(self, worker: str, pulse: Pulse) -> Sequence[Note]:
        """Hear how far a worker is; give what is to be told of it."""
