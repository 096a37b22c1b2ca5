"""Write the cases of a store in one pass over the input: see `farm.store.casefile`.

The calling thread groups records; one other thread hashes and writes, both of which let the
first one run. At most `_AHEAD` flushes are under way, so memory is bounded whatever is slower.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from farm.core.buckets import buckets
from farm.core.canonical import DatasetDigest, names_groups
from farm.core.taskview import digest_views
from farm.files.fresh import FreshFile
from farm.files.records import Batch
from farm.store.casefile import CASES_NAME, ORDER_NAME, Extent, ShardCases, StagedCases

FLUSH_BYTES: Final = 8 << 20  # the size of a block of the cases file
_AHEAD: Final = 1


def write_cases(
    batches: Iterable[Batch], *, shards: int, directory: str, flush_bytes: int = FLUSH_BYTES
) -> StagedCases:
    """Write the cases file and the order file into `directory`; both are synced.

    The batches are read to their end exactly once; what their iterator raises passes through.
    After any error the files may be there in part: the caller removes the directory. The
    caller also syncs it. Raises StorageError when a file exists or the disk will not take it.
    """
    with (
        FreshFile(os.path.join(directory, CASES_NAME)) as cases,
        FreshFile(os.path.join(directory, ORDER_NAME)) as order,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="cases") as thread,
    ):
        writer = _Writer(cases=cases, order=order)
        block = _Block()
        pending: deque[Future[None]] = deque()
        for batch in batches:
            block.add(batch, shards)
            if block.size >= flush_bytes:
                pending.append(thread.submit(writer.write, block))
                block = _Block()
                if len(pending) > _AHEAD:
                    pending.popleft().result()
        pending.append(thread.submit(writer.write, block))
        for flush in pending:
            flush.result()
        cases.sync()
        order.sync()
    return writer.staged()


@dataclass(slots=True)
class _Block:
    """The records of some batches, in file order for the digests and by bucket for the file."""

    size: int = 0
    records: list[bytes] = field(default_factory=list)  # whole lines, in file order
    order: list[NDArray[np.uint16]] = field(default_factory=list)
    by_bucket: dict[int, list[bytes]] = field(default_factory=dict)  # whole lines

    def add(self, batch: Batch, shards: int) -> None:
        lines = batch.lines.split(b"\n")
        lines.pop()  # what follows the last newline
        if not lines:
            return
        self.size += len(batch.lines)
        self.records.append(batch.lines)
        where = buckets(batch.ids, shards)
        self.order.append(where)
        self._group(lines, where)

    def _group(self, lines: Sequence[bytes], where: NDArray[np.uint16]) -> None:
        by_bucket = where.argsort(kind="stable")
        ordered = where[by_bucket]
        starts = np.flatnonzero(np.diff(ordered)) + 1
        edges = [0, *starts.tolist(), len(lines)]
        indexes = ordered[edges[:-1]].tolist()
        grouped = itemgetter(*by_bucket.tolist(), 0)(lines)  # one more, so that it is a tuple
        for index, (start, end) in zip(indexes, pairwise(edges), strict=True):
            piece = b"\n".join((*grouped[start:end], b""))  # each line ended by a newline
            self.by_bucket.setdefault(index, []).append(piece)


@dataclass(slots=True)
class _Shard:
    """One shard as it grows."""

    cases: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    extents: list[Extent] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Everything the writing thread owns."""

    cases: FreshFile
    order: FreshFile
    digest: DatasetDigest = field(default_factory=DatasetDigest)
    shards: dict[int, _Shard] = field(default_factory=dict)
    grouped: bool = False

    def write(self, block: _Block) -> None:
        if not block.order:
            return
        for lines in block.records:  # one by one: they fit the processor's cache
            self.digest.update_joined(*digest_views(lines))
            self.grouped = self.grouped or names_groups(lines)
        order = np.concatenate(block.order)
        self.order.write(order.astype("<u2").tobytes())
        counts = np.bincount(order)
        offset = self.cases.size
        pieces = []
        for index, parts in sorted(block.by_bucket.items()):
            piece = b"".join(parts)
            pieces.append(piece)
            shard = self.shards.setdefault(index, _Shard())
            shard.cases += int(counts[index])
            shard.digest.update(piece)
            shard.extents.append((offset, len(piece)))
            offset += len(piece)
        self.cases.write(b"".join(pieces))

    def staged(self) -> StagedCases:
        shards = tuple(
            ShardCases(
                index=index,
                cases=shard.cases,
                sha256=shard.digest.hexdigest(),
                extents=tuple(shard.extents),
            )
            for index, shard in sorted(self.shards.items())
        )
        return StagedCases(
            count=sum(shard.cases for shard in shards),
            dataset_sha256=self.digest.dataset_sha256,
            tasks_sha256=self.digest.tasks_sha256,
            shards=shards,
            grouped=self.grouped,
        )
