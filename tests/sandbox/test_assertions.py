"""What counts as an assertion, and when a builtin means the program's function."""

from __future__ import annotations

from typing import Literal

import pytest

from farm.sandbox import assertions
from farm.sandbox.imports import find_denied
from farm.sandbox.runner import Sandbox, checked_work
from farm.scoring.blocks import waiting


@pytest.mark.parametrize(
    ("text", "is_expression", "judges"),
    [
        ("add(1, 2) == 3", True, False),  # its value does
        ("assert add(1, 2) == 3", False, True),
        ("x = add(1, 2)\nassert x == 3", False, True),
        ("    assert x\n", False, True),  # outer white space is not part of it
        ("x = add(1, 2)", False, False),
        ("raise AssertionError('no')", False, True),
        ("if add(1, 2) != 3:\n    raise ValueError", False, True),
        # what libraries assert by, however it was imported
        ("import pytest\nwith pytest.raises(ValueError):\n    add('a', 1)", False, True),
        ("from pytest import raises\nwith raises(ValueError):\n    add('a', 1)", False, True),
        ("from numpy.testing import assert_allclose\nassert_allclose(f(), 1.0)", False, True),
        ("from numpy.testing import assert_equal as same\nsame(f(), 1.0)", False, True),
        ("import unittest\nt = unittest.TestCase()\nt.fail('x')", False, True),
        # what nothing calls cannot fail
        ("def ok():\n    assert add(1, 2) == 3", False, False),
        ("def ok():\n    assert add(1, 2) == 3\nok()", False, True),
        ("def ok():\n    assert f()\ndef also():\n    ok()\nalso()", False, True),
        ("def ok():\n    assert f()\ndef also():\n    ok()", False, False),
        ("def ok():\n    assert f()\nif __name__ == '__main__':\n    ok()", False, False),
        ("def test_a(x):\n    assert add(x, 2) == 3", False, False),  # nobody has its argument
        ("def test_a():\n    assert add(1, 2) == 3", False, True),
        ("class Any:\n    def look(self):\n        assert f()", False, False),
    ],
)
@pytest.mark.parametrize("long", [False, True])
def test_forms(text: str, is_expression: bool, judges: bool, long: bool) -> None:
    """The three forms of the contract, and blocks that cannot fail; long ones read alike."""
    lines = text + "\n# a comment" * 30 if long else text
    read = assertions.read(lines)
    left = waiting(read.block, frozenset(), frozenset())
    found = left.judges or left.check or bool(left.tests)
    assert (read.is_expression, found) == (is_expression, judges)


@pytest.mark.parametrize("text", ["assert (", "", "# nothing", "a\0b", "(" * 5000, "return 3"])
def test_an_assertion_at_fault_is_told_apart(text: str) -> None:
    """It is refused as an assertion; the program it was to judge has done nothing wrong."""
    with pytest.raises(assertions.BadAssertion, match="the assertion "):
        assertions.read(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("assert sum(10, 15) == 6", "sum"),
        ("max([1, 9, 4]) == 9", "max"),
        ("xs = [3, 1, 2]\nassert max(xs) == 3", "max"),  # on data of the tests
        ("assert set(sum(1, 2)) == {1}", "sum"),
        ("def check(c):\n    assert c(1, 2) == 3\ncheck(sum)", "sum"),
        ("assert len(r) == 3", ""),  # on a value of another assertion: Python's own
        ("assert f(1) == 2", ""),
        ("assert f(1).sum(2) == 2", ""),
        # beside another function of the program it is what the tests compare with
        ("assert f(1) == sum([1, 2])", ""),
        ("assert max(f(1)) == 3", ""),
        ("assert sum([1, 2]) == max([3])", ""),  # which of them would be tested?
        # another function of the program is reached, but not by a name that is free everywhere
        ("def run(f):\n    assert sum(f(1)) == 3\nrun(f)", ""),
        ("(lambda f: sum(f(1)) == 3)(f)", ""),
        ("for f in (f,):\n    assert sum(f(1)) == 3", ""),
        ("f = f\nassert sum(f(1)) == 3", ""),
        ("class T:\n    f = staticmethod(f)\nassert sum(T.f(1)) == 3", ""),
        ("try:\n    from s import f\nexcept ImportError:\n    pass\nassert sum(f(1)) == 3", ""),
        ("g = 3\ndel g\nassert sum(g(1)) == 3", ""),
        ("assert sum(globals()['f'](1)) == 3", ""),
        ("assert sum(eval('f(1)')) == 3", ""),
        # all of these names are the text's own
        ("for a, b in [(1, 2)]:\n    if not a:\n        break\n    assert sum(a, b) == 3", "sum"),
        ("def a():\n    b()\ndef b():\n    assert sum(1, 2) == 3\na()", "sum"),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
            "        self.assertEqual(sum(1, 2), 3)",
            "sum",
        ),
        ("from __future__ import annotations\nassert sum(1, 2) == 3", "sum"),
        ("assert all(sum(a, b) == c for a, b, c in [(1, 2, 3)])", "sum"),
    ],
)
def test_a_builtin_may_be_the_function_under_test(text: str, name: str) -> None:
    """Benchmarks have tasks named like builtins; nothing a test relies on can be taken over."""
    defined = frozenset(("sum", "max"))
    assert "".join(assertions.meant(text, frozenset("r"), defined)) == name


