"""The closed vocabularies of a task: categories, metrics, post-processing rules, legal pairs.

Names only, so that a task file can be checked without loading a scorer. What the names do
is in farm.scoring, whose tests hold its tables against these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fractions import Fraction

METRICS: Final = (
    "exact_match", "accuracy", "f1", "bleu_4", "rouge_l", "code_exec", "normalized_match",
    "lenient_match", "squad_em", "squad_f1", "number", "letter", "contains",
)  # fmt: skip

POST_PROCESSES: Final = (
    "none", "strip_whitespace", "lower", "extract_letter", "extract_code_block",
    "extract_first_line",
)  # fmt: skip

# Which metrics mean something for a category. `open` is the door for everything else.
LEGAL_PAIRS: Final[dict[str, tuple[str, ...]]] = {
    "arithmetic": ("exact_match", "f1"),
    "mcq": ("exact_match", "accuracy"),
    "code_exec": ("code_exec",),
    "classification": ("exact_match", "accuracy", "f1"),
    "summary": ("exact_match", "f1", "bleu_4", "rouge_l"),
    "open": METRICS,
}
CATEGORIES: Final = tuple(LEGAL_PAIRS)

# bounded, because an exact power of ten is as long as its exponent says
_TOLERANCE: Final = re.compile(r"\d{1,9}(\.\d{1,30})?(e-?\d{1,2})?", re.ASCII)


def tolerance_of(metric_name: str) -> Fraction | None:
    """Return the relative tolerance of ``number@0.01``, None where it is none from 0 up to 1."""
    # here and not at the top: it takes longer to load than all names of a task
    from fractions import Fraction

    name, _, written = metric_name.partition("@")
    if name != "number" or not _TOLERANCE.fullmatch(written):
        return None
    tolerance = Fraction(written)
    return tolerance if tolerance < 1 else None


def is_metric(name: str) -> bool:
    """Say whether a task may name this metric: one of `METRICS`, or number with a tolerance."""
    return name in METRICS or ("@" in name and tolerance_of(name) is not None)


CHOICE_LETTERS: Final = "ABCDE"
MAX_FEW_SHOT: Final = 8
MAX_TIMEOUT_S: Final = 30
