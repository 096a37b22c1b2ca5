"""No result may be written over what a run is made of: its store, its inputs, its answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from farm.errors import UsageError

_BESIDE = ("", "-wal", "-shm", "-journal")  # of a database


def check_stream(
    path: str, *, store: str, inputs: Mapping[str, str | None], cache: str | None
) -> None:
    """Refuse to write to `path` what would be lost there; raises `UsageError`, touches nothing.

    `inputs` are files by the option that names them, None for one that was not given. Links of
    both kinds are seen through.
    """
    whole = os.path.realpath(path)
    folder = os.path.realpath(store)
    if whole == folder or whole.startswith(folder + os.sep):
        raise UsageError(
            f"--stream {path!r} is inside of the store {store!r}: give a file outside of it"
        )
    for option, given in inputs.items():
        if given is not None and _same(path, given):
            raise _refused(path, option)
    if cache is not None and any(_same(path, cache + end) for end in _BESIDE):
        raise _refused(path, "--cache")
    linked = os.path.isfile(path) and os.stat(path).st_nlink > 1
    if linked and any(os.path.samefile(path, file) for file in _files(folder)):
        raise UsageError(f"--stream {path!r} is a file of the store {store!r}: give another")


def _refused(path: str, option: str) -> UsageError:
    return UsageError(
        f"--stream {path!r} is the file of {option}, and would replace it: give another"
    )


def _same(path: str, other: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return False


def _files(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(place, name)