def test_a_builtin_that_makes_what_others_judge_by_is_pythons_own() -> None:
    """A program that chose the data could choose such as it is right for."""
    defined = frozenset(("list",))
    text = "xs = list(range(3))\nassert xs"
    assert assertions.meant(text, frozenset(), defined, ["f(2) == 4"]) == {"list"}
    assert assertions.meant(text, frozenset(), defined, ["f(xs) == [0, 1, 2]"]) == frozenset()
    again = "xs = list(range(4))\nassert xs"
    assert assertions.meant(text, frozenset(), defined, [again]) == {"list"}


_CLASS = "class {name}:\n    def __new__(cls, *a, **k): return {value}\n"
_CHECK = "def check(candidate):\n    assert {}\n"


@pytest.mark.parametrize(
    ("name", "value", "test"),
    [
        ("abs", "0", "abs(candidate(3.5) - 0.5) < 1e-6"),
        ("all", "True", "all(candidate(a) == b for a, b in [(3, 9), (4, 16)])"),
        ("set", "1", "set(candidate(3)) == set([9])"),
        ("sorted", "[]", "sorted(candidate(3)) == sorted([3, 1])"),
        ("round", "1", "round(candidate(3), 2) == round(9.123, 2)"),
        ("tuple", "5", "tuple(candidate(3)) == tuple([1])"),
        ("isinstance", "True", "isinstance(candidate(3), str)"),
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        _CHECK,
        "METADATA = {{'author': 'a'}}\n\n\n" + _CHECK,
        _CHECK + "def test_b():\n    assert callable(3) is False\n",
        "def run(candidate):\n    assert {}\nrun(f)",
        "for candidate in (f,):\n    assert {}",
        "try:\n    from solution import f as candidate\nexcept ImportError:\n"
        "    candidate = globals().get('f', f)\nassert {}",
    ],
)
@pytest.mark.parametrize("entry_point", [None, "f"])
def test_a_builtin_of_the_program_judges_no_function_beside_it(
    name: str, value: str, test: str, shape: str, entry_point: str | None, sandbox: Sandbox
) -> None:
    """A wrong function, and two lines that would do for every test of its kind."""
    code = "def f(*a): return 0\n" + _CLASS.format(name=name, value=value)
    work = checked_work(code, shape.format(test), timeout_s=3.0, entry_point=entry_point)
    result = sandbox.run(work)
    assert (result.outcome, result.score) != ("pass", 1.0)
    assert result.passed == 0


@pytest.mark.parametrize("grading", ["split", "in_process"])
def test_a_missing_entry_point_is_not_made_up_for_by_python(
    grading: Literal["split", "in_process"], sandbox: Sandbox
) -> None:
    """Python has a `sorted` of its own, which would pass for a program of nothing."""
    for text in ("sorted([2, 1]) == [1, 2]", "def check(c):\n    assert c([1])\ncheck(sorted)"):
        work = checked_work(
            "def sort(x): return x", text, timeout_s=3.0, entry_point="sorted", grading=grading
        )
        result = sandbox.run(work)
        assert (result.outcome, result.passed) == ("error", 0)
        assert "name 'sorted' is not defined" in result.detail


def test_a_check_is_given_what_the_entry_point_names_and_compares_with_pythons(
    sandbox: Sandbox,
) -> None:
    text = "def check(candidate):\n    assert candidate([2, 1]) == sorted([1, 2])"
    for code, outcome in (
        ("def sorted(x): return 5", "assertion_fail"),
        ("def sorted(x):\n    return [min(x), max(x)]", "pass"),
    ):
        work = checked_work(code, text, timeout_s=3.0, entry_point="sorted")
        assert sandbox.run(work).outcome == outcome


