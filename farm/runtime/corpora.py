"""The published corpus figures to show beside bleu_4, of recorded and of asked runs alike.

A run of recorded predictions has one scorer; where models were asked each task has its metric,
and the figures are over the trials of those that bleu_4 judged, as it saw their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from farm.core.result import counts
from farm.core.task import TaskSpec
from farm.report.caution import FLATTERING
from farm.runtime.standing import corpus_scores
from farm.runtime.trials import Recorded, whole_cases
from farm.scoring.corpus import CorpusScore, published
from farm.scoring.postprocess import post_process


def judged_by_bleu(run: Recorded) -> bool:
    """Say whether bleu_4 judged any case of a run."""
    if not run.asked:
        return run.plan.identity.scorer.name == FLATTERING
    return any(task.metric_name == FLATTERING for task in run.tasks.values())


def corpus_of(run: Recorded) -> tuple[CorpusScore, ...]:
    """Give the figures over the scored cases that bleu_4 judged, all answers held at a time.

    None where there are no such cases, and where sacrebleu is not installed.
    """
    if not judged_by_bleu(run):
        return ()
    if not run.asked:
        return corpus_scores(run.store, run.ledger)
    return corpus_of_answers(_answers(run))


def corpus_of_answers(answers: Iterable[tuple[TaskSpec, str]]) -> tuple[CorpusScore, ...]:
    """Give the figures of scored answers, each with its task; other metrics are left out."""
    own = [(task, text) for task, text in answers if task.metric_name == FLATTERING]
    return published(
        [post_process(task.post_process, text).text for task, text in own],
        [task.targets for task, _ in own],
    )


def _answers(run: Recorded) -> Iterator[tuple[TaskSpec, str]]:
    for case, verdict, _ in whole_cases(run):
        if verdict is not None and counts(verdict.outcome) and isinstance(case.task, str):
            yield run.tasks[case.task], case.response
