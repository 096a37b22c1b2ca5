"""Show how one case came to its score: span taken, each step, the rule that decided.

The steps are those the scorers run (`farm.scoring.steps`) or are made by the same readers,
so an explanation cannot tell another story than the score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import msgspec

from farm.core.result import EMPTY, REFUSED, TRUNCATED, UNPARSED, UNSCORABLE
from farm.errors import SpecError
from farm.scoring.extract import Extracted
from farm.scoring.postprocess import post_process
from farm.scoring.registry import Scorer, scorer
from farm.scoring.score import case_judge, value_of
from farm.scoring.steps import Seen, walk

Account = tuple[Seen, ...]
_MAX_BITS = 2000  # a longer value is described, not written out


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its reasons.

    `extracted` is what post-processing took, and `prediction_steps` start from there; a
    metric that looks for an answer in that text (number, letter) says in `read` what it
    took and from where in it.
    `target_steps` has one account for each target, `best_target` is the index of the one
    that gave the score (the first of equals), null where none could.
    """

    metric: str
    version: str
    post_process: str
    extracted: Extracted
    read: Extracted | None
    prediction_steps: Account
    target_steps: tuple[Account, ...]
    best_target: int | None
    rule: str
    score: float
    correct: bool
    outcome: str


def explain(
    metric_name: str,
    prediction: str,
    targets: Sequence[str],
    *,
    post_process_rule: str = "none",
    finish: str = "",
    cause: str = "",
) -> Explanation:
    """Score one case and say why.

    Score and outcome are those of `farm.scoring.score.case_judge`. `cause` is what `finish` rests
    on, in the adapter's words. Raises SpecError as
    `farm.scoring.score.score` does for metrics it cannot compute, and for unknown rules.
    """
    metric = scorer(metric_name)
    if metric.needs:
        raise SpecError(
            f"metric {metric_name!r} needs the {metric.needs[0]}, not texts alone; "
            "`farm score` runs one program and tells of each assertion"
        )
    extracted = post_process(post_process_rule, prediction)
    result = case_judge(metric, post_process_rule=post_process_rule)(
        "", prediction, targets, finish
    )
    account = _ACCOUNTS.get(metric_name.partition("@")[0], _as_it_is)
    best = _best(metric, extracted, targets) if result.score > 0 or result.correct else None
    mine = account(extracted.text)
    others = tuple(account(target) for target in targets)
    read = _read(metric, extracted.text)
    forced = result.outcome if result.outcome in {REFUSED, TRUNCATED} else ""
    if best is not None:
        rule = _decided(metric, mine[-1].text, others[best][-1].text, best)
    elif forced:
        rule = ""
    else:
        rule = _undecided(metric, result.outcome, extracted, read, targets)
    why = f"{forced}: {cause}" if forced and cause else forced
    return Explanation(
        metric=metric.name,
        version=metric.version,
        post_process=post_process_rule,
        extracted=extracted,
        read=read,
        prediction_steps=mine,
        target_steps=others,
        best_target=best,
        rule="; ".join(part for part in (rule, why) if part),
        score=result.score,
        correct=result.correct,
        outcome=result.outcome,
    )


def _undecided(
    metric: Scorer,
    outcome: str,
    extracted: Extracted,
    read: Extracted | None,
    targets: Sequence[str],
) -> str:
    """Say why no target gave a score."""
    if outcome == UNSCORABLE:
        if not targets:
            return "there is no target"
        if value_of(metric, extracted.text, targets) is None:
            return f"{metric.name} failed, or its score left [0, 1]"
        return f"no target is one that {metric.name} can judge"
    if outcome == EMPTY:
        return "the response is empty"
    if not extracted.found:
        return f"nothing was extracted: {extracted.rule}"
    if outcome == UNPARSED and read is not None:
        return f"nothing was read: {read.rule}"
    return f"no target gives a score ({outcome})"


def _read(metric: Scorer, text: str) -> Extracted | None:
    if metric.name == "letter":
        from farm.scoring.letter import read_letter

        return read_letter(text)
    if metric.name.startswith("number"):
        from farm.scoring.number import read_number

        return read_number(text).extracted
    return None


