"""How much of a target a prediction shares, counted in tokens: f1 and bleu_4.

Each text is tokenised once. Counting is exact: an overlap is an integer, and a score is one
division of integers, for bleu_4 under a fourth root. The longest common subsequence is in
farm.scoring.subsequence, because it needs a library the others do without.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from farm.scoring.tokens import tokens

_NUMBER_FROM = 1000  # words; from here on counting numbers beats counting tuples


def f1(prediction: str, targets: Sequence[str]) -> float:
    """Return the best harmonic mean of token precision and recall, over multisets.

    With no tokens on either side it is 1.0 only if the stripped raw texts are equal; with
    tokens on one side only, or no targets, it is 0.0.
    """
    answer = tokens(prediction)
    best = 0.0
    for target in targets:
        gold = tokens(target)
        value = f1_of(answer, gold) if answer or gold else same_raw(prediction, target)
        if value > best:
            best = value
    return best


def f1_of(answer: Sequence[str], gold: Sequence[str]) -> float:
    """Return the F1 of two lists of words that are not both empty."""
    # 2pr / (p + r) with p = shared / len(answer) and r = shared / len(gold), rounded once
    return 2 * shared(answer, gold) / (len(answer) + len(gold))


def same_raw(prediction: str, target: str) -> float:
    """Judge two texts that hold no token: only their own characters are left to compare."""
    return 1.0 if prediction.strip() == target.strip() else 0.0


def shared(answer: Sequence[Hashable], gold: Sequence[Hashable]) -> int:
    """Return the size of the intersection of two multisets."""
    distinct = set(gold)
    common = distinct.intersection(answer)
    if len(distinct) == len(gold):
        return len(common)  # what stands once in the target can be matched once
    return _matches(common, answer, gold) if common else 0


def _matches(
    common: Iterable[Hashable], answer: Iterable[Hashable], gold: Iterable[Hashable]
) -> int:
    """Count the items of the answer that find a partner of their own in the target."""
    left = dict.fromkeys(common, 0)
    for item in gold:
        if item in left:
            left[item] += 1
    matches = 0
    for item in answer:
        if left.get(item):
            left[item] -= 1
            matches += 1
    return matches


def ngrams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """Return the runs of `order` neighbouring words, in order."""
    # the shifted copies end one after the other; the shortest ends the runs
    return list(zip(*(words[start:] for start in range(order)), strict=False))


def bleu_4(prediction: str, targets: Sequence[str]) -> float:
    """Return the best sentence BLEU of orders 1 to 4, add-one smoothed on all of them.

    A precision is (matches + 1) / (n-grams + 1), so an order the prediction is too short
    for counts 1/1; the brevity penalty is exp(1 - target / prediction) for a prediction
    that is shorter. No tokens on either side gives 0.0. By this definition a wrong answer
    of one token scores 0.84: short answers must not be ranked by it.
    """
    answer = _shifted(tokens(prediction))
    if not answer[0]:
        return 0.0
    golds = [_shifted(gold) for gold in map(tokens, targets) if gold]
    return max([_sentence_bleu(answer, gold) for gold in golds], default=0.0)


def _shifted(words: list[str]) -> tuple[list[str], ...]:
    """Return the words and their copies without the first one, two and three.

    Zipped together, the first n of them give the n-grams, ended by the shortest.
    """
    return words, words[1:], words[2:], words[3:]


def _sentence_bleu(answer: tuple[list[str], ...], gold: tuple[list[str], ...]) -> float:
    length, reference = len(answer[0]), len(gold[0])
    is_long = min(length, reference) >= _NUMBER_FROM
    counted = _shared_by_number(answer[0], gold[0]) if is_long else _shared_by_words(answer, gold)
    above = below = matches = 1
    for order in (1, 2, 3, 4):
        total = length - order + 1
        if total < 1:
            break  # orders the answer is too short for count 1/1
        # an n-gram is shared only where its beginning is: after none, none can follow
        matches = next(counted) if matches else 0
        above *= matches + 1
        below *= total + 1
    score = math.sqrt(math.sqrt(above / below))
    return score if length >= reference else score * math.exp(1 - reference / length)


def _shared_by_words(answer: tuple[list[str], ...], gold: tuple[list[str], ...]) -> Iterator[int]:
    """Yield the sizes of the intersections of order 1 to 4."""
    yield shared(answer[0], gold[0])
    for order in (2, 3, 4):
        yield _shared_ngrams(answer[:order], gold[:order])


def _shared_by_number(answer: list[str], gold: list[str]) -> Iterator[int]:
    """Yield the same, an n-gram being one whole number; faster where many repeat."""
    numbers = {word: place for place, word in enumerate(dict.fromkeys((*answer, *gold)))}
    base = len(numbers)
    mine = runs = [numbers[word] for word in answer]
    other = wanted = [numbers[word] for word in gold]
    for order in (1, 2, 3, 4):
        if order > 1:
            shifted = zip(runs, mine[order - 1 :], strict=False)
            runs = [run * base + word for run, word in shifted]
            shifted = zip(wanted, other[order - 1 :], strict=False)
            wanted = [run * base + word for run, word in shifted]
        here, there = Counter(runs), Counter(wanted)
        yield sum(min(here[run], there[run]) for run in here.keys() & there.keys())


def _shared_ngrams(answer: tuple[list[str], ...], gold: tuple[list[str], ...]) -> int:
    """Return the size of the multiset intersection of two texts' n-grams."""
    distinct = set(zip(*gold, strict=False))  # the shortest copy ends the n-grams
    common = distinct.intersection(zip(*answer, strict=False))
    if len(distinct) == len(gold[-1]):
        return len(common)  # no n-gram repeats in the target
    if not common:
        return 0
    return _matches(common, zip(*answer, strict=False), zip(*gold, strict=False))
