"""The longest common subsequence of two texts' tokens, and rouge_l over it.

rapidfuzz computes it bit-parallel, exactly; this module is loaded by the first use of the
metric, so the library may stand at the top.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance.LCSseq import similarity

from farm.scoring.overlap import same_raw
from farm.scoring.tokens import tokens

_INTERN_FROM = 1000  # tokens; from here on comparing small integers beats comparing strings


def rouge_l(prediction: str, targets: Sequence[str]) -> float:
    """Return the best F1 over the longest common subsequence of tokens.

    With no tokens on either side it is 1.0 only if the stripped raw texts are equal; with
    tokens on one side only, or no targets, it is 0.0.
    """
    answer = tokens(prediction)
    best = 0.0
    for target in targets:
        gold = tokens(target)
        if answer or gold:
            value = 2 * lcs(answer, gold) / (len(answer) + len(gold))
        else:
            value = same_raw(prediction, target)
        if value > best:
            best = value
    return best


def lcs(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words."""
    if len(left) < _INTERN_FROM or len(right) < _INTERN_FROM:
        return similarity(left, right)
    numbers: dict[Hashable, int] = {}
    first = [numbers.setdefault(word, len(numbers)) for word in left]
    second = [numbers.setdefault(word, len(numbers)) for word in right]
    return similarity(first, second)
