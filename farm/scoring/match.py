"""Verdicts by comparing whole texts: exact_match, accuracy, normalized_match, contains.

They are 0 or 1 and read nothing into a text. The forgiving comparisons stand apart
(farm.scoring.lenient, farm.scoring.squad), so that nobody gets them by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unicodedata import category

from farm.scoring.steps import Step, collapse, normalised

EXACT: Final = (Step("strip white space", str.strip, may_empty=True),)
_MARKS: Final = frozenset(("Mn", "Me", "Mc"))
_MAX_FINDS = 100  # places tried one by one before the way that no repetition slows

NORMALIZED: Final = (
    Step("lower case", str.lower),
    Step("collapse white space", collapse, may_empty=True),
)


def exact_match(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if the prediction, stripped, equals any target, stripped; else 0.0."""
    answer = prediction.strip()
    for target in targets:
        if str.strip(target) == answer:  # called on the class, bytes are an error, not unequal
            return 1.0
    return 0.0


def exact_match_many(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
    """Return `exact_match` of each pair; the sides are of one length."""
    pairs = zip(predictions, targets, strict=True)
    strip = str.strip
    try:
        # the usual case of one target, without a call for each pair: that call costs more
        # than the comparison
        return [1.0 if strip(answer) == strip(target) else 0.0 for answer, (target,) in pairs]
    except ValueError:
        lists = ((wanted,) if isinstance(wanted, str) else wanted for wanted in targets)
        return list(map(exact_match, predictions, lists))


# The contract gives the comparison two names, so that a report can tell labels from answers.
accuracy = exact_match


def normalized_match(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if any target is equal in lower case with white space collapsed."""
    if prediction in targets and isinstance(prediction, str):
        return 1.0
    words = len(prediction.split())
    for target in targets:
        # lower case never joins or splits words, so counting them first settles most cases
        if len(target.split()) == words and same_words(prediction, target):
            return 1.0
    return 0.0


def normalized_match_many(
    predictions: Sequence[str], targets: Sequence[Sequence[str]]
) -> list[float]:
    """Return `normalized_match` of each pair; the sides are of one length."""
    pairs = zip(predictions, targets, strict=True)
    try:
        # as in `exact_match_many`: one target, and no call for each pair
        return [
            1.0 if answer == target or answer.lower().split() == target.lower().split() else 0.0
            for answer, (target,) in pairs
        ]
    except ValueError:
        lists = ((wanted,) if isinstance(wanted, str) else wanted for wanted in targets)
        return list(map(normalized_match, predictions, lists))


def same_words(left: str, right: str) -> bool:
    """Say whether two texts are equal in lower case with white space collapsed."""
    # lists of words are equal exactly when the words joined by single spaces are
    return left.lower().split() == right.lower().split()


def contains(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if any target stands in the prediction as words of its own.

    Both are normalised as for `normalized_match`. "11" does not stand in "711", "1.11" or
    "11th", nor "art" in "party"; in scripts without letter case, which mostly write no
    spaces, a target may stand anywhere. A blank target stands nowhere.
    """
    text = normalised(prediction, NORMALIZED)
    return float(any(_stands_in(normalised(target, NORMALIZED), text) for target in targets))


def _stands_in(target: str, text: str) -> bool:
    length = len(target)
    if not length or length > len(text) or target not in text:
        return False
    start, tries = text.find(target), 0
    while start >= 0:
        if not (_joined(text, start) or _joined(text, start + length)):
            return True
        tries += 1
        if tries > _MAX_FINDS:
            return _stands_past(target, text, start + 1)
        start = text.find(target, start + 1)
    return False


def _stands_past(target: str, text: str, start: int) -> bool:
    """Go on from `start` without comparing the same characters again and again.

    How far each place repeats the target is carried along (Knuth, Morris and Pratt), so the
    time grows with the sum of the lengths whatever the text repeats.
    """
    back = [0] * len(target)
    kept = 0
    for place in range(1, len(target)):
        while kept and target[place] != target[kept]:
            kept = back[kept - 1]
        kept += target[place] == target[kept]
        back[place] = kept
    kept = 0
    for place in range(start, len(text)):
        while kept and text[place] != target[kept]:
            kept = back[kept - 1]
        kept += text[place] == target[kept]
        if kept == len(target):
            end = place + 1
            if not (_joined(text, end - kept) or _joined(text, end)):
                return True
            kept = back[kept - 1]
    return False


def _joined(text: str, border: int) -> bool:
    """Say whether a border between two characters lies inside a word or a number."""
    if not 0 < border < len(text):
        return False
    before, after = text[border - 1], text[border]
    if category(after) in _MARKS:
        return True  # a combining mark belongs to the letter before it
    if category(before) in _MARKS and _wordlike(after):
        return True
    if _wordlike(before) and _wordlike(after):
        return True
    # a decimal point or a thousands comma holds two digits together
    if before.isdecimal() and after in ".,":
        return text[border + 1 : border + 2].isdecimal()
    return before in ".," and after.isdecimal() and text[max(0, border - 2)].isdecimal()


def _wordlike(character: str) -> bool:
    return character.isdecimal() or character.lower() != character.upper() or character == "_"


def is_not_blank(target: str) -> bool:
    """Say whether a target holds anything to look for."""
    return bool(target) and not target.isspace()
