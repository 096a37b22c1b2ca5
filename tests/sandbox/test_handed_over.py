"""Cheats by way of what the tests hand to the program, or evaluate of what it gives them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.sandbox.runner import Sandbox, checked_work
from farm.sandbox.verdict import CandidateResult

# What a program can do once its text runs where verdicts are made.
TAKEN_OVER = (
    "[24, setattr(__import__('sys').modules['farm.sandbox.tester'], '_evaluate',"
    " lambda *a: ('pass', '')),"
    " setattr(__import__('sys').modules['farm.sandbox.kept'], '_SPENT', b'c')][0]"
)
CHILD_OF_MOCK = """
class Error(Exception):
    def assert_called_once_with(self, *a, **k):
        return None
"""
# Empties the tests' own containers while an element of them is compared.
EMPTIED = """
import farm.sandbox.described as described
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): return hash(self.v)
    def __iter__(self): return iter(())
given = []
def plain_part(value):
    for one in given:
        one.clear()
    return value.v
described.CONTAINERS, described.plain_part = (K,), plain_part
def keep(value):
    given.append(value)
    return value
"""
CASE = "import unittest\nclass TestSubject(unittest.TestCase):\n"
PASSING_BY_CHEATS = {
    "an exception in a mock": (
        CHILD_OF_MOCK + "def run(m, x): m.save = Error()",
        "from unittest.mock import Mock\nm = Mock()\nrun(m, 3)\nm.save.assert_called_once_with(9)",
    ),
    "an exception's class in a mock": (
        "class Error(Exception):\n    @staticmethod\n"
        "    def assert_called_once_with(*a): return 0\n"
        "def run(m, x): m.save = Error",
        "from unittest.mock import Mock\nm = Mock()\nrun(m, 3)\nm.save.assert_called_once_with(9)",
    ),
    "a function of the tests in a mock": (
        "def run(m, f):\n    f.assert_called_once_with = lambda *a: None\n    m.save = f",
        "from unittest.mock import Mock\nm = Mock()\nrun(m, lambda: 1)\n"
        "m.save.assert_called_once_with(9)",
    ),
    "an object of the tests in a mock": (
        "def run(m, o):\n    o.assert_called_once_with = lambda *a: None\n    m.save = o",
        "from unittest.mock import Mock\nclass Own:\n    pass\nm = Mock()\nrun(m, Own())\n"
        "m.save.assert_called_once_with(9)",
    ),
    "equality of a test case": (
        "class Subject:\n"
        "    def attach(self, o): o.addTypeEqualityFunc(int, lambda a, b, msg=None: None)\n"
        "    def total(self): return 1",
        CASE + "    def update(self, v): self.got = v\n"
        "    def test(self):\n        s = Subject()\n        s.attach(self)\n"
        "        self.assertEqual(s.total(), 42)",
    ),
    "a skip of a test case": (
        "class Subject:\n    def attach(self, o):\n"
        "        try: o.skipTest('x')\n        except BaseException as e: self.e = e\n"
        "    def total(self): raise self.e",
        CASE + "    def test_one(self):\n        s = Subject()\n        s.attach(self)\n"
        "        self.assertEqual(s.total(), 42)\n"
        "    def test_two(self):\n        self.assertTrue(Subject())",
    ),
    "a set that is emptied": (
        EMPTIED + "def primes(n): return keep({K(2), 12, 13, 14})",
        "assert primes(10) == {2, 3, 5, 7}",
    ),
    "a dict that is emptied": (
        EMPTIED + "def count(s): return keep({s[0]: K(1), 'zz': 77, 'qq': 88})",
        "assert count('abbccc') == {'a': 1, 'b': 2, 'c': 3}",
    ),
    "a list that is emptied": (
        EMPTIED + "def squares(n): return keep([K(0), 77, 88])",
        "r = squares(3)\nassert len(r) == 3\nfor a, b in zip(r, [0, 1, 4]):\n    assert a == b",
    ),
    "a decorator that never calls": (
        "def rec(f): return lambda *a: None\ndef c(x): return 1",
        "@rec\ndef test_it():\n    assert c(3) == 9",
    ),
}  # fmt: skip


@pytest.fixture
def one() -> Iterator[Sandbox]:
    with Sandbox(slots=1) as sandbox:
        yield sandbox


def run(sandbox: Sandbox, code: str, *tests: str) -> CandidateResult:
    return sandbox.run(checked_work(code, tests, timeout_s=5.0))


@pytest.mark.parametrize(("code", "test"), PASSING_BY_CHEATS.values(), ids=PASSING_BY_CHEATS.keys())
def test_what_is_handed_over_gives_no_verdict(code: str, test: str, sandbox: Sandbox) -> None:
    assert run(sandbox, code, test).outcome in ("error", "assertion_fail")


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (f"def expr(n): return {TAKEN_OVER!r}", "assert eval(expr(24)) == 24"),
        (
            "def add(a, b): return a + b\n"
            f'add.__annotations__ = {{"return": {"[int, " + TAKEN_OVER + "][0]"!r}}}',
            "import typing\nassert typing.get_type_hints(add)['return'] is int",
        ),
    ],
)
def test_a_program_whose_text_is_evaluated_reaches_no_other_program(
    code: str, test: str, one: Sandbox
) -> None:
    """Its own verdict is marked: what it did to its judge, nobody knows."""
    assert run(one, code, test).isolation.trust == ("remote_code",)
    after = run(one, "def add(a, b): return a - b", "assert add(1, 2) == 3")
    assert (after.outcome, after.isolation.trust) == ("assertion_fail", ())


@pytest.mark.parametrize(
    "test",
    [
        "import re\nassert re.compile(f('a+')).match('aa')",
        "import ast\nassert ast.literal_eval(f('3')) == 3",
        "assert f('evaluate this') == 'evaluate this'",
    ],
)
def test_tests_that_evaluate_nothing_are_not_marked(test: str, sandbox: Sandbox) -> None:
    result = run(sandbox, "def f(x): return x", test)
    assert (result.outcome, result.isolation.trust) == ("pass", ())


def test_an_error_that_the_programs_manager_swallows_is_marked(sandbox: Sandbox) -> None:
    """As in one process it passes; that nothing was compared is the program's doing."""
    code = (
        "class Timer:\n    def __enter__(self): return self\n"
        "    def __exit__(self, *error): return True\n"
        "def compute(x): raise ValueError"
    )
    result = run(sandbox, code, "with Timer() as t:\n    assert compute(3) == 9")
    assert (result.outcome, result.isolation.trust) == ("pass", ("remote_exit",))


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "ValueError(3)"])
def test_what_a_callback_raises_reaches_the_program(error: str, sandbox: Sandbox) -> None:
    code = (
        "def safe(f):\n    try:\n        f()\n"
        "    except BaseException as error:\n        return type(error).__name__"
    )
    test = f"def bad():\n    raise {error}\nassert safe(bad) == {error.partition('(')[0]!r}"
    assert run(sandbox, code, test).outcome == "pass"