def _best(metric: Scorer, extracted: Extracted, targets: Sequence[str]) -> int | None:
    values = [value_of(metric, extracted.text, (target,)) for target in targets]
    known = [value for value in values if value is not None]
    choose = max if metric.higher_is_better else min
    return values.index(choose(known)) if known else None


def _decided(metric: Scorer, mine: str, other: str, best: int) -> str:
    place = f"target {best + 1}"
    family = metric.name.partition("@")[0]
    measure = _MEASURES.get(family)
    if measure is not None:
        return f"{place}: {measure(mine.split(), other.split())}"
    if family == "contains":
        return f"{place} stands in the prediction as words of its own"
    if family == "number":
        tolerance = metric.name.partition("@")[2]
        return f"{place} is the same number" + (f" within {tolerance}" if tolerance else "")
    if family in _ACCOUNTS:
        return f"{place} is equal after the last step"
    return f"{place} gives the score"  # a plugin alone knows why


def _as_it_is(text: str) -> Account:
    return (Seen(step="as it is", text=text),)


def _exact(text: str) -> Account:
    from farm.scoring.match import EXACT

    return walk(text, EXACT)


def _normalized(text: str) -> Account:
    from farm.scoring.match import NORMALIZED

    return walk(text, NORMALIZED)


def _lenient(text: str) -> Account:
    from farm.scoring.lenient import LENIENT

    return walk(text, LENIENT)


def _squad(text: str) -> Account:
    from farm.scoring.squad import SQUAD

    return walk(text, SQUAD)


def _tokenised(text: str) -> Account:
    from farm.scoring.tokens import tokens

    return (Seen(step="tokens", text=" ".join(tokens(text))),)


def _read_letter(text: str) -> Account:
    from farm.scoring.letter import read_letter, target_letter

    alone = target_letter(text)
    claim = read_letter(text)
    return (Seen(step=f"letter ({claim.rule})", text=claim.text if claim.found else alone or ""),)


def _read_number(text: str) -> Account:
    from farm.scoring.number import read_number

    reading = read_number(text)
    span, numeral = reading.extracted, reading.numeral
    if numeral is None or numeral.value is None:
        return (Seen(step=f"number ({span.rule})", text=""),)
    value = _written(numeral.value) + (" %" if numeral.percent else "")
    return (
        Seen(step=f"number ({span.rule})", text=span.text),
        Seen(step="exact value", text=value),
    )


def _written(value: Fraction) -> str:
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return str(value) if bits <= _MAX_BITS else f"a number of {bits} bits"


def _words(count: int) -> str:
    return f"{count} word{'' if count == 1 else 's'}"


def _f1_measure(mine: list[str], other: list[str]) -> str:
    from farm.scoring.overlap import shared

    return f"{_words(shared(mine, other))} shared, {len(mine)} predicted, {len(other)} wanted"


def _rouge_measure(mine: list[str], other: list[str]) -> str:
    from farm.scoring.subsequence import lcs

    length = lcs(mine, other)
    return f"{_words(length)} in the same order, {len(mine)} predicted, {len(other)} wanted"


def _bleu_measure(mine: list[str], other: list[str]) -> str:
    from farm.scoring.overlap import ngrams, shared

    orders = (
        f"{shared(ngrams(mine, order), ngrams(other, order))}/{max(0, len(mine) - order + 1)}"
        for order in (1, 2, 3, 4)
    )
    return f"n-grams shared {', '.join(orders)}, {len(mine)} predicted, {len(other)} wanted"


_ACCOUNTS: dict[str, Callable[[str], Account]] = {
    "exact_match": _exact,
    "accuracy": _exact,
    "normalized_match": _normalized,
    "contains": _normalized,
    "lenient_match": _lenient,
    "squad_em": _squad,
    "squad_f1": _squad,
    "f1": _tokenised,
    "rouge_l": _tokenised,
    "bleu_4": _tokenised,
    "letter": _read_letter,
    "number": _read_number,
}
_MEASURES: dict[str, Callable[[list[str], list[str]], str]] = {
    "f1": _f1_measure,
    "squad_f1": _f1_measure,
    "rouge_l": _rouge_measure,
    "bleu_4": _bleu_measure,
}
