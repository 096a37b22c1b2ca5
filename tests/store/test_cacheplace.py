"""Where a run's answers are kept, and that its store remembers it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from farm.core.generation import Generation
from farm.errors import Corrupt, SpecError
from farm.store.cache import GenerationCache
from farm.store.cacheplace import place_of_cache


def test_answers_are_kept_in_the_store_unless_said_otherwise(tmp_path: Path) -> None:
    """And nothing is written down for that."""
    assert place_of_cache(str(tmp_path), None) == str(tmp_path / "generations.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_another_place_is_remembered_and_may_change(tmp_path: Path) -> None:
    """The last one that was given counts; asking again writes nothing."""
    store = tmp_path / "store"
    store.mkdir()
    places = [tmp_path / "first", tmp_path / "änderung"]
    for place in places:
        assert place_of_cache(str(store), str(place)) == str(place)
        place.touch()
        assert place_of_cache(str(store), None) == str(place)
    (noted,) = store.iterdir()
    before = noted.stat()
    place_of_cache(str(store), str(places[-1]))
    assert noted.stat() == before


def test_a_place_that_is_gone_is_asked_for(tmp_path: Path) -> None:
    """An empty cache in its stead would have everything bought again."""
    place_of_cache(str(tmp_path), str(tmp_path / "gone"))
    (tmp_path / "gone").unlink()
    with pytest.raises(SpecError, match=r"which is not there: say by --cache FILE"):
        place_of_cache(str(tmp_path), None)


def keep(place: Path, answers: Mapping[str, str], *, model: str = "m") -> None:
    """Keep texts under digests of one repeated pair of hex digits."""

    async def all_of_them(cache: GenerationCache) -> None:
        for pair, text in answers.items():
            await cache.keep(pair * 32, Generation(text), model=model)

    with closing(GenerationCache(str(place))) as cache:
        asyncio.run(all_of_them(cache))


def kept(place: Path, pairs: str) -> list[str | None]:
    with closing(GenerationCache(str(place))) as cache:
        found = asyncio.run(cache.find_many([pair * 32 for pair in pairs.split()]))
    return [None if one is None else one.text for one in found]


def test_another_place_begins_with_what_the_former_holds(tmp_path: Path) -> None:
    """Of the run's own models; what the new one held before counts, and nothing is taken away."""
    store = tmp_path / "store"
    store.mkdir()
    keep(store / "generations.sqlite", {"aa": "paid", "bb": "paid"})
    keep(store / "generations.sqlite", {"cc": "of another run"}, model="x")
    first, second = tmp_path / "first", tmp_path / "second"
    keep(first, {"bb": "earlier"})
    place_of_cache(str(store), str(first), models=["m"])
    assert kept(first, "aa bb cc") == ["paid", "earlier", None]
    place_of_cache(str(store), str(second), models=["m"])
    assert kept(second, "aa bb") == ["paid", "earlier"]
    assert kept(store / "generations.sqlite", "aa bb cc") == ["paid", "paid", "of another run"]


def test_a_changed_answer_is_not_copied(tmp_path: Path) -> None:
    """And the new place is not remembered: the next call tries again."""
    own = tmp_path / "generations.sqlite"
    keep(own, {"aa": "paid"})
    with closing(sqlite3.connect(own)) as database, database:
        database.execute("UPDATE generations SET value = x'7b7d'")
    with pytest.raises(Corrupt, match="was changed"):
        place_of_cache(str(tmp_path), str(tmp_path / "new"), models=["m"])
    assert place_of_cache(str(tmp_path), None) == str(own)


def test_a_place_that_cannot_be_opened_is_not_remembered(tmp_path: Path) -> None:
    """A path that was mistyped once would stay in the way of every later call."""
    mistyped = tmp_path / "notes.txt"
    mistyped.write_text("not a database, and long enough to be none " * 30)
    before = mistyped.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt, match="not a database"):
            place_of_cache(str(tmp_path), str(mistyped))
        assert place_of_cache(str(tmp_path), None) == str(tmp_path / "generations.sqlite")
    good = str(tmp_path / "good.sqlite")
    assert place_of_cache(str(tmp_path), good) == good
    assert mistyped.read_bytes() == before
