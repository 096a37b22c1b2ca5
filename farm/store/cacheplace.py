"""Where the answers of a run are kept: in its store, or elsewhere, which the store remembers.

An evaluation that was begun with a cache elsewhere and is continued without naming it would buy
again what is kept there. One that is given another cache would buy again what the former holds:
so its answers are copied first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from farm.errors import SpecError
from farm.files.atomic import Folder, storage_errors

CACHE_FILE: Final = "generations.sqlite"
_PLACE: Final = "generations.place"  # holds the path of a cache that is not in the store


def place_of_cache(store: str, given: str | None, *, models: Sequence[str] = ()) -> str:
    """Give the absolute path of a run's answers; one that was given is remembered from now on.

    It is opened, and what the former place holds of `models` is copied, before: a run that is
    killed in between copies again, and a mistyped one is forgotten. Raises `SpecError` when the
    place that is remembered is not there and none is given, and what `GenerationCache` raises
    when one of both cannot be read or written.
    """
    own = os.path.abspath(os.path.join(store, CACHE_FILE))
    folder = Folder(store)
    try:
        remembered = _remembered(folder, store)
        if given is None:
            if remembered and not os.path.exists(remembered):
                raise SpecError(
                    f"{store!r}: its answers are kept in {remembered!r}, which is not there: "
                    "say by --cache FILE where they are now"
                )
            return remembered or own
        place = os.path.abspath(given)
        if place != remembered:
            _take_over(remembered or own, place, models)
            folder.replace(_PLACE, os.fsencode(place))
        return place
    finally:
        folder.close()


def remembered_place(store: str) -> str | None:
    """Give where a store's answers are kept outside of it, None where nothing says so."""
    try:
        with open(os.path.join(store, _PLACE), "rb") as file:
            return os.fsdecode(file.read()) or None
    except OSError:  # there is no store yet, or it keeps its answers itself
        return None


def answers_kept(store: str) -> str:
    """Give the file that holds answers of a store, "" where there is none."""
    place = remembered_place(store) or os.path.join(store, CACHE_FILE)
    return place if os.path.exists(place) else ""


def _take_over(former: str, place: str, models: Sequence[str]) -> None:
    from farm.store.cache import GenerationCache  # SQLite, for runs whose place changes alone

    with closing(GenerationCache(place)) as target:
        if os.path.exists(former) and not os.path.samefile(former, place):
            with closing(GenerationCache(former)) as source:
                target.copy_from(source, models=models)


def _remembered(folder: Folder, store: str) -> str:
    with storage_errors(os.path.join(store, _PLACE), passing=(FileNotFoundError,)):
        try:
            return os.fsdecode(folder.read(_PLACE))
        except FileNotFoundError:
            return ""
