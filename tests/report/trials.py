"""A small evaluation the report tests share: three models, twelve tasks, every kind of ending."""

from __future__ import annotations

from farm.report.casepages import CaseRow
from farm.stats.evalrun import EvalRun

# one letter a task: correct, wrong, empty, unparsed, refused, timeout (no score), error (no score)
ENDINGS = {
    "alpha": "cccccccccccw",
    "beta|@team\n<b>bold</b> of some length": "ccccccwwwueo",
    "gamma": "ccwwwwcwcwcc",
}
_OUTCOMES = {
    "c": "correct", "w": "wrong", "e": "empty", "u": "unparsed", "o": "error",
}  # fmt: skip


def runs() -> list[EvalRun]:
    return [
        EvalRun(
            model_id=model,
            task_id=f"t{place:02}",
            category=("maths", "law")[place % 2],
            metric_name="exact_match",
            score=None if letter == "o" else float(letter == "c"),
            correct=None if letter == "o" else letter == "c",
            outcome=_OUTCOMES[letter],
            confidence=None if letter == "o" else (0.9 if letter == "c" else 0.6),
            token_nll=2.0 if letter == "c" else None,
            token_count=4 if letter == "c" else None,
            latency_s=0.25,
            metadata={"metric_version": 1, "post_process": "first_line"},
        )
        for model, letters in ENDINGS.items()
        for place, letter in enumerate(letters)
    ]


def cases() -> list[CaseRow]:
    return [
        CaseRow(
            model=run.model_id,
            id=f"{run.model_id}|{run.task_id}|0",
            prompt=f"Question of {run.task_id}: how much is {run.task_id} and one?",
            expected="42",
            response="the answer is 42" if run.score else "forty",
            extracted="42" if run.score else None,
            rule="exact_match: stripped equality with any target",
            steps=("strip", "first line"),
            category=run.category,
            outcome=run.outcome,
            score=run.score,
        )
        for run in runs()
    ]
