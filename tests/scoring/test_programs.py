"""What a program's fate makes of its case, and what is run at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from farm.core.case import ScoredInput
from farm.core.isolation import Isolation
from farm.core.result import CaseResult
from farm.errors import SandboxLost, SandboxUnavailable
from farm.scoring.programs import is_assertion, judge_programs

AROUND = Isolation(level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False)
PROGRAM = "def add(a, b):\n    return a + b\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict as a sandbox gives it."""

    outcome: str
    score: float = 0.0
    starved: bool = False
    spent: bool = False
    isolation: Isolation = AROUND


@dataclass(slots=True)
class Runner:
    """Says in turn what it was told to say, and keeps what it was asked."""

    says: list[Verdict | Exception]
    asked: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def judge(self, code: str, assertions: Sequence[str], /, *, timeout_s: float = 3.0) -> Verdict:
        self.asked.append((code, assertions))
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


def case(response: str = PROGRAM, *targets: str) -> ScoredInput:
    return ScoredInput(id="a", response=response, targets=targets or ("add(1, 2) == 3",))


def judged(runner: Runner, one: ScoredInput) -> CaseResult:
    (result,), _ = judge_programs([one], runner)
    return result


@pytest.mark.parametrize(
    ("verdict", "outcome", "score"),
    [
        (Verdict(outcome="pass", score=1.0), "correct", 1.0),
        (Verdict(outcome="assertion_fail", score=0.5), "wrong", 0.5),
        (Verdict(outcome="syntax_error"), "wrong", 0.0),
        (Verdict(outcome="error", score=0.75), "wrong", 0.75),
        (Verdict(outcome="timeout", score=0.25), "timeout", 0.25),
        # it waited long, and had its time all the same
        (Verdict(outcome="timeout", starved=True, spent=True), "timeout", 0.0),
        # it passed in spite of a busy machine
        (Verdict(outcome="pass", score=1.0, starved=True), "correct", 1.0),
    ],
)
def test_a_program_that_was_judged_is_right_wrong_or_out_of_time(
    verdict: Verdict, outcome: str, score: float
) -> None:
    """The table of the metric: the score is the share of assertions, correct is all of them."""
    result = judged(Runner([verdict]), case())
    assert (result.outcome, result.score) == (outcome, score)
    assert result.correct == (outcome == "correct")


def test_a_starved_timeout_is_run_once_more_and_then_an_error() -> None:
    """Being out of time for want of a processor says nothing about the program."""
    starved = Verdict(outcome="timeout", score=0.5, starved=True)
    again = Runner([starved, Verdict(outcome="pass", score=1.0)])
    assert judged(again, case()).outcome == "correct"
    twice = Runner([starved, starved])
    assert judged(twice, case()) == CaseResult(id="a", correct=False, score=0.0, outcome="error")
    assert len(twice.asked) == 2


def test_a_sandbox_that_was_lost_makes_an_error_and_the_next_case_is_judged() -> None:
    runner = Runner([SandboxLost("gone"), Verdict(outcome="pass", score=1.0)])
    results, around = judge_programs([case(), case()], runner)
    assert [one.outcome for one in results] == ["error", "correct"]
    assert around == AROUND


def test_a_machine_that_isolates_nothing_ends_the_shard() -> None:
    """That is no verdict on a case: the run must stop, not go on without verdicts."""
    with pytest.raises(SandboxUnavailable):
        judge_programs([case()], Runner([SandboxUnavailable("no isolation")]))


@pytest.mark.parametrize(
    ("response", "targets", "outcome"),
    [
        ("", (), "empty"),
        (" \n", (), "empty"),
        ("I am sorry, I cannot help with that.", (), "unparsed"),
        (PROGRAM, ("add(1, 2 ==", "# nothing"), "unscorable"),
        ("", ("add(1, 2 ==",), "unscorable"),  # as for other metrics, the target comes first
    ],
)
def test_without_a_program_or_an_assertion_nothing_is_run(
    response: str, targets: tuple[str, ...], outcome: str
) -> None:
    runner = Runner([])
    results, around = judge_programs([case(response, *targets)], runner)
    assert results == [CaseResult(id="a", correct=False, score=0.0, outcome=outcome)]
    assert (runner.asked, around) == ([], None)


def test_the_program_is_taken_out_of_the_response_and_all_targets_are_its_assertions() -> None:
    """`expected` comes first, as everywhere; a broken assertion beside a good one is run too."""
    runner = Runner([Verdict(outcome="pass", score=1.0)])
    one = ScoredInput(
        id="a",
        expected="add(0, 0) == 0",
        targets=("add(1, 2) == 3", "add("),
        response=f"Here it is:\n```python\n{PROGRAM}```\nEnjoy!",
    )
    judged(runner, one)
    assert runner.asked == [(PROGRAM, ("add(0, 0) == 0", "add(1, 2) == 3", "add("))]


def test_trust_is_kept_for_its_case_and_summed_up_for_the_shard() -> None:
    trusting = Isolation(
        level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False, trust=("remote_eq",)
    )
    runner = Runner(
        [
            Verdict(outcome="pass", score=1.0),
            Verdict(outcome="pass", score=1.0, isolation=trusting),
        ]
    )
    results, around = judge_programs([case(), case()], runner)
    assert [one.trust for one in results] == [(), ("remote_eq",)]
    assert around == trusting


def test_each_case_is_told_as_it_is_judged() -> None:
    told: list[int] = []
    runner = Runner([Verdict(outcome="pass", score=1.0)] * 2)
    judge_programs([case(), case(""), case()], runner, on_case=told.append)
    assert told == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "can_judge"),
    [
        ("add(1, 2) == 3", True),
        ("  assert add(1, 2) == 3", True),
        ("def check(f):\n    assert f(1, 2) == 3\ncheck(add)", True),
        ("", False),
        ("# add", False),
        ("add(1, 2", False),
        ("add(1, 2)\x00", False),
    ],
)
def test_an_assertion_is_what_parses_and_holds_something(text: str, can_judge: bool) -> None:
    assert is_assertion(text) is can_judge
