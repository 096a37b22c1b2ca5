"""Reading what is beside a run's receipts, also while a run writes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from farm.core.generation import Generation
from farm.errors import Corrupt
from farm.store.cache import GenerationCache
from farm.store.recheck import cache_problems, ledger_problems


def test_answers_that_only_the_log_of_the_database_has_are_checked(tmp_path: Path) -> None:
    """While a run has it open, and under a name that is no plain one in a URI."""
    path = tmp_path / "a?mode=rw%20&b#c"

    async def story() -> None:
        cache = GenerationCache(str(path))
        try:
            await cache.keep("0" * 64, Generation("right"), model="m")
            assert list(cache_problems(str(path))) == []
            log = tmp_path / (path.name + "-wal")
            assert log.stat().st_size > 0
            cache._writer.execute("UPDATE generations SET value = x'7b'")
            (problem,) = cache_problems(str(path))
            assert problem == f"{path}: the answer {'0' * 64} was changed"
        finally:
            cache.close()

    asyncio.run(story())
    assert {file.name for file in tmp_path.iterdir()} == {path.name}


def test_files_that_are_not_there_have_no_problems(tmp_path: Path) -> None:
    """A run that has asked nothing yet has neither."""
    assert list(ledger_problems(str(tmp_path / "costs.jsonl"))) == []
    assert list(cache_problems(str(tmp_path / "generations.sqlite"))) == []


def test_many_faults_are_told_in_a_few_lines(tmp_path: Path) -> None:
    """Of a file that is of something else altogether the first twenty are named."""
    path = tmp_path / "costs.jsonl"
    path.write_bytes(b"no\n" * 1000)
    told = list(ledger_problems(str(path)))
    assert len(told) == 21
    assert told[0] == f"{path}: line 1 is not an entry"
    assert told[-1] == f"{path}: 979 more faults of this kind"  # the last line may be a cut one


def test_a_database_whose_schema_is_no_text_is_damaged(tmp_path: Path) -> None:
    """SQLite quotes the schema in its message, which Python then cannot decode."""
    path = tmp_path / "generations.sqlite"
    GenerationCache(str(path)).close()
    path.write_bytes(path.read_bytes().replace(b"TABLE generations", b"TABLE gener\xfftions"))
    (problem,) = cache_problems(str(path))
    assert "malformed database schema" in problem
    with pytest.raises(Corrupt, match="malformed database schema"):
        GenerationCache(str(path))
