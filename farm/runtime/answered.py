"""A shard of trials once its answers are there: verdicts, receipt, and the same again to verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from farm.core.answer import answers_of, encode_answers
from farm.core.generation import Generation
from farm.core.isolation import weakest
from farm.core.plan import Shard
from farm.core.receipt import Receipt, build_receipt
from farm.core.task import TaskSpec
from farm.core.trial import Trial, read_trial
from farm.errors import Corrupt
from farm.runtime.worker import decode_cases
from farm.scoring.trial import Verdict

Judge = Callable[[str, TaskSpec, Generation], Verdict]


def trials_of(data: bytes, shard: Shard, tasks: Mapping[str, TaskSpec]) -> list[Trial]:
    """Read a shard's cases as trials; raises `Corrupt` when one is of no task of the run."""
    trials = [read_trial(case.id) for case in decode_cases(data, shard)]
    for trial in trials:
        if trial.task not in tasks:
            raise Corrupt(path="tasks", reason=f"{trial.task!r} of {shard.name} is not among them")
    return trials


def receipt_of(
    verdicts: Sequence[Verdict], answers: Sequence[Generation], *, worker_pid: int
) -> Receipt:
    """Make the receipt of a shard from its verdicts and answers, in the order of its cases."""
    return build_receipt(
        [result for result, _ in verdicts],
        worker_pid=worker_pid,
        isolation=weakest({around for _, around in verdicts if around is not None}),
        answers=encode_answers(answers),
    )


def judged_again(
    receipt: Receipt,
    trials: Sequence[Trial],
    tasks: Mapping[str, TaskSpec],
    judge: Judge,
    *,
    path: str,
) -> Receipt:
    """Judge the answers of a receipt anew and give the receipt as it should be; `path` names it."""
    answers = answers_of(receipt, path=path)
    if len(answers) != len(trials):
        raise Corrupt(path=path, reason=f"{len(answers)} answers to {len(trials)} trials")
    verdicts = [
        judge(trial.id, tasks[trial.task], answer)
        for trial, answer in zip(trials, answers, strict=True)
    ]
    return receipt_of(verdicts, answers, worker_pid=receipt.worker_pid)