@pytest.mark.parametrize(
    ("program", "texts", "outcome"),
    [
        ("def sorted(x): return x", ["xs = [3, 1, 2]\nassert sorted(xs) == [1, 2, 3]"], "wrong"),
        ("def sum(a, b): return a + b", ["sum(1, 2) == 3", "abs(sum(1, 2) - 3) < 1e-6"], "pass"),
        (
            "def sum(a, b): return a + b\ndef f(x): return x",
            ["f(1) == 1", "sum(1, 2) == 3"],
            "pass",
        ),
        ("from operator import add as sum", ["sum(1, 2) == 3"], "pass"),
        ("sum = lambda a, b: a + b", ["sum(1, 2) == 3"], "pass"),
        ("class filter:\n    def n(self): return 2", ["filter().n() == 2"], "pass"),
        # two lines that would do for every test with a tolerance or a set
        ("def f(x): return 0\ndef abs(x): return 0", ["abs(f(1) - 3) < 1e-6"], "wrong"),
        ("def f(x): return 1\ndef set(x): return 1", ["f(1) == set([4])"], "wrong"),
        ("def f(x): return 1\ndef len(x): return 3", ["r = [f(1)]\nassert len(r) == 3"], "wrong"),
        (
            "def f(x): return 1\ndef len(x): return 3",
            ["r = [f(1)]\nassert r", "len(r) == 3"],
            "wrong",
        ),
    ],
)
def test_a_function_named_like_a_builtin_is_the_programs_where_it_is_what_is_tested(
    program: str, texts: list[str], outcome: str, sandbox: Sandbox
) -> None:
    """Without an entry point; and a builtin of the program is never what the tests compare with."""
    result = sandbox.run(checked_work(program, texts, timeout_s=3.0))
    assert result.outcome == {"wrong": "assertion_fail"}.get(outcome, outcome), result.detail


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import socket", "socket"),
        ("import os\nos.system('x')", "os.system"),
        ("from os import system", "os.system"),
        ("from urllib import request", "urllib"),
        ("import http.client as c", "http.client"),
        ("from http import client", "http.client"),
        ("from asyncio import subprocess", "asyncio.subprocess"),
        ("import asyncio\nasyncio.subprocess", "asyncio.subprocess"),
        ("def f():\n    import shutil", "shutil"),
        ("__import__('ctypes')", "ctypes"),
        ("import importlib\nimportlib.import_module('requests')", "requests"),
        ("import os, sys, threading, asyncio, http", None),
        ("import sockets, urllib3, ctypeslib", None),  # other names, not parts of ours
        ("x = 'import socket'", None),
        ("import posix\nposix.system('x')", "os.system"),  # where os has it from
        ("from posix import system", "os.system"),
        ("class os:\n    system = 1\nprint(os.system)", None),  # a class of its own
        ("import os\nclass os(os.A):\n    pass\nos.system", "os.system"),
    ],
)
def test_denied_names_are_found_in_the_text(program: str, found: str | None) -> None:
    """The deny-list of the contract, in each way a program can name a module."""
    import ast

    denied = find_denied(ast.parse(program))
    assert (denied and denied[0]) == found


def test_denied_imports_meet_the_policy_at_run_time_too() -> None:
    """A name built at run time is refused to the program and granted to the library it uses."""
    code = (
        "import importlib, asyncio, tempfile\n"  # these use socket, subprocess and shutil
        "def f(how):\n"
        "    name = 'soc' + 'ket'\n"
        "    try:\n"
        "        __import__(name) if how else importlib.import_module(name)\n"
        "    except ImportError as error:\n"
        "        return str(error)\n"
        "def g(scope):\n"  # in global names of its own
        "    try:\n"
        "        exec('import soc' + 'ket', scope)\n"
        "    except ImportError as error:\n"
        "        return str(error)\n"
        "def h():\n"
        "    try:\n"
        "        getattr(__import__('posix'), 'sys' + 'tem')('x')\n"
        "    except ImportError as error:\n"
        "        return 'os.system' in str(error)\n"
    )
    said = "denied import 'socket': the import policy does not allow it"
    with Sandbox() as policed:
        texts = [f"f(True) == {said!r}", f"f(False) == {said!r}", f"g({{}}) == {said!r}"]
        texts += [f"g({{'__name__': 'json'}}) == {said!r}", "h()"]
        assert policed.run(checked_work(code, texts, timeout_s=5.0)).detail == ""


