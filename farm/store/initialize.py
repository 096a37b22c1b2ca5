"""Making a store: all of it in staging first, then renamed into place, the plan last.

A store exists from the moment its plan does. A failed init leaves nothing; a killed one leaves
a staging folder, which the next init removes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from farm.core.canonical import DatasetDigest
from farm.core.ledger import encode_ledger
from farm.core.partition import default_shards, shard_name
from farm.core.plan import (
    Identity,
    Plan,
    ScorerName,
    Shard,
    check_identity,
    encode_plan,
    first_ledger,
    make_plan,
)
from farm.errors import Corrupt, SpecError
from farm.files.atomic import Folder, make_folders, storage_errors
from farm.files.lock import FileLock
from farm.files.mapping import Rules
from farm.files.records import count_cases, read_cases
from farm.files.source import Source, find_source, must_spool, spool
from farm.store.casefile import CASES_NAME, ORDER_NAME, StagedCases
from farm.store.casewriter import write_cases
from farm.store.directory import (
    EVENTS_FILE,
    LEDGER_FILE,
    LOCK_FILE,
    PLAN_FILE,
    RECEIPTS,
    RUN_LOCK_FILE,
)
from farm.store.staging import STAGING, staging_folder

_LOCK_TIMEOUT_S = 10.0
_PARTS = (CASES_NAME, ORDER_NAME, RECEIPTS, LEDGER_FILE)
# what an init that was killed between two renames may leave behind
_LEFTOVERS = {*_PARTS, LOCK_FILE, RUN_LOCK_FILE}
_NOT_OURS_BUT_FINE = {"lost+found"}  # stands in every fresh ext4 mount point


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a store is to be bound to; None takes what the store has, or the default."""

    input: str | None  # a path, or "-" for standard input
    rules: Rules
    shards: int | None = None
    scorer: ScorerName | None = None
    models: tuple[str, ...] | None = None


def exists(path: str) -> bool:
    """Tell whether there is a store at `path`; raises `Corrupt` when there are its ruins."""
    if os.path.exists(os.path.join(path, PLAN_FILE)):
        return True
    if os.path.exists(os.path.join(path, EVENTS_FILE)):
        reason = "missing, though a run was going on in this folder"
        raise Corrupt(path=os.path.join(path, PLAN_FILE), reason=reason)
    return False


def check_request(plan: Plan, request: Request, *, store: str) -> None:
    """Refuse an input or an option that is not the stored run's; raises `IdentityMismatch`."""
    stored = plan.identity
    dataset = stored.dataset_sha256
    if request.input is not None:
        with tempfile.TemporaryDirectory(prefix="farm-") as folder:
            dataset = _digest(_source(request.input, folder), request.rules)
    given = Identity(
        dataset_sha256=dataset,
        shards=stored.shards if request.shards is None else request.shards,
        scorer=stored.scorer if request.scorer is None else request.scorer,
        models=stored.models if request.models is None else request.models,
    )
    check_identity(stored, given, store=store)


def initialize(path: str, request: Request, *, default_scorer: ScorerName) -> None:
    """Make a store at `path`, which must be absent or empty; leave nothing when that fails.

    Raises `SpecError` with every problem of the input, or `StorageError`.
    """
    _check_vacant(path)
    made = make_folders(path)
    try:
        with staging_folder(path) as staging:
            plan = _stage(staging, request, default_scorer=default_scorer)
            _move_into_place(path, staging, plan)
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # not empty: somebody else uses it
                os.rmdir(folder)
        raise


def _check_vacant(path: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):
        raise SpecError(f"{path!r} is a link to nothing: give --store a directory")
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        raise SpecError(f"{path!r} is a file: give --store a directory")
    with storage_errors(path):
        names = os.listdir(path)
    foreign = [
        name
        for name in sorted(names)
        if name not in _LEFTOVERS | _NOT_OURS_BUT_FINE and not name.startswith(STAGING)
    ]
    if foreign:
        raise SpecError(
            f"{path!r} is neither empty nor a store, it holds {foreign[0]!r}: "
            "give --store a new or empty directory"
        )


