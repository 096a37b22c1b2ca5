"""Every error farm raises, in one tree, by what the caller can do about it.

::

    FarmError                       the job could not be done            exit 1
    ├── SpecError                   fix the file or the flag             exit 1
    │   ├── IdentityMismatch        use the store this run belongs to    exit 1
    │   └── BadNumbers              fix the numbers given to a statistic exit 1
    ├── UsageError                  fix the command line                 exit 2
    ├── Busy                        try again later                      exit 1
    ├── Halted                      mend the endpoint, run again         exit 1
    ├── Fenced                      stop: somebody else holds the shard  exit 1
    ├── SandboxUnavailable          no isolation: another machine, flag  exit 1
    ├── SandboxLost                 run again: the program is not judged exit 1
    ├── NotPermitted                give the leave or mend the server    exit 1
    ├── Corrupt                     call a person: the store is damaged  exit 1
    └── StorageError                the store cannot be written          exit 3
        ├── StorageFull             free some space, run again           exit 3
        └── OutcomeUnknown          the disk lied: check it, run again   exit 3

A message is fact, value, place, way out; its class builds it. Foreign errors are translated
once, at the door where they come in, with ``from``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_SHOWN: Final = 200  # characters of a value


class FarmError(Exception):
    """Base of all errors farm raises on purpose; `exit_code` is what a command ends with."""

    exit_code = 1


class Problem(NamedTuple):
    """One thing wrong with one input: where it is, which rule it breaks, how to mend it.

    A named tuple, since every start of farm pays for what this module loads.
    """

    file: str
    place: str  # "line 12", "index 3", or "" for the file as a whole
    field: str  # "" when no single field is at fault
    rule: str  # a stable word: "duplicate_id", "bad_type", ...
    detail: str  # lower case, foreign text by repr

    def __str__(self) -> str:
        """Render as ``file:place: field: detail (rule)``, leaving out what is empty."""
        parts = [
            self.file + (f": {self.place}" if self.place else ""),
            *([self.field] if self.field else []),
            self.detail,
        ]
        return ": ".join(parts) + f" [{self.rule}]"


class SpecError(FarmError):
    """The input breaks a rule; carries every problem found, or one plain message.

    `problems` holds at most the first hundred; `total` counts them all.
    """

    def __init__(
        self, message: str = "", *, problems: Sequence[Problem] = (), total: int | None = None
    ) -> None:
        self.problems = tuple(problems)
        self.total = len(self.problems) if total is None else total
        lines = [message] if message else []
        lines += [str(problem) for problem in self.problems]
        if self.total > len(self.problems):
            lines.append(f"... {self.total} problems in all, the first {len(self.problems)} shown")
        super().__init__("\n".join(lines))


def _cut(value: object) -> str:
    """Give a value's repr, or its beginning: a prompt may be long. Of several, one by one."""
    text = repr(value)
    if isinstance(value, tuple | list):
        text = ", ".join(map(repr, value)) or "none"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class IdentityMismatch(SpecError):
    """The store belongs to another dataset, shard count, scorer or model set.

    `answers` is the file that its answers are kept in, "" when it has none: another store that is
    told of it does not buy them again.
    """

    def __init__(
        self, *, store: str, field: str, stored: object, given: object, answers: str = ""
    ) -> None:
        kept = f" with --cache {answers!r}, which keeps what was answered" if answers else ""
        super().__init__(
            f"store {store!r} was made for {field} {_cut(stored)}, this command gives "
            f"{_cut(given)}; "
            f"nothing was changed: use another --store{kept}, or the original input and options"
        )


class BadNumbers(SpecError, ValueError):
    """A score, confidence, count or row breaks its contract; nothing was computed.

    Also a ValueError, so that library callers need not know the tree.
    """


class UsageError(FarmError):
    """The command line does not say what to do."""

    exit_code = 2


class Busy(FarmError):
    """Somebody else holds what this command needs; later it may be free."""


class Halted(FarmError):
    """A run that asks models cannot go on now; nothing is lost, and it is pending.

    `reason` is a stable word: "denied", "missing", "invalid", "dead_endpoint", "paused",
    "adapter", "max_cost", "max_tokens".
    """

    def __init__(self, *, reason: str, model: str, detail: str, way_out: str) -> None:
        self.reason = reason
        self.model = model
        super().__init__(f"{model}: {detail}; what was answered is kept, {way_out}")


class Fenced(FarmError):
    """A publish or renew came from a worker that no longer holds the lease."""

    def __init__(self, *, action: str, shard: str, version: int, reason: str) -> None:
        self.shard = shard
        self.version = version
        self.reason = reason
        super().__init__(f"{action} fenced for {shard} v{version}: {reason}")


class SandboxUnavailable(FarmError):
    """This machine does not grant the isolation that running a program asks for."""


class SandboxLost(FarmError):
    """A sandbox process failed for a reason of its own; the program was not judged."""


class NotPermitted(FarmError):
    """A qualification may not measure now: lease, node, slot or cache is not as it must be."""


class Corrupt(FarmError):
    """A file of the store is not what was written; it is reported and left as it is."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {reason}; the file was left as it is: "
            "restore it from a copy, or start a new store"
        )


class StorageError(FarmError):
    """The store cannot be written; what was committed is intact and the run is resumable."""

    exit_code = 3

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {reason}; what was committed is intact, "
            "run the same command again once it is mended"
        )


class StorageFull(StorageError):
    """No space or quota is left; the last snapshot stands."""


class OutcomeUnknown(StorageError):
    """A sync failed after the rename: the new snapshot may or may not be on disk."""
