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
ERROR: Final = "error"  # there is no response to judge, or no machine fit to judge it
TIMEOUT: Final = "timeout"  # the program that the response is ran out of time
UNSCORABLE: Final = "unscorable"  # no target this metric can judge, or the scorer failed

# every way a case can end, in the order reports show them
OUTCOMES: Final = (
    CORRECT, WRONG, EMPTY, UNPARSED, REFUSED, TRUNCATED, TIMEOUT, ERROR, UNSCORABLE,
)  # fmt: skip
PENDING: Final = "pending"  # no outcome: what reports call a case that has no verdict yet
_DO_NOT_COUNT: Final = frozenset((ERROR, UNSCORABLE))


# gc=False: a run holds a million of these, and none can be part of a reference cycle
class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The verdict on one case.

    `correct` is true exactly when `outcome` is "correct". `score` is in [0, 1], and 0.0
    where the outcome does not count, because there it says nothing. `trust` names what the
    verdict took a program's word for (see farm.core.isolation); where that is nothing, as
    under every scorer of texts, it is not written.
    """

    id: str
    correct: bool
    score: float
    outcome: str
    trust: tuple[str, ...] = ()


def counts(outcome: str) -> bool:
    """Say whether a case of this outcome is part of an accuracy.

    A program that ran out of time is an answer, and counts. A request that did is none: it
    ends as an error, as does a program that was out of time for want of a processor.
    """
    return outcome in OUTCOMES and outcome not in _DO_NOT_COUNT
