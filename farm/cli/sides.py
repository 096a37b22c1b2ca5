"""What `farm compare` and `farm gate` are pointed at: a store, or a saved report."""

from __future__ import annotations

import os

import msgspec

from farm.errors import SpecError
from farm.report.compare import RunSide
from farm.store.directory import DirectoryStore
from farm.wiring import open_store


def model_of(store: DirectoryStore) -> str:
    """Give the name of the model a store is of: as it was initialized, else its folder's name."""
    models = store.plan.identity.models
    if len(models) > 1:
        raise SpecError(f"{store.path!r} holds {len(models)} models, this command takes one each")
    return models[0] if models else _shown(os.path.basename(os.path.abspath(store.path)))


def read_side(path: str) -> RunSide:
    """Read a store, or a saved report; raises `SpecError` when it is neither."""
    # here and not at the top: numpy loads for 100 ms, which --help does not need
    from farm.files.output import read_input
    from farm.report.saved import read_saved
    from farm.runtime.sides import side_of
    from farm.runtime.trials import recorded

    if os.path.isdir(path):
        with open_store(path) as store:
            return side_of(recorded(store, model=model_of(store)))
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


def _shown(path: str) -> str:
    # bytes of a path that are no UTF-8 come as lone surrogates, which no output can carry
    return os.fsencode(path).decode("utf-8", "replace")
