"""Which shard a case belongs to, decided by its id alone.

The bucket is FNV-1a-32 of the id's UTF-8 bytes, mod the shard count: stable across versions,
machines and orders of the file. Many ids at once are `farm.core.buckets`, which needs numpy;
this module stays light because every worker process loads it.
"""

from __future__ import annotations

from typing import Final

from farm.errors import SpecError

MAX_SHARDS: Final = 1024
FNV_OFFSET: Final = 0x811C9DC5  # FNV-1a, 32 bits: draft-eastlake-fnv
FNV_PRIME: Final = 0x01000193
_FEW_CASES: Final = 10_000
_FEW_SHARDS: Final = 4
_CASES_PER_SHARD: Final = 2_500
_PREFIX: Final = "shard-"


def bucket(id: str, shards: int) -> int:
    """Return the bucket of one id among `shards` buckets, 0 to shards - 1."""
    value = FNV_OFFSET
    for byte in id.encode():
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return value % shards


def shard_name(index: int) -> str:
    """Return the name of the shard that holds bucket `index`."""
    return f"{_PREFIX}{index}"


def shard_index(name: str) -> int:
    """Return the bucket a shard's name stands for; the inverse of `shard_name`.

    Raises SpecError for anything `shard_name` would not have written.
    """
    digits = name.removeprefix(_PREFIX)
    # a bucket has four digits at most; the bound keeps int() away from hostile lengths
    if digits.isascii() and digits.isdigit() and len(digits) <= 4:
        index = int(digits)
        if index < MAX_SHARDS and shard_name(index) == name:
            return index
    raise SpecError(f"{name!r} is no shard: give a name such as 'shard-0', as status prints them")


def default_shards(cases: int) -> int:
    """Return the shard count for a new store of `cases` cases when none was asked for.

    Four up to 10,000 cases, then one for every 2,500 cases, at most 1,024.
    """
    if cases <= _FEW_CASES:
        return _FEW_SHARDS
    return min(cases // _CASES_PER_SHARD, MAX_SHARDS)
