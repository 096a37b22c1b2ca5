"""Receipts that are ready, made durable together, and what is then to be said of each.

Every kind of worker hands its receipts over like this. Which of them count is not its business.
"""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.message import Displaced, Scored
from farm.core.receipt import receipt_name
from farm.errors import Fenced
from farm.store.protocol import Store


def hand_over(store: Store, ready: Sequence[tuple[Scored, bytes]]) -> list[Scored | Displaced]:
    """Make receipts durable, with one sync where all goes well; give what to say, in order.

    A receipt whose name another one has costs its own shard alone.
    """
    files = {receipt_name(scored.shard, scored.version): data for scored, data in ready}
    try:
        store.put_receipts(files)
    except Fenced:  # what was written of them may come again
        return [_hand_over_one(store, scored, data) for scored, data in ready]
    return [scored for scored, _ in ready]


def _hand_over_one(store: Store, scored: Scored, data: bytes) -> Scored | Displaced:
    try:
        store.put_receipts({receipt_name(scored.shard, scored.version): data})
    except Fenced as error:
        return Displaced(shard=scored.shard, version=scored.version, reason=error.reason)
    return scored