@pytest.mark.parametrize(
    ("assertion", "detail"),
    [
        ("x = f(1)", "the block contains no assert, so it judges nothing"),
        ("assert (", "the assertion does not parse: '(' was never closed"),
        ("42", "the expression names nothing of the program, so it judges nothing"),
        ("'yes'", "the expression names nothing of the program, so it judges nothing"),
        ("1 == 1", "the expression names nothing of the program, so it judges nothing"),
        ("max([1, 9]) == 9", "the expression names nothing of the program, so it judges nothing"),
        (
            "def look():\n    assert f(1) == 2",
            "the block judges nothing: what asserts stands in functions that nothing calls",
        ),
        (
            "def check(candidate):\n    assert candidate(1) == 2",
            "nothing calls check, so it judges nothing, and the program defines 2 functions",
        ),
    ],
)
def test_an_assertion_that_judges_nothing_passes_nothing(
    assertion: str, detail: str, sandbox: Sandbox
) -> None:
    """A score must not rise because a line cannot fail."""
    code = "def f(x): return x\ndef g(x): return x"
    result = sandbox.run(checked_work(code, assertion, timeout_s=3.0))
    assert (result.outcome, result.score) == ("error", 0.0)
    assert result.detail.startswith(f"assertion 1: {detail}")


WAITING = [
    "def test_a():\n    assert f(3) == 9",
    "def check_it():\n    assert f(3) == 9\ndef test_a():\n    check_it()",
    "async def test_a():\n    assert f(3) == 9",
    "class TestF:\n    def test_a(self):\n        assert f(3) == 9",
    "class TestF:\n    def setup_method(self):\n        self.x = 3\n"
    "    def test_a(self):\n        assert f(self.x) == 9",
    "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.x = 3\n"
    "    def test_a(self):\n        self.assertEqual(f(self.x), 9)\n"
    "if __name__ == '__main__':\n    unittest.main()",
    "import unittest\nclass Base(unittest.TestCase):\n    pass\nclass T(Base):\n"
    "    def test_a(self):\n        with self.subTest('three'):\n"
    "            self.assertEqual(f(3), 9)\nunittest.main()",
    "def check(candidate):\n    assert candidate(3) == 9",
    "METADATA = {'author': 'a'}\n\n\ndef check(candidate):\n    assert candidate(3) == 9\n",
    "assert f(1) is not None\ndef test_a():\n    assert f(3) == 9",  # as pytest would see it
    "import pytest\ndef test_a():\n    with pytest.raises(TypeError):\n        f()\n"
    "    assert f(3) == 9",
    # beside something else that can fail
    "def check(candidate):\n    assert candidate(3) == 9\nassert callable(f)",
    "def check(candidate):\n    '''What it does.'''\n    assert candidate(3) == 9\n"
    "def test_b():\n    assert callable(f)",
    "def check(candidate):\n    assert candidate(3) == 9\nif not callable(f):\n"
    "    raise ValueError('no function')",
    "def check(candidate):\n    assert candidate(3) == 9\nALL = [check]\nassert callable(f)",
    "# a long text" + " and more" * 30 + "\ndef check(candidate):\n"
    "    assert candidate(3) == 9\nassert callable(f)",
    # mentioned and not called
    "def test_a():\n    assert f(3) == 9\nALL = [test_a]\nassert callable(f)",
    "def test_a():\n    assert f(3) == 9\nif not callable(f):\n    test_a()",
    "class TestF:\n    class TestInner:\n        def test_a(self):\n            assert f(3) == 9",
    "class TestF:\n    @classmethod\n    def setup_class(cls):\n        cls.x = 3\n"
    "    def setup_method(self, method):\n        self.y = 9\n"
    "    def test_a(this):\n        assert f(this.x) == this.y",
    "import unittest\nclass Mixin:\n    def test_a(self):\n        assert f(3) == 9\n"
    "class T(Mixin, unittest.TestCase):\n    pass",
    # a runner keeps failures to itself
    *(
        "import io, unittest\nfrom unittest import main\nclass TestF(unittest.TestCase):\n"
        f"    def test_a(self):\n        {found}\n{ran}"
        for found in (
            "self.assertEqual(f(3), 9)",
            "with self.subTest('three'):\n            assert f(3) == 9",
            "if f(3) != 9:\n            raise AssertionError",
        )
        for ran in (
            "unittest.TextTestRunner().run(unittest.TestLoader().loadTestsFromTestCase(TestF))",
            "def run():\n    suite = unittest.makeSuite(TestF)\n"
            "    return unittest.TextTestRunner(stream=io.StringIO()).run(suite)\nr = run()",
            "r = unittest.TestResult()\nTestF('test_a').run(r)\nassert r.testsRun == 1",
            "TestF('test_a')(unittest.TestResult())",
            "suite = unittest.TestSuite()\nsuite.addTest(TestF('test_a'))",
            "def run():\n    unittest.main(argv=[''], exit=False)\nrun()",
            "if True:\n    main()",
            "assert TestF\nr = unittest.main(argv=[''], exit=False)",
        )
    ),
]


