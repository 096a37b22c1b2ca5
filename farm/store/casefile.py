"""The cases of a store: how they lie in its files, and how a worker reads those of one shard.

`cases.jsonl` holds the canonical records, a line each, written in one pass over the input. The
input is taken in blocks; inside a block the records are grouped by bucket, in file order within
a bucket. So a shard is a list of extents, one for each block it has records in, and its content
is their concatenation. `cases.order` holds the bucket of every record in file order, little
endian in 16 bits, from which the order of the input and its digests can be derived again.

This module loads nothing heavy, since every worker process uses it. Writing is
`farm.store.casewriter`, deriving the digests again is `farm.store.caseorder`.
"""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

from farm.errors import Corrupt, StorageError
from farm.files.atomic import open_written

CASES_NAME: Final = "cases.jsonl"
ORDER_NAME: Final = "cases.order"

Extent = tuple[int, int]  # offset and length in bytes


class ShardCases(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one shard's cases lie; `sha256` is of the concatenated extents."""

    index: int
    cases: int
    sha256: str
    extents: tuple[Extent, ...]


class StagedCases(Struct, frozen=True, kw_only=True):
    """What was written: the identity of the dataset and its shards, by rising index.

    `grouped`: whether any case names its cluster, or which sample it is.
    """

    count: int
    dataset_sha256: str
    tasks_sha256: str
    shards: tuple[ShardCases, ...]
    grouped: bool = False


def open_to_read(path: str) -> int:
    """Return a descriptor of one of the store's files, to be closed by the caller."""
    try:
        return open_written(path)
    except FileNotFoundError as error:
        raise Corrupt(path=path, reason="is missing") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def read_extent(fd: int, path: str, extent: Extent) -> bytes:
    """Return the bytes of one extent; `path` is for the message when they are not all there."""
    offset, length = extent
    pieces = []
    missing = length
    while missing:
        try:
            piece = os.pread(fd, missing, offset + length - missing)
        except OSError as error:
            raise _unreadable(path, error) from error
        if not piece:
            reason = f"ends {missing} bytes before byte {offset + length}, where a shard ends"
            raise Corrupt(path=path, reason=reason)
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(path=path, reason=f"cannot be read, {error.strerror or error}".lower())
