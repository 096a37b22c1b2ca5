"""Which shard a case belongs to."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.buckets import buckets
from farm.core.partition import MAX_SHARDS, bucket, default_shards, shard_index, shard_name
from farm.errors import SpecError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def scalar_fnv(data: bytes) -> int:
    """FNV-1a, 32 bits, in sums of powers: 16777619 = 2^24 + 2^8 + 0x93."""
    value = 2166136261
    for byte in data:
        value ^= byte
        value = ((value << 24) + (value << 8) + value * 0x93) % 2**32
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0x811C9DC5), ("a", 0xE40C292C), ("b", 0xE70C2DE5), ("c", 0xE60C2C52),
     ("foobar", 0xBF9CF968), ("foob", 0x3F5076EF), ("chongo was here!\n", 0xD49930D5)],
)  # fmt: skip
def test_buckets_follow_the_published_values(text: str, value: int) -> None:
    """Values from the FNV reference test suite (test_fnv.c, FNV-1a 32)."""
    assert scalar_fnv(text.encode()) == value
    assert bucket(text, 2**32) == value
    assert bucket(text, 1009) == value % 1009
    assert buckets([text], 1009).tolist() == [value % 1009]


def test_the_sample_falls_into_its_published_shards() -> None:
    """With four shards case-d, case-c, case-b, case-a lie in shard-0 to shard-3."""
    assert [bucket(f"case-{letter}", 4) for letter in "dcba"] == [0, 1, 2, 3]


@given(st.lists(texts, max_size=20), st.integers(1, 65_536))
def test_many_at_once_are_each_as_alone(ids: list[str], shards: int) -> None:
    alone = [scalar_fnv(text.encode()) % shards for text in ids]
    assert buckets(ids, shards).tolist() == alone
    assert [bucket(text, shards) for text in ids] == alone


@given(st.integers(0, MAX_SHARDS - 1))
def test_a_name_leads_back_to_its_bucket(index: int) -> None:
    assert shard_index(shard_name(index)) == index


@pytest.mark.parametrize(
    "name",
    ["", "shard-", "shard-01", "shard--1", "shard-1024", "0", "Shard-0", "shard-0 ", "shard-１",
     "shard-" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_shard_name_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="is no shard"):
        shard_index(name)


@pytest.mark.parametrize(
    ("cases", "shards"),
    [(0, 4), (10_000, 4), (10_001, 4), (12_500, 5), (1_000_000, 400), (2_559_999, 1023),
     (2_560_000, 1024), (10**9, 1024)],
)  # fmt: skip
def test_default_shard_counts(cases: int, shards: int) -> None:
    """Four up to 10,000 cases, then cases // 2,500, at most 1,024."""
    assert default_shards(cases) == shards


def test_a_worker_can_partition_without_numpy() -> None:
    """Loading numpy costs a worker more than its whole start-up."""
    probe = "import sys, farm.core.partition, farm.core.canonical; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
