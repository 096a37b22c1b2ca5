"""Scorers that compare whole texts."""

from __future__ import annotations

from collections.abc import Sequence


def normalized_match(response: str, targets: Sequence[str]) -> float:
    """Give 1.0 when the response equals a target in lower case with white space collapsed."""
    if response in targets:  # equal texts stay equal when normalised, and most right answers are
        return 1.0
    wanted = normalize(response)
    return 1.0 if any(normalize(target) == wanted for target in targets) else 0.0


def normalize(text: str) -> str:
    """Lowercase, and put single spaces between the words."""
    return " ".join(text.lower().split())
