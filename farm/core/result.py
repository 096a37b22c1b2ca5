"""The verdict on one case."""

from __future__ import annotations

import msgspec


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """What scoring said of one case: does it count as correct, its score in [0, 1], its outcome.

    `outcome` is one of the closed set in `farm.scoring.score`.
    """

    id: str
    correct: bool
    score: float
    outcome: str
