"""One case to its verdict, and one pair of texts to its score.

Here, and nowhere else, it is decided when a score is correct and which outcome a case ends
as. Which scorer that takes is the registry's business, what it computes is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from farm.core.result import (
    CORRECT,
    EMPTY,
    REFUSED,
    TRUNCATED,
    UNPARSED,
    UNSCORABLE,
    WRONG,
    CaseResult,
)
from farm.errors import SpecError
from farm.scoring.postprocess import post_process
from farm.scoring.registry import ScoreFunction, Scorer, scorer

GRADED_CORRECT: Final = 0.5


class CaseJudge(Protocol):
    """Judges one case; see `case_judge`."""

    def __call__(
        self, id: str, response: str, targets: Sequence[str], finish: str = "", /
    ) -> CaseResult:
        """Return the verdict on a response."""
        ...


_FUNCTIONS: dict[str, ScoreFunction] = {}  # of `score`, by name: one look-up a call


def score(metric_name: str, prediction: str, targets: Sequence[str]) -> float:
    """Return the score of a prediction against its best target, in [0, 1].

    `targets` is a list of texts; a single text counts as a list of one; no targets give
    0.0. Raises SpecError for an unknown metric, listing the known ones, for a metric that
    needs more than texts, and for anything that is not text.
    """
    if targets.__class__ is str:
        targets = (targets,)  # a string would be taken for the sequence of its letters
    try:
        return _FUNCTIONS[metric_name](prediction, targets)
    except (KeyError, TypeError, AttributeError):
        return _score_with_care(metric_name, prediction, targets)


def _score_with_care(metric_name: object, prediction: object, targets: object) -> float:
    """Name what is wrong with the arguments, or load the scorer and go on."""
    if not isinstance(metric_name, str):
        raise SpecError(f"the metric is {metric_name!r}; give its name")
    if not isinstance(prediction, str):
        raise SpecError(f"the prediction is {prediction!r}; give a text")
    if not isinstance(targets, Sequence):
        raise SpecError(f"the targets are {targets!r}; give a list of texts")
    for target in targets:
        if not isinstance(target, str):
            raise SpecError(f"a target is {target!r}; give texts only")
    function = _FUNCTIONS[metric_name] = scorer(metric_name).function
    return function(prediction, targets)


def score_many(
    metric_name: str, predictions: Sequence[str], targets: Sequence[Sequence[str]]
) -> list[float]:
    """Return the score of each prediction against its own list of targets.

    Equal to calling `score` on each pair, without its cost for each call. Raises SpecError
    as `score` does, and if there is not one list of targets for each prediction.
    """
    metric = scorer(metric_name)
    if len(predictions) != len(targets):
        raise SpecError(
            f"there are {len(predictions)} predictions and {len(targets)} lists of targets; "
            "give one list for each prediction"
        )
    try:
        if metric.many is not None:
            scores = metric.many(predictions, targets)
            if len(scores) == len(predictions):  # a plugin may miscount
                return scores
        if str in set(map(type, targets)):
            targets = [[wanted] if isinstance(wanted, str) else wanted for wanted in targets]
        return list(map(metric.function, predictions, targets))
    except (TypeError, AttributeError):
        pairs = zip(predictions, targets, strict=True)
        return [_score_with_care(metric_name, answer, wanted) for answer, wanted in pairs]


def is_correct(metric: Scorer, value: float) -> bool:
    """Decide whether a score counts as correct; nothing else may.

    A 0/1 metric must be fully right (for code_exec: every assertion), a graded one at
    least half right. A metric of which less is better is turned round first.
    """
    good = value if metric.higher_is_better else 1.0 - value
    return good >= (GRADED_CORRECT if metric.graded else 1.0)


def case_judge(metric: Scorer, *, post_process_rule: str = "none") -> CaseJudge:
    """Make the function that judges a case: (id, response, targets, finish) -> CaseResult.

    `finish` is "refused" or "truncated" where the adapter's finish reason says so, else
    "". The outcome is, in this order: unscorable (no target the metric can judge, or the
    scorer failed in any way or left [0, 1]), refused, correct, truncated, empty, unparsed,
    wrong. So a right answer that was cut off behind it is correct, and a refusal never is. Only a
    correct or graded answer has a score over 0.
    """
    judges, reads = metric.judges, metric.reads
    post_process(post_process_rule, "")  # an unknown rule fails here, before any case

    def judge(id: str, response: str, targets: Sequence[str], finish: str = "") -> CaseResult:
        if not targets or not (judges is None or _judged(metric, judges, targets)):
            return CaseResult(id=id, correct=False, score=0.0, outcome=UNSCORABLE)
        if finish == REFUSED:
            return CaseResult(id=id, correct=False, score=0.0, outcome=REFUSED)
        answer, found = response, True
        if post_process_rule != "none":
            extracted = post_process(post_process_rule, response)
            answer, found = extracted.text, extracted.found
        value = value_of(metric, answer, targets) if found else 0.0
        if value is None:
            return CaseResult(id=id, correct=False, score=0.0, outcome=UNSCORABLE)
        if found and is_correct(metric, value):
            return CaseResult(id=id, correct=True, score=value, outcome=CORRECT)
        outcome = WRONG
        if finish == TRUNCATED:
            outcome = TRUNCATED
        elif not response or response.isspace():
            outcome = EMPTY
        elif not found:
            outcome = UNPARSED
        elif reads is not None:
            has_answer = _asked(metric, reads, answer)
            if has_answer is None:
                return CaseResult(id=id, correct=False, score=0.0, outcome=UNSCORABLE)
            outcome = WRONG if has_answer else UNPARSED
        return CaseResult(id=id, correct=False, score=value, outcome=outcome)

    return judge


def value_of(metric: Scorer, answer: str, targets: Sequence[str]) -> float | None:
    """Return a score in [0, 1], or None if the scorer gave none."""
    try:
        value = float(metric.function(answer, targets))
    except MemoryError:
        raise  # the machine's trouble is no verdict on a case
    except SystemExit:
        if not metric.foreign:
            raise  # somebody wants this process to end, as a handler of signals may
        return None
    except Exception:  # noqa: BLE001 - a plugin is foreign code and may raise anything
        return None
    return value if 0.0 <= value <= 1.0 else None


def _judged(metric: Scorer, judges: Callable[[str], bool], targets: Sequence[str]) -> bool:
    return any(_asked(metric, judges, target) for target in targets)


def _asked(metric: Scorer, question: Callable[[str], bool], text: str) -> bool | None:
    """Return a scorer's answer about a text, or None if it failed."""
    try:
        return bool(question(text))
    except MemoryError:
        raise
    except SystemExit:
        if not metric.foreign:
            raise
        return None
    except Exception:  # noqa: BLE001 - as in `value_of`
        return None