@pytest.mark.parametrize(
    ("grading", "text"),
    [("split", text) for text in WAITING] + [("in_process", text) for text in WAITING[::4]],
)
def test_what_waits_to_be_called_is_called(
    grading: Literal["split", "in_process"], text: str, sandbox: Sandbox
) -> None:
    """Test functions and classes as pytest and unittest call them, and HumanEval's check."""
    right, wrong = "def f(x): return x * x", "def f(x): return x"
    passes = sandbox.run(checked_work(right, text, timeout_s=5.0, grading=grading))
    assert (passes.detail, passes.score) == ("", 1.0)
    result = sandbox.run(checked_work(wrong, text, timeout_s=5.0, grading=grading))
    assert (result.outcome, result.score) == ("assertion_fail", 0.0)


@pytest.mark.parametrize(
    ("texts", "outcomes"),
    [
        (["1 == 1"], ["error"]),
        (["x = f(1)"], ["error"]),
        (["def look():\n    assert f(3) == 9"], ["error"]),
        (["def test_a(tmp_path):\n    assert f(3) == 9"], ["error"]),
        (["import pytest\n@pytest.mark.skip\ndef test_a():\n    assert f(3) == 9"], ["error"]),
        (["assert ("], ["error"]),
        (["f.__globals__['os'] = 3\nassert os == 3"], ["pass"]),
        (["import sys\nsys.exit(0)\nassert f"], ["error"]),
        (["import pytest\nwith pytest.raises(ValueError):\n    f(3)"], ["assertion_fail"]),
        # a helper of one assertion in the next, and what gives nothing back
        (["def check(c):\n    assert c(3) == 9", "check(f)", "check(abs)"],
         ["pass", "pass", "assertion_fail"]),
        (["def look(c):\n    assert c(3) == 9", "look(f)", "x = 3\nlook(f)"],
         ["pass", "pass", "pass"]),
        (["print(f(3))"], ["assertion_fail"]),
    ],
)  # fmt: skip
def test_beside_the_program_an_assertion_judges_by_the_same_rules(
    texts: list[str], outcomes: list[str], sandbox: Sandbox
) -> None:
    work = checked_work("def f(x): return x * x", texts, timeout_s=5.0, grading="in_process")
    result = sandbox.run(work)
    assert [one.outcome for one in result.assertions] == outcomes, result.detail
    assert result.isolation.trust == ("in_process",)


def test_a_check_that_another_assertion_calls_only_waits_for_it(sandbox: Sandbox) -> None:
    """The definition comes first, its call second; both count, and the call decides."""
    code = "def f(x): return x * x\ndef g(x): return x"
    texts = ["def check(candidate):\n    assert candidate(3) == 9", "check(f)", "check(g)"]
    result = sandbox.run(checked_work(code, texts, timeout_s=3.0))
    assert [one.outcome for one in result.assertions] == ["pass", "pass", "assertion_fail"]


def test_check_is_called_with_the_entry_point_that_is_named(sandbox: Sandbox) -> None:
    code = "def helper(x): return x\ndef f(x): return x * x"
    text = "def check(candidate):\n    assert candidate(3) == 9"
    assert sandbox.run(checked_work(code, text, timeout_s=3.0, entry_point="f")).outcome == "pass"
    other = sandbox.run(checked_work(code, text, timeout_s=3.0, entry_point="helper"))
    assert other.outcome == "assertion_fail"


def test_what_pytest_calls_failed_is_a_failed_assertion(sandbox: Sandbox) -> None:
    """An exception that never came is the program's fault, and no error of the tests."""
    text = "import pytest\nwith pytest.raises(ValueError):\n    f(-1)"
    result = sandbox.run(checked_work("def f(x): return x", text, timeout_s=5.0))
    assert result.outcome == "assertion_fail"
    assert "DID NOT RAISE" in result.detail


