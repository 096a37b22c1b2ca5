"""Where the contract of a store is tried: one home a kind of store, with any number of handles."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Protocol

from farm.core.ledger import encode_ledger
from farm.core.plan import Plan, encode_plan, first_ledger
from farm.store.directory import DirectoryStore
from farm.store.memory import MemoryStore
from farm.store.protocol import Store
from tests.examples import lines


class Clock:
    """A clock that stands still until a test moves it; milliseconds since the epoch."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> float:
        return self.now


class Home(Protocol):
    """A place with one run in it."""

    clock: Clock

    def open(self) -> Store:
        """Give one more handle on the run, as another process would have it."""

    def state(self) -> object:
        """Give all that the home keeps, to be compared with itself later."""

    def close(self) -> None:
        """Close every handle."""


class DirectoryHome:
    """A run in a directory, laid out without `farm init`."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.clock = Clock()
        self._opened: list[DirectoryStore] = []
        lay(path, plan)

    def open(self) -> DirectoryStore:
        name = f"invocation-{len(self._opened) + 1}"
        store = DirectoryStore(
            str(self.path), invocation_id=name, clock=self.clock, lock_timeout_s=0.0
        )
        self._opened.append(store)
        return store

    def state(self) -> dict[str, str]:
        return digests(self.path)

    def close(self) -> None:
        for store in self._opened:
            store.close()


class MemoryHome:
    """A run in memory; its one object serves as every handle."""

    def __init__(self, plan: Plan) -> None:
        self.clock = Clock()
        cases = {shard.name: lines(index) for index, shard in enumerate(plan.shards)}
        self._store = MemoryStore(plan, cases=cases, invocation_id="invocation-1", clock=self.clock)

    def open(self) -> MemoryStore:
        return self._store

    def state(self) -> object:
        return self._store.ledger(), list(self._store.events())

    def close(self) -> None:
        """Nothing is open."""


def lay(path: Path, plan: Plan) -> None:
    """Write the files of a fresh run of `plan`, whose shards have one case each."""
    path.mkdir()
    (path / "receipts").mkdir()
    (path / "cases.jsonl").write_bytes(b"".join(lines(i) for i in range(len(plan.shards))))
    (path / "ledger.json").write_bytes(encode_ledger(first_ledger(plan))[0])
    (path / "plan.json").write_bytes(encode_plan(plan))


def digests(path: Path) -> dict[str, str]:
    """The digest of every file under `path`, by its name; folders and locks have none."""
    return {
        str(file.relative_to(path)): sha256(file.read_bytes()).hexdigest()
        if file.is_file()
        else "folder"
        for file in sorted(path.rglob("*"))
        if file.name not in {"lock", "run.lock"}
    }
