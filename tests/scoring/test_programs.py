"""What a program's fate makes of its case, and what is run at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from farm.core.case import ProgramInput, ScoredInput
from farm.core.isolation import Isolation
from farm.core.result import CaseResult
from farm.errors import SandboxLost, SandboxUnavailable, SpecError
from farm.scoring.programcase import AssertionAccount, explain_program
from farm.scoring.programrules import ProgramRules, rules_of
from farm.scoring.programs import is_assertion, judge_programs
from farm.scoring.registry import scorer

AROUND = Isolation(level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False)
PROGRAM = "def add(a, b):\n    return a + b\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one assertion ended."""

    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict as a sandbox gives it."""

    outcome: str
    score: float = 0.0
    starved: bool = False
    spent: bool = False
    detail: str = ""
    assertions: tuple[Ended, ...] = ()
    isolation: Isolation = AROUND


@dataclass(slots=True)
class Runner:
    """Says in turn what it was told to say, and keeps what it was asked."""

    says: list[Verdict | Exception]
    asked: list[tuple[str, Sequence[str]]] = field(default_factory=list)
    entries: list[str | None] = field(default_factory=list)

    def judge(
        self,
        code: str,
        assertions: Sequence[str],
        /,
        *,
        timeout_s: float | None = None,
        entry_point: str | None = None,
    ) -> Verdict:
        self.entries.append(entry_point)
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


def test_of_several_blocks_the_one_is_run_that_defines_what_the_assertions_call() -> None:
    """An example that comes last is no answer, and without an entry point cannot be told."""
    runner = Runner([Verdict(outcome="pass", score=1.0)] * 2)
    demo = "class Demo:\n    def run(self): print('hi')\n"
    reply = f"```python\n{PROGRAM}```\nExample:\n```python\n{demo}```"
    judged(runner, case(reply, "max(add(1, 2), 0) == 3"))
    judged(runner, case(reply, "def check(c):\n    assert c(1, 2) == 3\ncheck(add)"))
    assert [code for code, _ in runner.asked] == [PROGRAM, PROGRAM]


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
        ("42", False),  # plain answers judge no program
        ("'yes'", False),
        ("[1, 2]", False),
        ("1 == 1", False),
        ("assert True", True),  # taken at its word
        ("add(1, 2", False),
        ("add(1, 2)\x00", False),
    ],
)
def test_an_assertion_is_what_parses_and_holds_something(text: str, can_judge: bool) -> None:
    assert is_assertion(text) is can_judge


_TEST = "def test_a(): assert add(1, 2) == 3"


@pytest.mark.parametrize(
    ("text", "beside", "can_judge"),
    [
        (_TEST, (), True),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail()",
            (),
            True,
        ),
        ("def check(candidate): assert candidate(1, 2) == 3", (), True),
        ("x = add(1, 2)", (), False),
        ("x = add(1, 2)", ("x == 3",), False),  # the other one does
        ("add(1, 2)\nadd(2, 3)", (), False),
        ("if add(1, 2) != 3:\n    raise ValueError", (), True),
        ("try:\n    add(1)\nexcept TypeError:\n    pass\nelse:\n    assert False", (), True),
        # what asserts stands where nothing runs it
        ("def look(): assert add(1, 2) == 3", (), False),
        ("def look(): assert add(1, 2) == 3\nlook()", (), True),
        ("def look(): assert add(1, 2) == 3", ("look()",), True),
        ("for a in (1, 2):\n    look(a)", ("def look(x): assert add(x, x) == 2 * x",), True),
        ("for a in (1, 2):\n    exec('assert add(a, 0) == a')", (), True),
        # nobody but pytest has their arguments
        ("def test_a(tmp_path): assert add(1, 2) == 3", (), False),
        ("@pytest.fixture\ndef x(): return 3\ndef test_a(x): assert add(x, 0) == 3", (), False),
        (f"@pytest.mark.parametrize('x', [1])\n{_TEST}\nassert add", (), False),
        ("def test_a(x): assert add(x, 0) == x\nfor x in (1, 2):\n    test_a(x)", (), True),
        ("def test_a(x): assert add(x, 0) == x", ("test_a(1)",), True),
    ],
)
def test_a_block_is_an_assertion_if_something_in_it_can_fail(
    text: str, beside: tuple[str, ...], can_judge: bool
) -> None:
    """A test that judges nothing is the data's fault: it makes no program a wrong one."""
    assert is_assertion(text, beside) is can_judge


def test_a_case_of_which_no_target_can_judge_is_unscorable_whatever_the_program() -> None:
    runner = Runner([Verdict(outcome="pass", score=1.0)])
    fixture = "def test_a(tmp_path): assert add(1, 2) == 3"
    for response in (PROGRAM, "def add(", "", "I cannot."):
        assert judged(runner, case(response, fixture, "x = add(1, 2)")).outcome == "unscorable"
    assert runner.asked == []
    assert judged(runner, case(PROGRAM, fixture, "add(1, 2) == 3")).outcome == "correct"


