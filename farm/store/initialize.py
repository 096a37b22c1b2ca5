"""Making a store: all of it in staging first, then renamed into place, the plan last.

A store exists from the moment its plan does. A failed init leaves nothing; a killed one leaves
a staging folder, which the next init removes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

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
from farm.errors import SpecError, StorageError
from farm.files.atomic import Folder, make_folders, remove_folders, storage_errors
from farm.files.fresh import FreshFile
from farm.files.incarnation import is_alive
from farm.files.lock import FileLock
from farm.files.mapping import Rules
from farm.files.records import count_cases, read_cases
from farm.files.source import Source, find_source, must_spool, refuse_device, spool
from farm.store.casefile import CASES_NAME, ORDER_NAME, StagedCases, open_to_read
from farm.store.casewriter import write_cases
from farm.store.directory import (
    LEDGER_FILE,
    LOCK_FILE,
    PLAN_FILE,
    RECEIPTS,
    RUN_LOCK_FILE,
    DirectoryStore,
    exists,
)
from farm.store.staging import is_staging, staging_folder, stagings

_LOCK_TIMEOUT_S = 10.0
_COPY_BYTES = 1 << 20
# all but the plan; an init that was killed between two renames may leave some of them behind
_PARTS = (LOCK_FILE, RUN_LOCK_FILE, CASES_NAME, ORDER_NAME, RECEIPTS, LEDGER_FILE)
_NOT_OURS_BUT_FINE = {"lost+found"}  # stands in every fresh ext4 mount point


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a store is to be bound to; None takes what the store has, or the default."""

    input: str | None  # a path, or "-" for standard input
    rules: Rules
    shards: int | None = None
    scorer: ScorerName | None = None
    models: tuple[str, ...] | None = None


def check_request(plan: Plan, request: Request, *, store: str) -> None:
    """Refuse an input or an option that is not the stored run's; raises `IdentityMismatch`."""
    stored = plan.identity
    dataset = stored.dataset_sha256
    if request.input is not None:
        with contextlib.ExitStack() as stack:
            folder = _scratch(store, stack) if must_spool(request.input) else ""
            dataset = _digest_as_before(
                _source(request.input, folder, request.rules), request, store=store
            )
    given = Identity(
        dataset_sha256=dataset,
        shards=stored.shards if request.shards is None else request.shards,
        scorer=stored.scorer if request.scorer is None else request.scorer,
        models=stored.models if request.models is None else request.models,
    )
    check_identity(stored, given, store=store)


def _scratch(store: str, stack: contextlib.ExitStack) -> str:
    """Make a folder for a copy of the input: beside the cases, where the like of it has found room.

    A store that cannot be written is held against its input all the same.
    """
    try:
        return stack.enter_context(staging_folder(store))
    except StorageError:
        with storage_errors("the folder for temporary files"):
            return stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-"))


def initialize(path: str, request: Request, *, default_scorer: ScorerName) -> None:
    """Make a store of an input at `path`; leave nothing when that fails.

    `path` must be absent or empty. Raises `SpecError` with every problem of the input, or
    `StorageError`.
    """
    _make(path, lambda staging: _stage(staging, request, default_scorer=default_scorer))


def initialize_copy(path: str, original: DirectoryStore, *, scorer: ScorerName) -> None:
    """Make a store at `path` of the cases of another, to be scored anew; see `initialize`."""
    _make(path, lambda staging: _stage_copy(staging, original, scorer=scorer))


def _make(path: str, stage: Callable[[str], Plan]) -> None:
    _check_vacant(path)
    made = make_folders(path)
    _clear_leftovers(path)
    try:
        with staging_folder(path) as staging:
            plan = stage(staging)
            _move_into_place(path, staging, plan)
    except BaseException:
        remove_folders(made)
        raise


def _check_vacant(path: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):
        raise SpecError(f"{path!r} is a link to nothing: give --store a directory")
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        raise SpecError(f"{path!r} is a file: give --store a directory")
    if exists(path):
        raise _late(path)
    with storage_errors(path):
        names = os.listdir(path)
    ours = {part for staging in stagings(path) for part in _moved_from(staging)}
    foreign = [
        name
        for name in sorted(names)
        if name not in _NOT_OURS_BUT_FINE | ours and not is_staging(name)
    ]
    if foreign:
        raise SpecError(
            f"{path!r} is neither empty nor a store, it holds {foreign[0]!r}: "
            "give --store a new or empty directory"
        )


def _moved_from(staging: str) -> set[str]:
    """Name the parts that an init had moved into place when it was killed.

    It moves the plan last, so a staging folder that holds the plan and lacks a part has moved
    it. A file of that name for which no staging folder speaks is somebody else's.
    """
    if not os.path.exists(os.path.join(staging, PLAN_FILE)):
        return set()
    return {part for part in _PARTS if not os.path.lexists(os.path.join(staging, part))}


