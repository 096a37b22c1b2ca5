"""The folder in which a store is made before it is moved into place, and who still uses it.

An init that is killed leaves its folder behind. It is removed by the next init or run, which can
tell: the maker's process is gone and nobody holds the lock in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator

from farm.files.atomic import storage_errors
from farm.files.incarnation import is_alive
from farm.files.lock import FileLock

STAGING = ".init-"
_NAME = re.compile(re.escape(STAGING) + r"(\d+)-[0-9a-f]{8}")
_OWNER = "owner"
_LOCK_TIMEOUT_S = 10.0


@contextlib.contextmanager
def staging_folder(path: str) -> Iterator[str]:
    """Make a staging folder in `path` that is known to be in use for as long as this lasts."""
    sweep_staging(path, alive=is_alive)
    staging = os.path.join(path, f"{STAGING}{os.getpid()}-{secrets.token_hex(4)}")
    with storage_errors(staging):
        os.mkdir(staging, 0o700)
    try:
        # named only once it is held: whoever sees an owner that he can lock sees a dead one
        unnamed = os.path.join(staging, f"{_OWNER}.new")
        owner = FileLock(unnamed)
        try:
            owner.acquire(timeout_s=_LOCK_TIMEOUT_S)
            with storage_errors(staging):
                os.rename(unnamed, os.path.join(staging, _OWNER))
            yield staging
        finally:
            owner.close()
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def is_staging(name: str) -> bool:
    """Tell whether a file name is that of a staging folder."""
    return _NAME.fullmatch(name) is not None


def stagings(path: str, *, alive: Callable[[int], bool] | None = None) -> list[str]:
    """Give the staging folders in `path`; with `alive`, only those whose makers are dead."""
    with storage_errors(path):
        names = os.listdir(path)
    found = [os.path.join(path, name) for name in names if is_staging(name)]
    if alive is None:
        return found
    return [staging for staging in found if not _in_use(staging, alive=alive)]


def sweep_staging(path: str, *, alive: Callable[[int], bool]) -> None:
    """Remove the staging folders in `path` whose makers are dead."""
    for staging in stagings(path, alive=alive):
        shutil.rmtree(staging, ignore_errors=True)


def _in_use(staging: str, *, alive: Callable[[int], bool]) -> bool:
    maker = int(os.path.basename(staging).removeprefix(STAGING).partition("-")[0])
    # in a container the next process often has the pid of the killed one: then the lock decides
    if maker != os.getpid() and alive(maker):
        return True
    owner = os.path.join(staging, _OWNER)
    if not os.path.exists(owner):
        # killed in its first moments; with our own id it may be in them now, in another thread
        return maker == os.getpid()
    lock = FileLock(owner)
    try:
        return not lock.try_acquire()
    finally:
        lock.close()
