"""The closed vocabularies of a task: categories, metrics, post-processing rules, legal pairs.

Names only, so that a task file can be checked without loading a scorer. What the names do
is in farm.scoring, whose tests hold its tables against these.
"""

from __future__ import annotations

from typing import Final

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

CHOICE_LETTERS: Final = "ABCDE"
MAX_FEW_SHOT: Final = 8
MAX_TIMEOUT_S: Final = 30
