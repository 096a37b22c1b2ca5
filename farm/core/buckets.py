"""The buckets of many ids at once; the same rule as `farm.core.partition.bucket`.

Apart from it because numpy must not be loaded where one id at a time is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farm.core.partition import FNV_OFFSET, FNV_PRIME


def buckets(ids: Sequence[str], shards: int) -> NDArray[np.uint16]:
    """Return the bucket of each id, in order; `shards` is at most 65,536.

    All ids take one step together, byte position by byte position. They are ordered from long
    to short first, so that those still unfinished are always a prefix of the array.
    """
    joined = "".join(ids)
    sizes = map(len, ids if joined.isascii() else [text.encode() for text in ids])
    data = np.frombuffer(joined.encode(), dtype=np.uint8)
    lengths = np.fromiter(sizes, dtype=np.int64, count=len(ids))
    starts = np.cumsum(lengths) - lengths
    longest_first = np.argsort(-lengths, kind="stable")
    starts = starts[longest_first]
    # how many ids are longer than each position
    unfinished = np.searchsorted(
        -lengths[longest_first], -np.arange(lengths.max(initial=0)), side="left"
    )
    values = np.full(len(ids), FNV_OFFSET, dtype=np.uint32)
    prime = np.uint32(FNV_PRIME)
    for position, count in enumerate(unfinished.tolist()):
        active = values[:count]
        active ^= data[starts[:count] + position]
        active *= prime  # wraps at 32 bits, as the rule wants
    found = np.empty(len(ids), dtype=np.uint16)
    found[longest_first] = values % np.uint32(shards)
    return found