def _stage(staging: str, request: Request, *, default_scorer: ScorerName) -> Plan:
    if request.input is None:
        raise SpecError("a new store needs an input: give --input FILE")
    source = _source(request.input, staging)
    shards = request.shards
    if shards is None:
        shards = default_shards(count_cases(source, request.rules))
    staged = write_cases(read_cases(source, request.rules), shards=shards, directory=staging)
    plan = make_plan(
        identity=Identity(
            dataset_sha256=staged.dataset_sha256,
            shards=shards,
            scorer=request.scorer or default_scorer,
            models=request.models or (),
        ),
        tasks_sha256=staged.tasks_sha256,
        cases=staged.count,
        shards=_shards(staged),
    )
    folder = Folder(staging)
    try:
        with storage_errors(staging):
            os.mkdir(RECEIPTS, 0o700, dir_fd=folder.fd)
        folder.create_once(
            {LEDGER_FILE: encode_ledger(first_ledger(plan))[0], PLAN_FILE: encode_plan(plan)}
        )
    finally:
        folder.close()
    return plan


def _shards(staged: StagedCases) -> tuple[Shard, ...]:
    return tuple(
        Shard(
            name=shard_name(shard.index),
            cases=shard.cases,
            sha256=shard.sha256,
            extents=shard.extents,
        )
        for shard in staged.shards
    )


def _source(input: str, folder: str) -> Source:
    """Find the input; one that can be read only once is copied into `folder` first."""
    if not must_spool(input):
        return find_source(input)
    copy = os.path.join(folder, "input")
    with contextlib.ExitStack() as stack:
        fd = 0 if input == "-" else stack.enter_context(open(input, "rb")).fileno()
        spool(stack.enter_context(open(fd, "rb", closefd=False)), copy)
    return find_source(input, spooled_from=copy)


def _digest(source: Source, rules: Rules) -> str:
    digest = DatasetDigest()
    for batch in read_cases(source, rules):
        digest.update(batch.lines.split(b"\n")[:-1])
    return digest.dataset_sha256


def _move_into_place(path: str, staging: str, plan: Plan) -> None:
    """Rename the staged files, each durable, and the plan after all others."""
    lock = FileLock(os.path.join(path, LOCK_FILE))
    folder, staged = Folder(path), Folder(staging)
    try:
        with lock.held(timeout_s=_LOCK_TIMEOUT_S):
            if exists(path):  # another init was quicker; the two agree or this one is refused
                reason = "another init made a store here at the same time: run the command again"
                raise SpecError(f"{path!r}: {reason}")
            if not lock.is_there():  # another init failed and took its lock away with the rest
                raise SpecError(f"{path!r}: another init failed here just now: run it again")
            try:
                FileLock(os.path.join(path, RUN_LOCK_FILE)).close()
                staged.sync()
                _rename(_PARTS, staged, folder)
                folder.sync()
                _rename((PLAN_FILE,), staged, folder)
            except BaseException:
                _take_back(folder)
                raise
            folder.sync()
    finally:
        lock.close()
        staged.close()
        folder.close()


def _take_back(folder: Folder) -> None:
    """Remove what an init that failed has moved into place; for the holder of the lock.

    Once the plan has its name there is a store, and its locks are never unlinked.
    """
    if exists(folder.path):
        return
    for name in (*_PARTS, RUN_LOCK_FILE, LOCK_FILE):
        # a disk that takes nothing keeps it: the next init knows these names
        with contextlib.suppress(OSError):
            if name == RECEIPTS:
                os.rmdir(name, dir_fd=folder.fd)
            else:
                os.unlink(name, dir_fd=folder.fd)


def _rename(names: Sequence[str], staged: Folder, folder: Folder) -> None:
    for name in names:
        with storage_errors(os.path.join(folder.path, name)):
            os.rename(name, name, src_dir_fd=staged.fd, dst_dir_fd=folder.fd)
