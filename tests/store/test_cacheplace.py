"""Where a run's answers are kept, and that its store remembers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import SpecError
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
    with pytest.raises(SpecError, match=r"which is not there: say by --cache FILE"):
        place_of_cache(str(tmp_path), None)