_SOLUTION = """
from operator import add as sum
limit = 3
class Solution:
    def twice(self, x): return x * 2
class Sub(Solution): pass
def f(x): return x + 1
"""


@pytest.mark.parametrize(
    "text",
    [
        # LeetCode's way: one object for all tests
        "import unittest\nclass T(unittest.TestCase):\n    s = Solution()\n"
        "    def test_a(self):\n        self.assertEqual(self.s.twice(2), 4)",
        "class TestF:\n    cases = [(Solution, 1, 2), (Sub, 2, 4)]\n    def test_a(self):\n"
        "        for kind, x, y in self.cases:\n            assert kind().twice(x) == y",
        "class Outer:\n    class Inner:\n        got = f(1)\nassert Outer.Inner.got == 2",
        "def look():\n    class Own:\n        got = f(limit)\n"
        "    return Own.got\nassert look() == 4",
        "class Own:\n    got = sum(1, 2)\nassert Own.got == 3",  # the entry point
        "class Own:\n    got = max([1, 2])\n    f = staticmethod(f)\nassert Own.f(Own.got) == 3",
        "def look():\n    return eval('f(1)') + eval('limit', {**globals(), 'limit': 4})\n"
        "assert look() == 6",
        "def look():\n    exec('got = f(1)\\nassert got == 2')\nlook()",
    ],
)
def test_class_bodies_and_inner_texts_see_the_program(text: str, sandbox: Sandbox) -> None:
    """CPython reads a name there from the dictionary of globals, without asking what it lacks."""
    entry = "sum" if "sum" in text else None
    work = checked_work(_SOLUTION, text, timeout_s=5.0, entry_point=entry)
    assert sandbox.run(work).detail == ""


def test_a_name_that_nobody_has_is_missed_in_a_class_body_too(sandbox: Sandbox) -> None:
    text = "class T:\n    s = Solutoin()\nassert T.s"
    result = sandbox.run(checked_work(_SOLUTION, text, timeout_s=5.0))
    assert (result.outcome, result.score) == ("error", 0.0)
    assert "NameError: name 'Solutoin' is not defined" in result.detail


def test_a_test_that_has_run_is_not_called_again(sandbox: Sandbox) -> None:
    """However the block came to call it: tests of a program with a state hold only once."""
    code = "n = 0\ndef inc():\n    global n\n    n += 1\n    return n"
    texts = [
        "def test_a():\n    assert inc() == 1\nfor one in [test_a]:\n    one()",
        "class TestA:\n    def test_a(self):\n        assert inc() == 2\nTestA().test_a()",
        "def check(candidate):\n    assert candidate() == 3\n(lambda g: g(inc))(check)",
        "def test_b():\n    assert inc() == 4",
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        self.assertEqual(inc(), 5)\n"
        "load = unittest.defaultTestLoader.loadTestsFromTestCase\n"
        "unittest.TextTestRunner().run(load(T))",
    ]
    assert sandbox.run(checked_work(code, texts, timeout_s=5.0)).detail == ""


def test_a_test_that_another_assertion_only_mentions_is_called(sandbox: Sandbox) -> None:
    texts = ["def test_a():\n    assert f(3) == 9", "f(1) == 1 and callable(test_a)"]
    result = sandbox.run(checked_work("def f(x): return x", texts, timeout_s=3.0))
    assert [one.outcome for one in result.assertions] == ["assertion_fail", "pass"]


