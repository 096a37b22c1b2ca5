"""Paid answers survive: commits, kills, other processes, and bytes that change on disk."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.core.generation import (
    Failure,
    Generation,
    ToolCall,
    Usage,
    decode_generation,
    encode_generation,
)
from farm.errors import Corrupt, StorageError, StorageFull
from farm.store.cache import GenerationCache

FULL = Generation(
    "four\u2028\N{SLIGHTLY SMILING FACE}",
    0.5,
    0.7,
    1,
    confidence_source="reported",
    usage=Usage(prompt_tokens=3, cached_tokens=0),
    finish_reason="stop",
    model_version="v",
    reasoning="r",
    tool_calls=(ToolCall(name="f", arguments="{"),),
    warnings=("no_done",),
)


def digest(number: int) -> str:
    return f"{number:064x}"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[GenerationCache]:
    cache = GenerationCache(str(path))
    try:
        yield cache
    finally:
        cache.close()


def test_what_was_kept_is_found_by_whoever_opens_the_file_next(tmp_path: Path) -> None:
    """Every field comes back as it was, and a digest that was not kept finds nothing."""

    async def story() -> None:
        async with opened(tmp_path / "g.sqlite") as cache:
            assert await cache.find(digest(1)) is None
            assert await cache.keep(digest(1), FULL, model="m") == FULL
        async with opened(tmp_path / "g.sqlite") as cache:
            assert await cache.find(digest(1)) == FULL
            assert await cache.find(digest(2)) is None
            assert cache.count() == 1

    asyncio.run(story())
    mode = stat.S_IMODE((tmp_path / "g.sqlite").stat().st_mode)
    assert mode == 0o600


@given(
    text=st.text(st.characters(codec="utf-8")),
    confidence=st.none() | st.floats(0, 1),
    nll=st.none() | st.floats(0, 1e9),
    count=st.none() | st.integers(0, 2**40),
    usage=st.none() | st.builds(Usage, prompt_tokens=st.none() | st.integers(0, 2**40)),
    failure=st.none() | st.builds(Failure, kind=st.text(max_size=5), detail=st.text(max_size=5)),
)
def test_a_generation_comes_back_from_its_json_as_it_was(
    text: str,
    confidence: float | None,
    nll: float | None,
    count: int | None,
    usage: Usage | None,
    failure: Failure | None,
) -> None:
    """Law: None and 0 are kept apart, floats to the last bit."""
    generation = Generation(text, confidence, nll, count, usage=usage, failure=failure)
    assert decode_generation(encode_generation(generation)) == generation


def test_the_first_answer_kept_is_the_one_that_counts(tmp_path: Path) -> None:
    """Two runs that share a file must report the same answer, whoever asked first."""

    async def story() -> None:
        async with opened(tmp_path / "g") as one, opened(tmp_path / "g") as other:
            await one.keep(digest(1), Generation("first"), model="m")
            assert (await other.keep(digest(1), Generation("second"), model="m")).text == "first"
            found = await other.find(digest(1))
            assert found is not None
            assert found.text == "first"

    asyncio.run(story())


def test_an_answer_that_is_kept_comes_back_as_itself_and_no_other_does(tmp_path: Path) -> None:
    """Also where some of those that share a commit were kept before, by equal words."""

    async def story() -> list[bool]:
        async with opened(tmp_path / "c") as cache:
            await cache.keep(digest(1), Generation("same"), model="m")
            given_ = [Generation("same") for _ in range(3)]
            numbers = zip((0, 1, 2), given_, strict=True)
            kept = await asyncio.gather(*(cache.keep(digest(n), g, model="m") for n, g in numbers))
            return [one is other for one, other in zip(kept, given_, strict=True)]

    assert asyncio.run(story()) == [True, False, True]


def test_many_answers_are_kept_and_found_at_once(tmp_path: Path) -> None:
    """250 of them, more than one statement takes; half were there, twenty are asked for twice."""

    async def story() -> None:
        async with opened(tmp_path / "g.sqlite") as cache:
            before = [cache.keep(digest(n), Generation("old"), model="m") for n in range(125)]
            await asyncio.gather(*before)
            keeping = [cache.keep(digest(n), Generation("new"), model="m") for n in range(250)]
            kept = [generation.text for generation in await asyncio.gather(*keeping)]
            assert kept == ["old"] * 125 + ["new"] * 125
            asked = [*range(260), *range(20)]
            found = await cache.find_many([digest(n) for n in asked])
            texts = [None if one is None else one.text for one in found]
            assert texts == ["old"] * 125 + ["new"] * 125 + [None] * 10 + ["old"] * 20
            assert cache.count() == 250

    asyncio.run(story())


def test_answers_that_come_together_share_a_commit(tmp_path: Path) -> None:
    """A thousand answers in one go: the log grows by one commit, not by a thousand."""

    async def story() -> int:
        async with opened(tmp_path / "g") as cache:
            before = (tmp_path / "g-wal").stat().st_size
            kept = (cache.keep(digest(n), Generation("x"), model="m") for n in range(1000))
            await asyncio.gather(*kept)
            assert cache.count() == 1000
            return (tmp_path / "g-wal").stat().st_size - before

    # every commit writes at least two pages of 4 KiB anew; a thousand would be 8 MB
    assert asyncio.run(story()) < 1_500_000


WRITER = """
import asyncio, sys
from farm.core.generation import Generation
from farm.store.cache import GenerationCache

