"""What a run was asked to do, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from farm.core.isolation import Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Options of a supervised run; times in seconds unless the name says otherwise."""

    workers: int = 2
    ttl_ms: int = 30_000
    now_ms: int | None = None  # a fixed logical clock; such leases are never renewed
    deadline_s: float = 0.0  # 0 is none
    wait: bool = False  # for leases of other owners to expire
    max_attempts: int = 3
    shards_per_process: int = 0  # 0: a share of the active shards
    shards_per_batch: int = 0  # handed to a worker at a time; 0: by the number of their cases
    overlapping: bool = False  # workers begin shards before they end others, as those that ask
    delay_ms: int = 0  # a pause after each claim, to expose races
    stall_s: float = 600.0  # a worker that says nothing for so long while it executes is ended
    grace_s: float = 10.0  # for a worker to finish its shard when the run is drained
    deadline_grace_s: float = 1.0  # the same, when the deadline is reached
    incarnation: str = ""  # of this supervisor process; "" under a logical clock
    name: str = "run"  # the first part of the workers' names
    require_isolation: str | None = None  # the weakest level to run programs under
    allow_unisolated: bool = False  # run programs also where nothing stands around them
    isolation: Isolation | None = None  # in force here, where the scorer runs programs
    again: str = ""  # the command line that continues this run
    worker_command: Sequence[str] = ()
    is_gone: Callable[[str], bool] = lambda incarnation: False

    def share(self, active_shards: int) -> int:
        """Give how many shards a worker process takes before a fresh one replaces it."""
        return self.shards_per_process or max(1, active_shards // (2 * self.workers))
