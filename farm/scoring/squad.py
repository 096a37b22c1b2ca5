"""squad_em and squad_f1: the comparison of the SQuAD question answering sets.

The steps are those of the published evaluation (lower case, no ASCII punctuation, no
articles, single spaces), with one correction: a step that would leave nothing of an answer
is left out. Without it the answer "A" is the same as no answer, and equal to "the".
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Final

from farm.scoring.overlap import f1_of
from farm.scoring.steps import Step, collapse, normalised

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _unpunctuated(text: str) -> str:
    # tested without its spaces, so that white space alone does not count as something left
    bare = text.translate(_NO_PUNCTUATION)
    return bare if bare.strip() else ""


def _articles_dropped(text: str) -> str:
    rest = _ARTICLE.sub(" ", text)
    return rest if rest.strip() else ""


SQUAD: Final = (
    Step("lower case", str.lower),
    Step("drop punctuation", _unpunctuated),
    Step("drop articles", _articles_dropped),
    Step("collapse white space", collapse, may_empty=True),
)


def squad_em(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if any target is equal once both went through the steps of `SQUAD`."""
    answer = normalised(prediction, SQUAD)
    return float(any(normalised(target, SQUAD) == answer for target in targets))


def squad_f1(prediction: str, targets: Sequence[str]) -> float:
    """Return the best F1 over multisets of words, after the steps of `SQUAD`.

    A blank target means that there is no answer: it gives 1.0 to a blank prediction and
    0.0 to any other.
    """
    answer = normalised(prediction, SQUAD).split()
    best = 0.0
    for target in targets:
        gold = normalised(target, SQUAD).split()
        best = max(best, f1_of(answer, gold) if answer or gold else 1.0)
    return best
