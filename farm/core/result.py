"""What became of one case: the value a scorer's verdict is kept in.

The names of the outcomes are part of receipts, reports and gates, so they stand here once.
How a verdict is reached is the business of farm.scoring; what it means for an accuracy is
decided by `counts`, and by nothing else.
"""

from __future__ import annotations

from typing import Final

import msgspec

CORRECT: Final = "correct"
WRONG: Final = "wrong"
EMPTY: Final = "empty"  # the response holds nothing but white space
UNPARSED: Final = "unparsed"  # the metric found no answer to judge in the response
REFUSED: Final = "refused"  # the adapter's finish reason says the model declined
TRUNCATED: Final = "truncated"  # the adapter's finish reason says the answer was cut off
ERROR: Final = "error"  # there is no response to judge
TIMEOUT: Final = "timeout"  # a request, or a candidate program, ran out of time
UNSCORABLE: Final = "unscorable"  # no target this metric can judge, or the scorer failed

# every way a case can end, in the order reports show them
OUTCOMES: Final = (
    CORRECT, WRONG, EMPTY, UNPARSED, REFUSED, TRUNCATED, TIMEOUT, ERROR, UNSCORABLE,
)  # fmt: skip
PENDING: Final = "pending"  # no outcome: what reports call a case that has no verdict yet
_ALWAYS_COUNT = frozenset((CORRECT, WRONG, EMPTY, UNPARSED, REFUSED, TRUNCATED))


# gc=False: a run holds a million of these, and none can be part of a reference cycle
class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The verdict on one case.

    `correct` is true exactly when `outcome` is "correct". `score` is in [0, 1], and 0.0
    where the outcome does not count, because there it says nothing.
    """

    id: str
    correct: bool
    score: float
    outcome: str


def counts(outcome: str, *, program_ran: bool = False) -> bool:
    """Say whether a case of this outcome is part of an accuracy.

    A timeout counts only when it was a candidate program that ran out of time
    (`program_ran`): a request that did says nothing about the answer.
    """
    return outcome in _ALWAYS_COUNT or (outcome == TIMEOUT and program_ran)