def _clear_leftovers(path: str) -> None:
    """Remove the parts that killed inits have moved, while their staging tells whose they are."""
    lock, folder = FileLock(path, folder=True), Folder(path)
    try:
        with lock.held(timeout_s=_LOCK_TIMEOUT_S):
            for staging in stagings(path, alive=is_alive):
                _take_back(folder, _moved_from(staging))
    finally:
        lock.close()
        folder.close()


def _late(path: str) -> SpecError:
    return SpecError(f"{path!r} has become a store by another init: run the command again")


def _stage(staging: str, request: Request, *, default_scorer: ScorerName) -> Plan:
    if request.input is None:
        raise SpecError("a new store needs an input: give --input FILE")
    source = _source(request.input, staging, request.rules)
    shards = _shard_count(source, request)
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
        grouped=staged.grouped,
    )
    _write_plan(staging, plan)
    return plan


def _stage_copy(staging: str, original: DirectoryStore, *, scorer: ScorerName) -> Plan:
    for name in (CASES_NAME, ORDER_NAME):
        path = os.path.join(original.path, name)
        with FreshFile(os.path.join(staging, name)) as copy, storage_errors(path):
            with open(open_to_read(path), "rb") as source:
                while block := source.read(_COPY_BYTES):
                    copy.write(block)
            copy.sync()
    plan = original.plan
    plan = make_plan(
        identity=replace(plan.identity, scorer=scorer),
        tasks_sha256=plan.tasks_sha256,
        cases=plan.cases,
        shards=plan.shards,
        grouped=plan.grouped is True,
    )
    _write_plan(staging, plan)
    return plan


def _write_plan(staging: str, plan: Plan) -> None:
    """Write all but the cases."""
    folder = Folder(staging)
    try:
        with storage_errors(staging):
            os.mkdir(RECEIPTS, 0o700, dir_fd=folder.fd)
        for name in (LOCK_FILE, RUN_LOCK_FILE):
            FileLock(os.path.join(staging, name)).close()
        folder.create_once(
            {LEDGER_FILE: encode_ledger(first_ledger(plan))[0], PLAN_FILE: encode_plan(plan)}
        )
    finally:
        folder.close()


def _shard_count(source: Source, request: Request) -> int:
    if request.shards is not None:
        return request.shards
    try:
        return default_shards(count_cases(source, request.rules))
    except SpecError:
        # the input breaks off: reading it names this again, and every bad record before it
        return default_shards(0)


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


def _source(input: str, folder: str, rules: Rules) -> Source:
    """Find the input; one that can be read only once is copied into `folder` first."""
    if not must_spool(input):
        return find_source(input)
    copy = os.path.join(folder, "input")
    with contextlib.ExitStack() as stack:
        fd = 0 if input == "-" else stack.enter_context(open(input, "rb")).fileno()
        refuse_device(fd, input)
        stream = stack.enter_context(open(fd, "rb", closefd=False))
        spool(stream, copy, given=input, max_line_bytes=rules.max_line_bytes)
    return find_source(copy, spooled_from=input)


def _digest_as_before(source: Source, request: Request, *, store: str) -> str:
    """Digest an input that a store was made of, if it is read by the rules of that time."""
    try:
        return _digest(source, request.rules)
    except SpecError as error:
        if not error.problems:
            raise
        message = (
            f"{store!r} is there already, and --input does not read as what it was made of: leave "
            "--input out, or give --map, --auto-id, --coerce, --ignore-extra and --max-text-bytes "
            "as they were given then"
        )
        raise SpecError(message, problems=error.problems, total=error.total) from error


def _digest(source: Source, rules: Rules) -> str:
    digest = DatasetDigest()
    for batch in read_cases(source, rules):
        digest.update(batch.lines.split(b"\n")[:-1])
    return digest.dataset_sha256


def _move_into_place(path: str, staging: str, plan: Plan) -> None:
    """Rename the staged files, each durable, and the plan after all others.

    When that fails before the plan is there, those renamed are removed again.
    """
    # on the folder itself: a failed init must not leave a lock file
    lock = FileLock(path, folder=True)
    folder, staged = Folder(path), Folder(staging)
    try:
        with lock.held(timeout_s=_LOCK_TIMEOUT_S):
            if exists(path):
                raise _late(path)
            staged.sync()
            moved: set[str] = set()
            try:
                for name in _PARTS:
                    _move(name, staged, folder)
                    moved.add(name)
                folder.sync()
                _move(PLAN_FILE, staged, folder)
            except BaseException:
                _take_back(folder, moved)
                raise
            folder.sync()
    finally:
        lock.close()
        staged.close()
        folder.close()


def _take_back(folder: Folder, names: set[str]) -> None:
    """Remove parts that an init has moved; once the plan has its name they are the store's."""
    if exists(folder.path):
        return
    for name in names:
        with contextlib.suppress(OSError):
            remove = os.rmdir if name == RECEIPTS else os.unlink
            remove(name, dir_fd=folder.fd)


def _move(name: str, staged: Folder, folder: Folder) -> None:
    with storage_errors(os.path.join(folder.path, name)):
        os.rename(name, name, src_dir_fd=staged.fd, dst_dir_fd=folder.fd)
