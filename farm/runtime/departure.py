"""What the end of a worker process means for the leases it held, and what is told of it.

A worker is charged for the one shard it was executing, and only when the fault was its own;
everything else it leaves is given back for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from farm.core.change import Fail, Release
from farm.core.event import Note, note
from farm.core.lease import Lease
from farm.runtime.process import describe_exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """How a worker's process ended, and what it held at that time."""

    worker: str
    worker_pid: int
    exit_code: int
    complaint: str  # what it did wrong, "" for nothing that was seen
    dismissed: bool  # sent home: nothing that it leaves is its fault
    executing: str  # the shard it was at, "" for none
    held: tuple[Lease, ...]
    ran_out: tuple[Lease, ...]  # by a clock that may be set back: nobody has taken them for certain

    @property
    def faulty(self) -> bool:
        """Tell whether the worker itself is to blame."""
        left_early = self.exit_code != 0 or bool(self.held)
        return bool(self.complaint) or (left_early and not self.dismissed)

    @property
    def reason(self) -> str:
        """Say why it ended."""
        if self.complaint:
            return self.complaint
        if self.exit_code == 0:
            return "it ended without the receipts of the shards it was given (exit code 0)"
        return describe_exit(self.exit_code)

    def told(self) -> Note:
        """Give the event of the worker's end."""
        fields = {"worker_pid": self.worker_pid, "exit_code": self.exit_code}
        if self.faulty:
            return note("worker.failed", worker=self.worker, **fields, reason=self.reason)
        return note("worker.exited", worker=self.worker, **fields)

    def changes(self, *, max_attempts: int, charged: bool) -> list[Fail | Release]:
        """Give the changes that settle its leases; not `charged` where the run itself failed."""
        why = "run drained" if self.dismissed else self.reason
        settled: list[Fail | Release] = []
        for lease in self.held:
            if charged and self.faulty and lease.shard == self.executing:
                settled.append(_fail(lease, max_attempts=max_attempts, reason=self.reason))
            else:
                settled.append(release(lease, reason=why))
        return settled + [release(lease, reason="its lease ran out") for lease in self.ran_out]


def _fail(lease: Lease, *, max_attempts: int, reason: str) -> Fail:
    return Fail(
        shard=lease.shard,
        worker=lease.worker,
        version=lease.version,
        max_attempts=max_attempts,
        reason=reason,
    )


def release(lease: Lease, *, reason: str) -> Release:
    """Make the change that opens a lease to others at once."""
    return Release(shard=lease.shard, worker=lease.worker, version=lease.version, reason=reason)
