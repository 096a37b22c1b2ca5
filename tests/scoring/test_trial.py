"""One answer to its verdict: what the failure and the finish reason decide, and what the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from farm.core.generation import Generation, failed
from farm.core.result import CaseResult
from farm.core.task import TaskSpec
from farm.errors import SpecError
from farm.scoring.trial import TrialJudge, runs_programs
from tests.scoring.test_programs import AROUND, Runner, Verdict

TEXT = TaskSpec(
    task_id="t",
    category="open",
    prompt="p",
    targets=("yes",),
    metric_name="exact_match",
    post_process="lower",
)
CODE = TaskSpec(
    task_id="c",
    category="code_exec",
    prompt="p",
    targets=("add(1, 2) == 3",),
    metric_name="code_exec",
    post_process="extract_code_block",
    metadata={"timeout_s": 7},
)
PROGRAM = "```python\ndef add(a, b):\n    return a + b\n```"


def judged(answer: Generation, task: TaskSpec = TEXT) -> CaseResult:
    return TrialJudge()("m|t|0", task, answer)[0]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Generation("YES"), "correct"),  # post-processed as the task says
        (Generation("no"), "wrong"),
        (Generation(""), "empty"),
        (Generation("YES", finish_reason="length"), "correct"),
        (Generation("no", finish_reason="length"), "truncated"),
        (Generation("YES", finish_reason="content_filter"), "refused"),
        (Generation("yes", finish_reason="refusal"), "refused"),
        (failed("timeout", "no reply in time", text="yes"), "error"),
        (failed("denied", "HTTP 401"), "error"),
        (failed("invalid", "HTTP 400"), "error"),
    ],
)
def test_the_outcome_of_an_answer(answer: Generation, outcome: str) -> None:
    """A request's timeout is no answer: the outcome `timeout` is a program's alone."""
    result = judged(answer)
    assert (result.id, result.outcome) == ("m|t|0", outcome)
    assert result.correct == (outcome == "correct")


def of_program(
    says: Sequence[Verdict | Exception], answer: Generation
) -> tuple[CaseResult, Runner]:
    runner = Runner(says=list(says))
    return TrialJudge(runner)("m|c|0", CODE, answer)[0], runner


def test_a_program_is_run_with_the_time_of_its_task() -> None:
    limits: list[float | None] = []

    class Timed(Runner):
        def judge(
            self,
            code: str,
            assertions: Sequence[str],
            /,
            *,
            timeout_s: float | None = None,
            entry_point: str | None = None,
        ) -> Verdict:
            limits.append(timeout_s)
            return super().judge(code, assertions)

    runner = Timed(says=[Verdict(outcome="pass", score=1.0)])
    result, around = TrialJudge(runner)("m|c|0", CODE, Generation(PROGRAM))
    assert (result.outcome, limits) == ("correct", [7.0])
    assert around == AROUND


@pytest.mark.parametrize(
    ("finish", "says", "outcome", "runs"),
    [
        ("stop", "assertion_fail", "wrong", 1),
        ("length", "assertion_fail", "truncated", 1),
        ("length", "pass", "correct", 1),
        ("content_filter", "pass", "refused", 0),
    ],
)
def test_the_finish_reason_of_a_program(finish: str, says: str, outcome: str, runs: int) -> None:
    verdict = Verdict(outcome=says, score=1.0 if says == "pass" else 0.5)
    result, runner = of_program([verdict], Generation(PROGRAM, finish_reason=finish))
    assert (result.outcome, len(runner.asked)) == (outcome, runs)


def test_a_failed_call_runs_nothing() -> None:
    result, runner = of_program([], failed("cut", "broke off", text=PROGRAM))
    assert (result.outcome, runner.asked) == ("error", [])


def test_programs_need_somebody_to_run_them() -> None:
    assert runs_programs(CODE)
    assert not runs_programs(TEXT)
    with pytest.raises(SpecError, match="task 'c' needs a sandbox"):
        judged(Generation(PROGRAM), CODE)