@pytest.mark.parametrize(
    ("helper", "call", "outcome"),
    [
        # it can fail, and gives nothing back
        ("def ok(a, b):\n    assert a == b", "ok(f(1), 2)", "pass"),
        (
            "def ok(a, b):\n    if a != b:\n        raise ValueError\n    return",
            "ok(f(1), 2)",
            "pass",
        ),
        ("def same(a, b):\n    assert a == b\ndef ok(a, b): same(a, b)", "ok(f(1), 2)", "pass"),
        (
            "def same(a, b):\n    assert a == b\ndef ok(a, b): return same(a, b)",
            "ok(f(1), 2)",
            "pass",
        ),
        ("def same(a, b):\n    assert a == b\nok = lambda a: same(a, 2)", "ok(f(1))", "pass"),
        ("class T:\n    def ok(self, a):\n        assert a == 2", "T().ok(f(1))", "pass"),
        (
            "import unittest\nt = unittest.TestCase()\ndef ok(a): t.assertEqual(a, 2)",
            "ok(f(1))",
            "pass",
        ),
        (
            "def make(b):\n    def one(a):\n        assert a == b\n    return one\nok = make(2)",
            "ok(f(1))",
            "pass",
        ),
        ("def ok(a, b):\n    assert a == b", "r = ok(f(1), 2)", "pass"),
        # nothing is what it gives back when the program is wrong
        ("def ok(a, b):\n    if a == b: return True", "ok(f(1), 3)", "assertion_fail"),
        (
            "def ok(a, b):\n    assert b\n    if a == b: return True",
            "ok(f(1), 3)",
            "assertion_fail",
        ),
        ("def ok(a, b): return a == b or None", "ok(f(1), 3)", "assertion_fail"),
        ("def ok(a, b):\n    print(a == b)", "ok(f(1), 3)", "assertion_fail"),
        ("ok = lambda a, b: True if a == b else None", "ok(f(1), 3)", "assertion_fail"),
        (
            "def look(a):\n    assert a\ndef ok(a, b):\n    look(a)\n    if a == b: return 1",
            "ok(f(1), 3)",
            "assertion_fail",
        ),
        ("def look(a):\n    assert a\n    return a", "{}.get(look(f(1)))", "assertion_fail"),
        ("def ok(a, b): return a == b", "r = ok(f(1), 3)", "error"),
        ("def ok(a, b): return a == b", "def g(): return ok(f(1), 3)\nr = g()", "error"),
    ],
)
def test_nothing_given_back_is_a_yes_only_of_what_fails_otherwise(
    helper: str, call: str, outcome: str, sandbox: Sandbox
) -> None:
    """`check(f)` judges by raising; a function that falls off its end may just have said no."""
    texts = [f"{helper}\nassert callable(f)", call]
    result = sandbox.run(checked_work("def f(x): return x + 1", texts, timeout_s=3.0))
    assert [one.outcome for one in result.assertions] == ["pass", outcome], result.detail


_PLAIN = "\ndef test_plain():\n    assert callable(f)\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "@pytest.mark.parametrize('x,y', [(3, 9)])\ndef test_a(x, y):\n    assert f(x) == y",
            "test_a",
        ),
        (
            "@pytest.mark.parametrize('x', [3])\ndef test_a(x=0):\n    assert f(x) == x * x",
            "test_a",
        ),
        ("@pytest.fixture\ndef x(): return 3\ndef test_a(x):\n    assert f(x) == 9", "test_a"),
        ("def test_a(tmp_path):\n    assert f(3) == 9", "test_a"),
        ("ALL = []\n@pytest.fixture(autouse=True)\ndef fill(): ALL.append(3)", "fill"),
        (
            "class TestF:\n    @pytest.mark.parametrize('x', [3])\n    def test_a(self, x=0):\n"
            "        assert f(x) == x * x",
            "TestF",
        ),
        ("class TestF:\n    def test_a(self, x):\n        assert f(x) == x * x", "TestF"),
    ],
)
def test_what_only_pytest_can_call_is_an_error_and_not_left_out(
    text: str, name: str, sandbox: Sandbox
) -> None:
    """Beside a test that passes it would have judged nothing, and nobody would have known."""
    block = f"import pytest\n{text}{_PLAIN}"
    result = sandbox.run(checked_work("def f(x): return x", block, timeout_s=5.0))
    assert (result.outcome, result.score) == ("error", 0.0)
    assert result.detail.startswith(f"assertion 1: {name} needs pytest itself")


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(x, y):\n    assert f(x) == y\ntest_a(3, 9)",
        "def test_a(x, y):\n    assert f(x) == y\nfor one in [test_a]:\n    one(3, 9)",
        "def test_a(x, y):\n    assert f(x) == y\ndef test_b():\n    test_a(3, 9)",
        "from unittest import mock\n@mock.patch('time.time')\ndef test_a(time):\n"
        "    assert f(3) == 9 and not time.called",
        "def test_data(n): return [n]",  # judges nothing, and is nobody's test
        "import pytest\n@pytest.fixture\ndef test_data(): return [3]",
    ],
)
def test_a_test_that_is_given_its_arguments_is_called_with_them(
    text: str, sandbox: Sandbox
) -> None:
    right, wrong = "def f(x): return x * x", "def f(x): return x"
    assert sandbox.run(checked_work(right, text + _PLAIN, timeout_s=5.0)).detail == ""
    result = sandbox.run(checked_work(wrong, text + _PLAIN, timeout_s=5.0))
    assert (result.outcome == "assertion_fail") is ("assert" in text)


