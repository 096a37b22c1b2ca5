"""Find ids that occur more than once among millions, at eight bytes an id.

Keeps one 64-bit hash of each id. Equal hashes are only a suspicion, which the caller settles by
reading the input again. The hash is Python's own SipHash, keyed per process, so nobody can make
a file whose ids collide.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np


class SeenIds:
    """The hashes of all ids of an input, in any order."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, ids: Sequence[str]) -> None:
        """Note some more ids."""
        hashes = np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
        self._hashes.frombytes(hashes.tobytes())

    def suspects(self) -> frozenset[int]:
        """Return the hashes that occur more than once; empty proves that no id repeats.

        Sorts in place. Afterwards more ids may still be added.
        """
        hashes = np.frombuffer(self._hashes, dtype=np.int64)
        hashes.sort()
        return frozenset(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