def test_an_explanation_tells_of_the_code_and_each_assertion() -> None:
    """What was taken out of the response, and for every assertion how it ended and why."""
    said = Verdict(
        outcome="assertion_fail",
        score=0.5,
        detail="assertion 2: the expression is false",
        assertions=(Ended(outcome="pass"), Ended(outcome="assertion_fail", detail="is false")),
    )
    targets = ["add(1, 2) == 3", "add(1, 1) == 3"]
    told = explain_program(
        scorer("code_exec"), f"Sure:\n```python\n{PROGRAM}```", targets, Runner([said])
    )
    assert told.code == PROGRAM
    assert (told.outcome, told.score, told.program) == ("wrong", 0.5, "assertion_fail")
    assert told.rule == "1 of 2 assertions passed"
    assert told.assertions == (
        AssertionAccount(text=targets[0], outcome="pass", detail=""),
        AssertionAccount(text=targets[1], outcome="assertion_fail", detail="is false"),
    )
    assert told.isolation == AROUND


@pytest.mark.parametrize(
    ("response", "target", "outcome", "rule"),
    [
        ("I cannot.", "f() == 1", "unparsed", "the response holds no program"),
        ("  ", "f() == 1", "empty", "the response is empty, so nothing was run"),
        (PROGRAM, "f( ==", "unscorable", "no target is an assertion, so nothing was run"),
    ],
)
def test_what_was_not_run_is_explained_too(
    response: str, target: str, outcome: str, rule: str
) -> None:
    """No runner is asked, and the rule says what was missing."""
    told = explain_program(scorer("code_exec"), response, [target], Runner([]))
    assert (told.outcome, told.rule, told.code, told.assertions) == (outcome, rule, None, ())


def test_a_program_nobody_could_judge_is_explained_as_that() -> None:
    """The runner lost its process: no outcome of the program, and the case is an error."""
    told = explain_program(scorer("code_exec"), PROGRAM, ["f()"], Runner([SandboxLost("gone")]))
    assert (told.outcome, told.program, told.code) == ("error", None, PROGRAM)
    assert told.detail == "gone"


@pytest.mark.parametrize(
    ("name", "timeout_s", "imports"),
    [
        ("code_exec", 3.0, "deny"),
        ("code_exec@10s", 10.0, "deny"),
        ("code_exec@0.25s", 0.25, "deny"),
        ("code_exec@allow", 3.0, "allow"),
        ("code_exec@30s,allow", 30.0, "allow"),
        ("exact_match", 3.0, "deny"),
    ],
)
def test_a_scorers_name_says_how_programs_are_run(
    name: str, timeout_s: float, imports: str
) -> None:
    """Time and imports change verdicts: they stand in the name, and so in a run's identity."""
    rules = rules_of(name)
    assert (rules.timeout_s, rules.imports) == (timeout_s, imports)
    assert scorer(name).name == name


@pytest.mark.parametrize(
    "written",
    ["", "0s", "31s", "03s", "3s", "3.0s", "1e1s", "10", "s", "deny", ",allow", "10sallow",
     "allow,10s", "nans", "-1s", "10s,", "10S", "１s", "1１s"],
)  # fmt: skip
def test_one_rule_has_one_spelling(written: str) -> None:
    """Two names of one rule would be two scorers; outside 0 to 30 s nothing is run."""
    with pytest.raises(SpecError, match="code_exec@10s"):
        scorer(f"code_exec@{written}")
    assert rules_of("code_exec") == ProgramRules()


_PROMPT = """from typing import List

def is_even(n: int) -> bool:
    return n % 2 == 0


def halve(n: int) -> int:
    '''Halve an even number.
    >>> halve(4)
    2
    '''
"""
_HALVE = _PROMPT + "    return n // 2 if is_even(n) else None\n"
_CHECK = "def check(candidate):\n    assert candidate(4) == 2\n"


@pytest.mark.parametrize(
    ("prompt", "code", "test", "entry"),
    [
        (_PROMPT, _HALVE, _CHECK, "halve"),
        ("Complete this:\n```python\n" + _PROMPT + "```\nThanks.", _HALVE, _CHECK, "halve"),
        (_PROMPT, _HALVE, "halve(4) == 2", None),  # the test says itself what it calls
        (_PROMPT, "def is_even(n): return n\ndef half(n): return 2", _CHECK, None),
        ("Write a function that halves.", _HALVE, _CHECK, None),
    ],
)
def test_a_check_is_given_the_function_that_the_prompt_ends_with(
    prompt: str, code: str, test: str, entry: str | None
) -> None:
    """As HumanEval's fields are: the prompt may define what its function needs."""
    runner = Runner([Verdict(outcome="pass", score=1.0)])
    one = ProgramInput(id="a", prompt=prompt, response=f"```python\n{code}\n```", expected=test)
    judged(runner, one)
    assert runner.entries == [entry]
