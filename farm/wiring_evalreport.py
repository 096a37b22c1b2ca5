"""From the store of an evaluation to what people read: the report in three formats, the stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from farm.core.cost import total_spending
from farm.core.event import Note
from farm.core.generation import Generation
from farm.core.lease import Lease
from farm.core.message import Pulse
from farm.errors import Corrupt, StorageError
from farm.files.atomic import Folder
from farm.report.build import DETAIL_CASES
from farm.report.envelope import Costs, Envelope, to_json
from farm.report.html import page_of, render_html
from farm.report.markdown import render_markdown
from farm.runtime.asked import tasks_of
from farm.runtime.board import envelope_of, gather
from farm.runtime.casebook import case_rows
from farm.runtime.settings import RunSettings
from farm.runtime.tally import Tally
from farm.runtime.trials import Recorded, recordings, rows_of_shard
from farm.runtime.verify import Verification
from farm.runtime.verify_trials import verify_evaluation
from farm.scoring.trial import TrialJudge
from farm.stats.evalrun import EvalRun
from farm.store.cacheplace import CACHE_FILE
from farm.store.costs import read_spending
from farm.store.directory import DirectoryStore
from farm.store.recheck import cache_problems, ledger_problems
from farm.wiring_eval import costs_of, programs_for

if TYPE_CHECKING:
    from farm.sandbox.runner import Sandbox

REPORTS: Final = ("report.json", "report.md", "report.html")
_ENDS: Final = frozenset(
    {"run.completed", "run.pending", "run.partial", "run.interrupted", "run.failed"}
)


def write_reports(store: DirectoryStore, *, costs: str) -> Envelope:
    """Build the report of an evaluation as it stands, put it into the store, and give it.

    `costs` is the path of the cost ledger. Files that would not change are left alone. They hold
    every answer, so they are their owner's alone, as the rest of the store is.
    """
    runs = recordings(store, names=store.plan.identity.models)
    board = gather(runs)
    envelope = envelope_of(runs, board, detail=len(board.runs) <= DETAIL_CASES)
    envelope = msgspec.structs.replace(
        envelope,
        costs=_costs(costs),
        summary=msgspec.structs.replace(envelope.summary, wall_seconds=_wall_seconds(store)),
    )
    page = page_of(
        envelope,
        title=_title(runs),
        subtitle=f"{len(board.runs):,} trials, each scored by the metric of its task",
        cases=case_rows(runs),
    )
    folder = Folder(store.path)
    try:
        _replace(folder, REPORTS[0], [to_json(envelope)])
        _replace(folder, REPORTS[1], [render_markdown(envelope).encode()])
        _replace(folder, REPORTS[2], [piece.encode() for piece in render_html(page)])
    finally:
        folder.close()
    return envelope


def _replace(folder: Folder, name: str, pieces: Sequence[bytes]) -> None:
    data = b"".join(pieces)
    try:
        private = not os.stat(name, dir_fd=folder.fd).st_mode & 0o077
        if private and folder.read(name) == data:
            return
    except FileNotFoundError:
        pass
    folder.replace(name, data)


def _title(runs: Sequence[Recorded]) -> str:
    return runs[0].model if len(runs) == 1 else f"{len(runs)} models compared"


def _wall_seconds(store: DirectoryStore) -> float:
    """Sum up what all invocations took; one that was killed left no figure."""
    spent = (event.fields["elapsed_s"] for event in store.events() if event.event in _ENDS)
    return round(sum(value for value in spent if isinstance(value, int | float)), 6)


def _costs(path: str) -> Costs | msgspec.UnsetType:
    if not os.path.exists(path):
        return UNSET
    models, currency = read_spending(path)
    return Costs(currency=currency, models=models, total=total_spending(list(models.values())))


def recheck(
    store: DirectoryStore,
    *,
    digests: Callable[[], tuple[str, str, int]],
    receipt_names: Callable[[], list[str]],
    require_isolation: str | None,
    allow_unisolated: bool,
) -> Verification:
    """Verify the store of an evaluation; programs among its answers are run again.

    Answers and calls that are kept in the store are checked as they stand.
    """

    def around() -> Iterator[str]:
        yield from ledger_problems(costs_of(store))
        yield from cache_problems(os.path.join(store.path, CACHE_FILE))

    settings = RunSettings(require_isolation=require_isolation, allow_unisolated=allow_unisolated)
    with _programs_of_tasks(store, settings) as programs:
        return verify_evaluation(
            store,
            digests=digests,
            receipt_names=receipt_names,
            judge=TrialJudge(programs),
            around=around,
        )


def _programs_of_tasks(
    store: DirectoryStore, settings: RunSettings
) -> AbstractContextManager[Sandbox | None]:
    try:
        tasks_of(store)
    except Corrupt:  # one of the problems that are to be told; without tasks no program is run
        return nullcontext()
    return programs_for(store, settings, slots=1)


class Onlooker:
    """Follows a run for its tally and its stream; see `farm.runtime.watch.Watch`."""

    def __init__(
        self, store: DirectoryStore, tally: Tally, *, write: Callable[[bytes], object] | None
    ) -> None:
        """Begin with what is finished already; `write` takes a line for each finished trial."""
        models = store.plan.identity.models
        runs = recordings(store, names=models)
        self._runs = dict(zip(models, runs, strict=True))
        self._shards = {shard.name: shard for shard in store.plan.shards}
        self._tally = tally
        self._write = write
        self.failure: StorageError | None = None  # why the stream was given up
        for lease in runs[0].ledger.leases:
            if lease.done:
                tally.add_finished(row for row, _ in self._rows(lease))
                self.published(lease)

    def published(self, lease: Lease) -> None:
        """Write a shard's trials to the stream.

        A stream that cannot be written is given up, and the run goes on: the store has it all,
        and calls that are out must not be lost over it.
        """
        if self._write is None or self.failure is not None:
            return
        lines = []
        for row, answer in self._rows(lease):
            told = {
                **msgspec.to_builtins(row),
                "response": answer.text,
                "usage": answer.usage,
                "finish_reason": answer.finish_reason,
            }
            lines.append(msgspec.json.encode(told))
        try:
            self._write(b"\n".join([*lines, b""]))
        except StorageError as error:
            self.failure = error

    def pulse(self, worker: str, pulse: Pulse) -> Sequence[Note]:
        """Take how far a worker is."""
        return self._tally.take(worker, pulse)

    def ended(self, worker: str) -> None:
        """Take note that a worker is no more."""
        self._tally.ended(worker)

    def _rows(self, lease: Lease) -> Iterator[tuple[EvalRun, Generation]]:
        return rows_of_shard(self._runs, self._shards[lease.shard], lease)
