"""Make a store for a plan that was put together elsewhere, not from a prediction file.

The store has every file of any other; it exists from the moment its plan does, so a making that
was killed is simply done again.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping, Set
from sys import byteorder

from farm.core.ledger import encode_ledger
from farm.core.partition import shard_index
from farm.core.plan import Plan, decode_plan, encode_plan, first_ledger
from farm.errors import IdentityMismatch, SpecError
from farm.files.atomic import Folder, make_folders, open_written, storage_errors
from farm.files.lock import FileLock
from farm.store.casefile import CASES_NAME, ORDER_NAME
from farm.store.directory import LEDGER_FILE, LOCK_FILE, PLAN_FILE, RECEIPTS, RUN_LOCK_FILE

_LOCK_TIMEOUT_S = 10.0
_OURS = {CASES_NAME, ORDER_NAME, RECEIPTS, LEDGER_FILE, LOCK_FILE, RUN_LOCK_FILE, "lost+found"}


def ensure_planned(
    path: str, plan: Plan, *, cases: bytes, extras: Mapping[str, bytes] | None = None
) -> bool:
    """Make a store at `path` or hold the one that is there against `plan`; True when it was made.

    `cases` are the canonical records in the order of the plan's shards, `extras` files that the
    plan speaks of, by name. Raises
    `IdentityMismatch` for the store of another plan, `SpecError` for a folder of other things.
    """
    if os.path.exists(os.path.join(path, PLAN_FILE)):
        _check_same(path, plan)
        return False
    more = extras or {}
    _check_vacant(path, ours=_OURS | more.keys())
    make_folders(path)
    lock = FileLock(os.path.join(path, LOCK_FILE))
    folder = Folder(path)
    try:
        with lock.held(timeout_s=_LOCK_TIMEOUT_S):
            if os.path.exists(os.path.join(path, PLAN_FILE)):  # another was quicker
                _check_same(path, plan)
                return False
            FileLock(os.path.join(path, RUN_LOCK_FILE)).close()
            with storage_errors(os.path.join(path, RECEIPTS)):
                os.makedirs(os.path.join(path, RECEIPTS), 0o700, exist_ok=True)
            folder.replace(CASES_NAME, cases)
            folder.replace(ORDER_NAME, _order(plan))
            for name, data in more.items():
                folder.replace(name, data)
            folder.replace(LEDGER_FILE, encode_ledger(first_ledger(plan))[0])
            folder.replace(PLAN_FILE, encode_plan(plan))
    finally:
        folder.close()
        lock.close()
    return True


def _check_same(path: str, plan: Plan) -> None:
    place = os.path.join(path, PLAN_FILE)
    with storage_errors(place), open(open_written(place), "rb") as file:
        stored = decode_plan(file.read(), path=place)
    if stored.run_id != plan.run_id:
        raise IdentityMismatch(
            store=path, field="configuration of run", stored=stored.run_id, given=plan.run_id
        )


def _check_vacant(path: str, *, ours: Set[str]) -> None:
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        raise SpecError(f"{path!r} is a file: give a directory")
    with storage_errors(path):
        names = sorted(os.listdir(path))
    foreign = [name for name in names if name not in ours and not name.endswith(".tmp")]
    if foreign:
        raise SpecError(
            f"{path!r} is neither empty nor a store, it holds {foreign[0]!r}: "
            "give a new or empty directory"
        )


def _order(plan: Plan) -> bytes:
    order = array("H")
    for shard in plan.shards:
        order.extend([shard_index(shard.name)] * shard.cases)
    if byteorder == "big":
        order.byteswap()
    return order.tobytes()
