"""No result may be written over what a command reads: its stores, its inputs, its answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from farm.errors import UsageError

_BESIDE = ("", "-wal", "-shm", "-journal")  # of a database


def check_written(
    path: str,
    *,
    option: str,
    stores: Iterable[str] = (),
    inputs: Mapping[str, str | None],
    cache: str | None = None,
) -> None:
    """Refuse to write to `path` what would be lost there; raises `UsageError`, touches nothing.

    `option` names `path` in messages. `stores` may be there or not; what lies inside of one is
    refused, whatever its name. `inputs` are files by the option that names them, None for one
    that was not given. Links of both kinds are seen through, and so is a name in other letters
    where the file system does not tell them apart.
    """
    for store in stores:
        folder = os.path.realpath(store)
        if any(_same(place, folder) for place in _upwards(os.path.realpath(path))):
            what = "directory" if option == "--into" else "file"
            place = f"{option} {path!r} is inside of the store {store!r}"
            raise UsageError(f"{place}: give a {what} outside of it")
        linked = os.path.isfile(path) and os.stat(path).st_nlink > 1
        if linked and any(_same(path, file) for file in _files(folder)):
            raise UsageError(f"{option} {path!r} is a file of the store {store!r}: give another")
    for name, given in inputs.items():
        if given is not None and _same(path, given):
            raise _refused(path, option, name)
    if cache is not None and any(_same(path, cache + end) for end in _BESIDE):
        raise _refused(path, option, "--cache")


def check_result(path: str | None, *, summary: str, sides: Sequence[tuple[str, str]]) -> None:
    """Refuse a result, or a job's summary, that would be written over what it is made of.

    `sides` are what is read, stores and files, each after what names it; None and "" are results
    that go to no file. Raises `UsageError`.
    """
    stores = [place for _, place in sides if os.path.isdir(place)]
    inputs = {name: place for name, place in sides if not os.path.isdir(place)}
    for option, target in (("--output", path), ("GITHUB_STEP_SUMMARY", summary)):
        if target:
            check_written(target, option=option, stores=stores, inputs=inputs)


def _refused(path: str, option: str, name: str) -> UsageError:
    return UsageError(
        f"{option} {path!r} is the file of {name}, which it would spoil: give another"
    )


def _same(path: str, other: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return False


def _upwards(path: str) -> Iterator[str]:
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def _files(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(place, name)
