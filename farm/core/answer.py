"""What a receipt keeps of an asked case beside its verdict: the answer itself.

Receipts carry answers as raw JSON, one for each of their cases, so that a worker which asks
nobody pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.core.generation import Generation
from farm.core.receipt import Receipt
from farm.errors import Corrupt

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Generation)


def encode_answers(generations: Sequence[Generation]) -> tuple[msgspec.Raw, ...]:
    """Give the answers of a shard as a receipt holds them, in the order of its cases."""
    return tuple(msgspec.Raw(_encoder.encode(one)) for one in generations)


def answers_of(receipt: Receipt, *, path: str) -> list[Generation]:
    """Read the answers of a receipt, one for each case; raises `Corrupt` when they are not.

    `path` names the receipt in the error.
    """
    if len(receipt.answers) != len(receipt.cases):
        reason = f"{len(receipt.answers)} answers on {len(receipt.cases)} cases"
        raise Corrupt(path=path, reason=reason)
    try:
        return [_decoder.decode(one) for one in receipt.answers]
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"an answer cannot be read: {error}") from error