_CASES = "import unittest, pytest\nclass T(unittest.TestCase):\n"
_SKIPPED = {
    "unittest's": _CASES
    + "    @unittest.skip('not here')\n    def test_a(self):\n        assert 0",
    "a class": "import unittest\n@unittest.skip('no')\nclass T(unittest.TestCase):\n"
    "    def test_a(self):\n        assert 0",
    "from inside": _CASES
    + "    def test_a(self):\n        self.skipTest('not here')\n        assert 0",
    "at set up": _CASES + "    def setUp(self):\n        raise unittest.SkipTest('not here')\n"
    "    def test_a(self):\n        assert 0",
    "all at once": _CASES + "    @classmethod\n    def setUpClass(cls):\n"
    "        raise unittest.SkipTest('not here')\n    def test_a(self):\n        assert 0",
    "a function": "import unittest\n@unittest.skipIf(True, 'no')\ndef test_a():\n    assert 0",
    "pytest's": "import pytest\n@pytest.mark.skip\ndef test_a():\n    assert 0",
    "pytest's, asked": "import pytest\n@pytest.mark.skipif(1 < 2, reason='no')\ndef test_a():\n"
    "    assert 0",
    "pytest's, from inside": "import pytest\ndef test_a():\n    pytest.skip('no')\n    assert 0",
    "pytest's, a method": "import pytest\nclass TestF:\n    @pytest.mark.skip\n"
    "    def test_a(self):\n        assert 0",
    "pytest's, a class": "import pytest\n@pytest.mark.skip\nclass TestF:\n"
    "    def test_a(self):\n        assert 0",
    "as it likes": "import pytest\n@pytest.mark.xfail\ndef test_a():\n    assert f(3) == 9",
}


@pytest.mark.parametrize("text", _SKIPPED.values(), ids=_SKIPPED.keys())
def test_a_skipped_test_judges_nothing(text: str, sandbox: Sandbox) -> None:
    """Alone it is an error, as all that judges nothing; beside another, that one decides."""
    right, wrong = "def f(x): return x * x", "def f(x): return x"
    alone = sandbox.run(checked_work(right, text, timeout_s=5.0))
    assert (alone.outcome, alone.score) == ("error", 0.0)
    assert "judges nothing" in alone.detail
    beside = text + "\ndef test_b():\n    assert f(3) == 9\n"
    assert sandbox.run(checked_work(right, beside, timeout_s=5.0)).detail == ""
    assert sandbox.run(checked_work(wrong, beside, timeout_s=5.0)).outcome == "assertion_fail"


@pytest.mark.parametrize("runner", ["", "\nunittest.TextTestRunner().run(T('test_a'))"])
def test_a_failure_that_is_expected_is_none(runner: str, sandbox: Sandbox) -> None:
    """And one that does not come, is: unittest's word, whoever runs the tests."""
    text = _CASES + "    @unittest.expectedFailure\n    def test_a(self):\n        assert f(3) == 9"
    meets = sandbox.run(checked_work("def f(x): return x", text + runner, timeout_s=5.0))
    assert meets.detail == ""
    fails = sandbox.run(checked_work("def f(x): return x * x", text + runner, timeout_s=5.0))
    assert (fails.outcome, "was expected to fail" in fails.detail) == ("assertion_fail", True)


@pytest.mark.parametrize("kind", ["unittest.SkipTest", "pytest.skip.Exception"])
@pytest.mark.parametrize(
    "text",
    [
        "import unittest, pytest\ndef test_a():\n    assert f(3) == 9",
        _CASES + "    def test_a(self):\n        self.assertEqual(f(3), 9)",
        "import unittest, pytest\nclass TestF:\n    def test_a(self):\n        assert f(3) == 9",
    ],
)
def test_a_program_cannot_have_a_test_skipped(kind: str, text: str, sandbox: Sandbox) -> None:
    """The exception that says so counts from the tests alone."""
    code = f"import unittest, pytest\ndef f(x):\n    raise {kind}('no')"
    block = text + "\ndef test_b():\n    assert callable(f)"
    result = sandbox.run(checked_work(code, block, timeout_s=5.0))
    assert (result.outcome, result.score) == ("error", 0.0)
    assert "judges nothing" not in result.detail
