"""What the name of a metric does not tell, and what is shown beside it so that nobody is misled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from farm.scoring.corpus import CorpusScore

FLATTERING: Final = "bleu_4"  # the metric that corpus figures are shown beside


def cautions(metric: str, corpus: Sequence[CorpusScore]) -> tuple[str, ...]:
    """Return the sentences a reader of this metric's scores must see; mostly none."""
    if metric != FLATTERING:
        return ()
    beside = (
        "the corpus BLEU and chrF beside it"
        if corpus
        else "corpus BLEU and chrF, which need the extra farm[metrics]"
    )
    return (
        "bleu_4 flatters short answers: a wrong answer of one word scores 0.84; do not rank by it "
        f"alone, look at {beside}.",
    )
