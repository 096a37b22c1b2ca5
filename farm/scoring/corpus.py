"""BLEU of a whole corpus, and the published corpus metrics to show beside bleu_4.

Sentence BLEU as the contract defines it flatters short wrong answers, so a report that
ranks by it shows these beside it. `corpus_bleu` is farm's own arithmetic over the
contract's tokens; `published` asks sacrebleu, which has its own tokens and a signature.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from farm.errors import SpecError
from farm.scoring.overlap import ngrams
from farm.scoring.tokens import tokens


class BleuCounts(NamedTuple):
    """What corpus BLEU is computed from: counts of orders 1 to 4, lengths in tokens."""

    matches: tuple[int, ...]
    totals: tuple[int, ...]
    prediction_length: int
    target_length: int


class CorpusScore(msgspec.Struct, frozen=True, kw_only=True):
    """One published corpus metric, in [0, 1], with the signature that defines it."""

    name: str
    score: float
    signature: str


def bleu_counts(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> BleuCounts:
    """Count matches over a corpus: clipped by the best target, nearest target length.

    Of two target lengths equally near, the shorter one counts. Raises SpecError if the
    sides differ in number, or a case has no target.
    """
    if len(predictions) != len(targets):
        raise SpecError(
            f"there are {len(predictions)} predictions and {len(targets)} lists of targets; "
            "give one list for each prediction"
        )
    matches, totals = [0] * 4, [0] * 4
    length = wanted = 0
    for place, (prediction, case_targets) in enumerate(zip(predictions, targets, strict=True)):
        if not case_targets:
            raise SpecError(f"prediction {place + 1} has no target; give at least one")
        answer = tokens(prediction)
        golds = [tokens(target) for target in case_targets]
        length += len(answer)
        wanted += min((abs(len(gold) - len(answer)), len(gold)) for gold in golds)[1]
        for order in range(1, 5):
            grams = Counter(ngrams(answer, order))
            allowed: Counter[tuple[str, ...]] = Counter()
            for gold in golds:
                allowed |= Counter(ngrams(gold, order))
            matches[order - 1] += (grams & allowed).total()
            totals[order - 1] += grams.total()
    return BleuCounts(tuple(matches), tuple(totals), length, wanted)


def corpus_bleu(
    predictions: Sequence[str], targets: Sequence[Sequence[str]], *, add_one: bool = False
) -> float:
    """Return corpus BLEU of orders 1 to 4, in [0, 1], unsmoothed unless `add_one` is set.

    Unsmoothed, it is 0.0 where any order has no match.
    """
    counts = bleu_counts(predictions, targets)
    if not counts.prediction_length or (not add_one and not all(counts.matches)):
        return 0.0
    extra = 1 if add_one else 0
    logs = (
        math.log((matches + extra) / (total + extra))
        for matches, total in zip(counts.matches, counts.totals, strict=True)
    )
    brevity = min(0.0, 1 - counts.target_length / counts.prediction_length)
    return math.exp(math.fsum(logs) / 4 + brevity)


def published(
    predictions: Sequence[str], targets: Sequence[Sequence[str]]
) -> tuple[CorpusScore, ...]:
    """Return sacrebleu's corpus BLEU and chrF with their signatures.

    Empty if sacrebleu is not installed (the extra `metrics`), or if there is nothing to
    score.
    """
    if not predictions:
        return ()
    try:
        # an extra: nothing else needs it, and it is slow to load
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return ()
    most = max(len(case_targets) for case_targets in targets)
    # sacrebleu wants one stream a target; None stands where a case has fewer
    streams = [
        [case_targets[place] if place < len(case_targets) else None for case_targets in targets]
        for place in range(most)
    ]
    found = []
    for name, metric in (("corpus_bleu", BLEU()), ("chrf", CHRF())):
        # None is what its documentation asks for; its annotation forgets it
        result = metric.corpus_score(list(predictions), streams)  # type: ignore[arg-type]
        signature = str(metric.get_signature())
        value = min(1.0, result.score / 100)  # a perfect 100 comes with a rounding error
        found.append(CorpusScore(name=name, score=value, signature=signature))
    return tuple(found)
