"""Derive the digests of a dataset again from the files of a store, for `farm verify`.

Follows `cases.order` and takes each record from the shard it names, so the records come by in
the order of the input. Memory is bounded by a piece a shard and one stretch of records, however
the file is laid out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from farm.core.canonical import DatasetDigest
from farm.core.partition import shard_name
from farm.errors import Corrupt
from farm.store.casefile import (
    CASES_NAME,
    ORDER_NAME,
    Extent,
    ShardCases,
    open_to_read,
    read_extent,
)

_STRETCH: Final = 32_768  # records placed at a time
_SHORTEST: Final = len(b"{}")
_PIECE_BYTES: Final = 16 << 10  # read ahead in each of up to 1,024 shards


def dataset_digests(directory: str, shards: Sequence[ShardCases]) -> tuple[str, str, int]:
    """Return dataset_sha256, tasks_sha256 and the number of cases a store really holds.

    Raises Corrupt when the order and the cases do not belong together: a shard that is not in
    the list, or has too few or too many records, or a line that cannot be one; and when there
    is more than the shards' records.
    """
    cases_path = os.path.join(directory, CASES_NAME)
    order_path = os.path.join(directory, ORDER_NAME)
    digest = DatasetDigest()
    count = 0
    fd = open_to_read(cases_path)
    try:
        records = {shard.index: _Records(fd, cases_path, shard) for shard in shards}
        for stretch in _order(order_path):
            digest.update(_placed(stretch, records, order_path))
            count += len(stretch)
        for reader in records.values():
            reader.expect_end()
        _expect_nothing_else(fd, cases_path, shards)
    finally:
        os.close(fd)
    return digest.dataset_sha256, digest.tasks_sha256, count


def _expect_nothing_else(fd: int, path: str, shards: Sequence[ShardCases]) -> None:
    """Raise Corrupt if the file holds bytes of no shard: whoever added them may think they count.

    The extents of a plan are as they were written, one after the other.
    """
    written = sum(length for shard in shards for _, length in shard.extents)
    size = os.fstat(fd).st_size
    if size != written:
        reason = f"has {size} bytes, the records of its shards are {written}"
        raise Corrupt(path=path, reason=reason)


def _order(path: str) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint16]]]:
    """Yield the buckets of the records in file order, some thousand at a time."""
    fd = open_to_read(path)
    try:
        left = os.fstat(fd).st_size
        if left % 2:
            raise Corrupt(path=path, reason=f"has an odd length, {left} bytes")
        offset = 0
        while left:
            length = min(left, 2 * _STRETCH)
            yield np.frombuffer(read_extent(fd, path, (offset, length)), dtype="<u2")
            offset, left = offset + length, left - length
    finally:
        os.close(fd)


def _placed(
    stretch: np.ndarray[tuple[int], np.dtype[np.uint16]],
    records: dict[int, _Records],
    order_path: str,
) -> list[bytes]:
    """Return the records of a stretch in the order it says."""
    placed = [b""] * len(stretch)
    by_bucket = stretch.argsort(kind="stable").tolist()
    start = 0
    for bucket, count in enumerate(np.bincount(stretch).tolist()):
        if not count:
            continue
        if bucket not in records:
            reason = f"names {shard_name(bucket)}, which the plan does not have"
            raise Corrupt(path=order_path, reason=reason)
        lines = records[bucket].take(count)
        for position, line in zip(by_bucket[start : start + count], lines, strict=True):
            placed[position] = line
        start += count
    return placed


class _Records:
    """The records of one shard, taken from the front, a piece of the file at a time."""

    def __init__(self, fd: int, path: str, shard: ShardCases) -> None:
        self._fd = fd
        self._path = path
        self._name = shard_name(shard.index)
        self._extents: list[Extent] = list(reversed(shard.extents))
        self._lines: list[bytes] = []  # whole records, the next one last
        self._begun = b""  # a record whose end was not read yet

    def take(self, count: int) -> list[bytes]:
        """Return the next `count` records without their newlines."""
        taken: list[bytes] = []
        while len(taken) < count:
            if not self._lines and not self._fill():
                reason = f"{self._name} has fewer records than the order file says"
                raise Corrupt(path=self._path, reason=reason)
            while self._lines and len(taken) < count:
                taken.append(self._lines.pop())
        return taken

    def expect_end(self) -> None:
        """Raise Corrupt if any record is left."""
        if self._lines or self._extents or self._begun:
            reason = f"{self._name} has more records than the order file says"
            raise Corrupt(path=self._path, reason=reason)

    def _fill(self) -> bool:
        """Read until there is a whole record; False when the shard is at its end."""
        parts = [self._begun]
        while self._extents:
            offset, length = self._extents.pop()
            if length > _PIECE_BYTES:
                self._extents.append((offset + _PIECE_BYTES, length - _PIECE_BYTES))
                length = _PIECE_BYTES
            parts.append(read_extent(self._fd, self._path, (offset, length)))
            if b"\n" in parts[-1]:
                break
        *lines, self._begun = b"".join(parts).split(b"\n")
        # before anyone looks for the end of a record in it
        if lines and min(map(len, lines)) < _SHORTEST:
            reason = f"{self._name} has a line that is too short to be a record"
            raise Corrupt(path=self._path, reason=reason)
        self._lines = lines[::-1]
        return bool(lines)