async def main(path, first):
    cache = GenerationCache(path)
    async def one(number):
        await cache.keep(f"{number:064x}", Generation(f"answer {number}"), model="m")
        print(number, flush=True)
    for start in range(first, first + 100000, 8):
        await asyncio.gather(*(one(n) for n in range(start, start + 8)))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def test_no_acknowledged_answer_is_lost_by_a_kill(tmp_path: Path) -> None:
    """Two processes write to one file and are killed; what either said is kept is there."""
    path = tmp_path / "g"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE
        )
        for first in (0, 1_000_000)
    ]
    said: list[int] = []
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(40):
            said.append(int(writer.stdout.readline()))
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    for writer in writers:
        rest, _ = writer.communicate()
        said += [int(line) for line in rest.splitlines() if line.strip()]

    async def story() -> None:
        async with opened(path) as cache:
            for number in said:
                found = await cache.find(f"{number:064x}")
                assert found == Generation(f"answer {number}")

    assert len(said) >= 80
    asyncio.run(story())


def test_a_byte_that_changed_on_disk_is_found_where_it_is_read(tmp_path: Path) -> None:
    """SQLite itself has no checksums: the row has its own."""
    path = tmp_path / "g"

    async def fill() -> None:
        async with opened(path) as cache:
            await cache.keep(digest(1), Generation("a very remarkable answer"), model="m")
            await cache.keep(digest(2), Generation("another"), model="m")

    async def read() -> None:
        async with opened(path) as cache:
            assert await cache.find(digest(2)) == Generation("another")
            with pytest.raises(Corrupt, match="was changed"):
                await cache.find(digest(1))

    asyncio.run(fill())
    data = path.read_bytes()
    assert data.count(b"remarkable") == 1
    path.write_bytes(data.replace(b"remarkable", b"remarkably"))
    asyncio.run(read())


def test_a_file_that_is_no_cache_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    """Text, another program's database, and one with its first page gone."""
    text = tmp_path / "notes.txt"
    text.write_bytes(b"these are my notes\n" * 100)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE bills (id)")
    connection.close()
    broken = tmp_path / "broken"
    GenerationCache(str(broken)).close()
    broken.write_bytes(b"\0" * 100 + broken.read_bytes()[100:])
    for path in (text, other, broken):
        before = path.read_bytes()
        with pytest.raises(Corrupt):
            GenerationCache(str(path))
        assert path.read_bytes() == before


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    """A missing folder, and a folder in the place of the file."""
    for path in (tmp_path / "missing" / "g", tmp_path):
        with pytest.raises(StorageError, match=str(path)):
            GenerationCache(str(path))


def test_a_full_disk_is_told_and_what_was_kept_is_still_there(tmp_path: Path) -> None:
    """The page limit stands in for the disk: SQLite says the same of both."""

    async def story() -> None:
        async with opened(tmp_path / "g") as cache:
            await cache.keep(digest(1), FULL, model="m")
            pages = cache._writer.execute("PRAGMA page_count").fetchone()[0]
            cache._writer.execute(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StorageFull):
                await cache.keep(digest(2), Generation("x" * 100_000), model="m")
            with pytest.raises(StorageError):  # the outcome of a failed write is never guessed at
                await cache.keep(digest(3), Generation("x"), model="m")
            assert await cache.find(digest(1)) == FULL
            assert await cache.find(digest(2)) is None

    asyncio.run(story())


def test_a_caller_that_goes_away_does_not_stop_the_others(tmp_path: Path) -> None:
    """A case whose time ran out; its answer is kept all the same."""

    async def story() -> None:
        async with opened(tmp_path / "g") as cache:
            tasks = [
                asyncio.ensure_future(cache.keep(digest(n), Generation(str(n)), model="m"))
                for n in range(10)
            ]
            await asyncio.sleep(0)
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            assert [r.text for r in results[1:] if isinstance(r, Generation)] == list("123456789")
            assert await cache.find(digest(0)) == Generation("0")

    asyncio.run(story())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=12))
def test_a_cache_is_a_dictionary_that_keeps_the_first(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[int, str]]
) -> None:
    """Law: whatever is kept in whatever order, also the same digest twice in one commit."""
    path = tmp_path_factory.mktemp("cache") / "g"
    model: dict[int, str] = {}
    for number, text in story:
        model.setdefault(number, text)

    async def play() -> None:
        async with opened(path) as cache:
            kept = await asyncio.gather(
                *(cache.keep(digest(n), Generation(t), model="m") for n, t in story)
            )
            assert [g.text for g in kept] == [model[n] for n, _ in story]
            for number, text in model.items():
                assert await cache.find(digest(number)) == Generation(text)

    asyncio.run(play())


def test_an_answer_is_durable_within_the_promised_time(tmp_path: Path) -> None:
    """50 ms, measured on a quiet moment: the best of ten, since the machine only adds time."""

    async def story() -> float:
        best = 1.0
        async with opened(tmp_path / "g") as cache:
            for number in range(10):
                began = time.perf_counter()
                await cache.keep(digest(number), FULL, model="m")
                best = min(best, time.perf_counter() - began)
        return best

    assert asyncio.run(story()) < 0.05


def test_answers_that_still_gather_when_the_file_is_closed_are_kept(tmp_path: Path) -> None:
    """A worker that ends on an error cancels who waits; what was paid for is written down."""

    async def story() -> None:
        async with opened(tmp_path / "g") as cache:
            tasks = [
                asyncio.ensure_future(cache.keep(digest(n), Generation(str(n)), model="m"))
                for n in range(3)
            ]
            await asyncio.sleep(0)  # they are handed over, and no batch has begun
            for task in tasks:
                task.cancel()

    asyncio.run(story())

    async def later() -> list[Generation | None]:
        async with opened(tmp_path / "g") as cache:
            return await cache.find_many([digest(n) for n in range(3)])

    assert asyncio.run(later()) == [Generation("0"), Generation("1"), Generation("2")]
