"""What tests lend a program, and what it gives back, are what they would be in one process.

Each program is right: plain Python, program and assertions in one namespace, is the oracle.
"""

from __future__ import annotations

import sys
import types

import pytest

from farm.sandbox.runner import Sandbox, checked_work

_PLAIN = "def f(x): return x * 3"

# name: (program, assertions, what the verdict may say it took on trust)
CASES: dict[str, tuple[str, list[str], set[str]]] = {
    "classes of the tests with types": (
        _PLAIN,
        [
            "from dataclasses import dataclass\n@dataclass\nclass Case:\n    x: int\n"
            "assert f(Case(3).x) == 9",
            "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\n"
            "class Other:\n    x: int\n    y: Case = None\nassert f(Other(3).x) == 9",
            "from typing import NamedTuple, get_type_hints\nclass P(NamedTuple):\n    x: int\n"
            "assert get_type_hints(P) == P.__annotations__ == {'x': int} and f(2) == 6",
        ],
        set(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_right_program_passes(name: str, sandbox: Sandbox) -> None:
    """Every assertion holds across the boundary as it does without one."""
    code, assertions, trust = CASES[name]
    result = sandbox.run(checked_work(code, assertions, timeout_s=5.0))
    assert [one.detail for one in result.assertions if one.outcome != "pass"] == []
    assert (result.outcome, set(result.isolation.trust) - trust) == ("pass", set())


@pytest.mark.parametrize("name", CASES)
def test_plain_python_agrees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle: CPython, with program and assertions in one namespace."""
    code, assertions, _ = CASES[name]
    module = types.ModuleType("candidate")
    monkeypatch.setitem(sys.modules, "candidate", module)
    exec(compile(code, "<program>", "exec", dont_inherit=True), vars(module))
    for text in assertions:
        exec(compile(text, "<assertion>", "exec", dont_inherit=True), vars(module))


def test_a_failed_assert_is_named_by_its_line(sandbox: Sandbox) -> None:
    """Of a block of many asserts: the line of the text as it was given, and what stands there."""
    block = "\nx = f(1)\nassert x == 3\nassert f(2) == 7\nassert f(3) == 9"
    inner = "def check(g):\n    assert g(1) == 3\n    assert g(1) == 4\n"
    work = checked_work(_PLAIN, [block, inner, "assert f(1) == 1, 'said'"], timeout_s=5.0)
    assert [one.detail for one in sandbox.run(work).assertions] == [
        "line 4: assert f(2) == 7",
        "line 3: assert g(1) == 4",
        "said",
    ]
