"""What `farm compare` and `farm gate` are pointed at: a store, or a saved report."""

from __future__ import annotations

import os

import msgspec

from farm.errors import SpecError
from farm.report.side import RunSide
from farm.store.directory import DirectoryStore, exists
from farm.wiring import open_store


def models_of(store: DirectoryStore) -> tuple[str, ...]:
    """Give the names of the models a store is of: as it was initialized, else its folder's name."""
    return store.plan.identity.models or (_shown(os.path.basename(os.path.abspath(store.path))),)


def read_side(path: str) -> RunSide:
    """Read a store, one model of it as ``DIR@MODEL``, or a saved report.

    Raises `SpecError` when it is none of these, and when a store has more models than one.
    """
    # here and not at the top: numpy loads for 100 ms, which --help does not need
    from farm.files.output import read_input
    from farm.report.saved import read_saved
    from farm.runtime.sides import side_of
    from farm.runtime.trials import recordings

    folder, model = _split(path)
    if os.path.isdir(folder):
        with open_store(folder) as store:
            names = models_of(store)
            wanted = model or names[0]
            if wanted not in names or not (model or len(names) == 1):
                raise SpecError(
                    f"{folder!r} holds {', '.join(names)}: name one of them as {folder}@MODEL"
                )
            return side_of(recordings(store, names=names)[names.index(wanted)])
    if not os.path.exists(path):
        raise SpecError(f"{path!r} is neither a store nor a saved report: there is no such file")
    return read_saved(read_input(path), path=_shown(path))


def read_pair(first: str, second: str) -> tuple[RunSide, RunSide]:
    """Read two sides; those of one name are told apart by their paths."""
    one, two = read_side(first), read_side(second)
    if one.label != two.label:
        return one, two
    return (
        msgspec.structs.replace(one, label=_shown(first)),
        msgspec.structs.replace(two, label=_shown(second)),
    )


def place_of(path: str) -> str:
    """Give the folder of a store, or the saved report, that a side would be read from."""
    folder, _ = _split(path)
    return folder if os.path.isdir(folder) else path


def _split(path: str) -> tuple[str, str]:
    """Tell a store's path from the model behind it; a folder of just that name goes first.

    Both may hold the mark: the store is what stands before the first mark that makes it one.
    """
    if os.path.isdir(path):
        return path, ""
    marks = [place for place, letter in enumerate(path) if letter == "@" and place]
    for is_it in (exists, os.path.isdir):  # a folder that is no store is refused by its name
        for place in marks:
            if is_it(path[:place]):
                return path[:place], path[place + 1 :]
    return path, ""


def _shown(path: str) -> str:
    # bytes of a path that are no UTF-8 come as lone surrogates, which no output can carry
    return os.fsencode(path).decode("utf-8", "replace")
