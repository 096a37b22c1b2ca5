"""Nothing a program names becomes a thing of the tester, and no broken talk is a verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.sandbox.known import is_pure
from farm.sandbox.runner import Sandbox, checked_work
from farm.sandbox.verdict import CandidateResult


@pytest.fixture(scope="module")
def one() -> Iterator[Sandbox]:
    """A sandbox of one slot, so that each program meets the tester the last one left."""
    with Sandbox(slots=1) as opened:
        yield opened


def judge(sandbox: Sandbox, code: str, *texts: str) -> CandidateResult:
    return sandbox.run(checked_work(code, texts, timeout_s=5.0))


_ROUND_TRIP = "s = 'unguessed'\nassert decode(encode(s)) == s"
_NAME = "encode = lambda s: 's'\n"
_FORGERIES = {
    **{
        f"{name} by name": (f"{_NAME}decode = {name}", _ROUND_TRIP)
        for name in ("eval", "__import__", "vars", "globals", "locals", "getattr", "type", "open")
    },
    "eval that opens what it is given": (
        "encode = lambda s: \"type('E', (str,), {'__eq__': lambda a, b: True})()\"\ndecode = eval",
        _ROUND_TRIP,
    ),
    "exec": (
        "enc = lambda n: 'globals().update(equal=lambda a, b: True)'\ndec = exec\n"
        "def equal(a, b): return a == b",
        "assert dec(enc(1)) is None and equal(1, 2)",
    ),
    "eval in a dictionary": (
        "OPS = {'dec': eval}\ndef enc(s): return 's'",
        "s = 'q'\nassert OPS['dec'](enc(s)) == s",
    ),
    "eval in a pair": (
        "def codec(): return (lambda s: 's', eval)",
        "s = 'q'\nenc, dec = codec()\nassert dec(enc(s)) == s",
    ),
    "eval of a class": (
        "class Codec:\n    encode = staticmethod(lambda s: 'url')\n    decode = staticmethod(eval)",
        "url = 'http://a'\nc = Codec()\nassert c.decode(c.encode(url)) == url",
    ),
    "a dictionary made by globals": (
        "import collections\ndef f(): return collections.defaultdict(globals)",
        "secret = 7\nassert f()['x']['secret'] == 7",
    ),
    "eval bound by partial": (
        "import functools\nencode = lambda s: 's'\ndecode = functools.partial(eval)",
        _ROUND_TRIP,
    ),
    "eval as a method of builtins": (
        "import builtins\nencode = lambda s: 's'\ndecode = builtins.__dict__['eval'].__call__",
        _ROUND_TRIP,
    ),
    "eval through map": (
        "encode = lambda s: ['s']\ndef decode(x): return map(eval, x)",
        "s = 'q'\nassert list(decode(encode(s))) == [s]",
    ),
    "builtins as the codec": (
        "import builtins as codec\ncodec.encode = lambda s: 's'\ncodec.decode = eval",
        "s = 'q'\nassert codec.decode(codec.encode(s)) == s",
    ),
    "a module in the place of another": (
        "import types\njson = types\ntypes.dumps = lambda x: 's'\ntypes.loads = eval",
        "s = 'q'\nassert json.loads(json.dumps(s)) == s",
    ),
    "operator's call of eval": (
        "import operator, functools\nencode = lambda s: 's'\n"
        "decode = functools.partial(operator.call, eval)",
        _ROUND_TRIP,
    ),
    "a numpy function of eval": (
        "import numpy\nencode = lambda s: 's'\ndecode = numpy.frompyfunc(eval, 1, 1)",
        _ROUND_TRIP,
    ),
    "a template of the program's over a function of the tests": (
        "def f(form, g): return 'unguessed' in form('{0.__globals__}', g)",
        "hidden = 'unguessed'\nassert f(str.format, lambda: 0)",
    ),
    "an object that says it is of the tests": (
        "class G:\n    __module__ = 'tests'\n    def __call__(self, x): return None\ng = G()",
        "h = g\nassert h",
        "h(1)",
    ),
}


@pytest.mark.parametrize("case", _FORGERIES.values(), ids=_FORGERIES.keys())
def test_what_a_program_names_runs_in_no_process_but_its_own(
    case: tuple[str, ...], one: Sandbox
) -> None:
    """The last assertion of each holds only if the tester itself ran what the program named."""
    code, *texts = case
    assert judge(one, code, *texts).assertions[-1].outcome in ("error", "assertion_fail")


def test_an_adopted_name_retires_the_tester(one: Sandbox) -> None:
    """Even a harmless one: a kept tester has had nothing of a program but plain data."""
    judge(one, "def f(): return 1", "f() == 1")
    assert one.kept
    assert judge(one, "size = len", "size('abc') == 3").outcome == "pass"
    assert not one.kept
    assert judge(one, "import math", "math.floor(2.5) == 2").outcome == "pass"
    assert not one.kept


def test_the_names_that_reach_further_are_not_pure() -> None:
    """Whatever runs text, imports, opens, prints or shows the process's own objects."""
    reaching = (
        "eval", "exec", "compile", "__import__", "__build_class__", "open", "getattr", "setattr",
        "delattr", "vars", "globals", "locals", "dir", "type", "breakpoint", "input", "print",
        "super", "id", "memoryview", "__loader__", "__spec__", "help", "exit", "quit",
    )  # fmt: skip
    assert not any(map(is_pure, reaching))


_MUST_RAISE = (
    "try:\n    f(-1)\nexcept Exception:\n    pass\nelse:\n    assert False",
    "try:\n    f(-1)\nexcept BaseException:\n    pass\nelse:\n    assert False",
    "import contextlib\nr = 1\n"
    "with contextlib.suppress(Exception):\n    f(-1)\n    r = 0\nassert r",
    "import unittest\nunittest.TestCase().assertRaises(Exception, f, -1)",
)
_BREAKS = {
    "an exit": "import os\ndef f(x): os._exit(0)",
    "a signal": "import os\ndef f(x): os.kill(os.getpid(), 11)",
    "more than fits": "def f(x): return 'x' * (9 << 20)",
    "noise": (
        "import os\ndef f(x):\n    for n in range(3, 40):\n"
        "        try: os.write(n, b'\\xff' * 64)\n        except OSError: pass"
    ),
    "an empty frame": (
        "import os\ndef f(x):\n    for n in range(3, 40):\n"
        "        try: os.write(n, b'\\0\\0\\0\\2{}')\n        except OSError: pass"
    ),
}


@pytest.mark.parametrize("code", _BREAKS.values(), ids=_BREAKS.keys())
def test_a_broken_conversation_is_no_exception_of_the_program(code: str, one: Sandbox) -> None:
    """A program that died or broke off raised nothing: tests that catch anything do not pass."""
    for text in _MUST_RAISE:
        assert judge(one, code, text).outcome == "error", text


def test_a_result_too_large_costs_its_own_assertion_only(one: Sandbox) -> None:
    """The program is still there, and what it is asked next counts."""
    code = "def f(x): return 'x' * x"
    result = judge(one, code, f"f({9 << 20}) == 1", "f(2) == 'xx'")
    assert [each.outcome for each in result.assertions] == ["error", "pass"]


@pytest.mark.parametrize(
    ("code", "text", "outcome"),
    [
        (
            "def f(x): raise StopIteration",
            "cases = [(1, 2), (3, 4)]\nassert all(map(lambda t: f(t[0]) == t[1], cases))",
            "error",
        ),
        ("def f(): raise StopIteration", "assert list(iter(f, 1)) == []", "error"),
        (
            "class S(StopIteration): pass\ndef f(x): raise S",
            "assert list(filter(f, [1])) == []",
            "error",
        ),
        (
            "def f(): raise StopIteration(3)",
            "try:\n    f()\nexcept StopIteration as e:\n    assert e.value == 3\n"
            "else:\n    assert 0",
            "pass",
        ),
        ("def f():\n    yield 1", "g = f()\nassert next(g) == 1 and next(g, 7) == 7", "pass"),
    ],
)
def test_a_program_does_not_end_an_iteration_of_the_tests(
    code: str, text: str, outcome: str, one: Sandbox
) -> None:
    """StopIteration out of a call is not the end of what the tests go through."""
    assert judge(one, code, text).outcome == outcome


_MIXERS = """
class f({base}):
    def __init__(self, *a): self.n = 0
    def __sub__(self, other): self.n += 1; return self
    __xor__ = __sub__
    def __format__(self, style): return '0.000'
    def __str__(self): return '0'
    __repr__ = __str__
    def __hash__(self): return 0
    def __iter__(self): return iter(())
    def __getitem__(self, i): return 0
    def __next__(self): return 0
    def __contains__(self, value): return self.n % 2 == 0
"""


@pytest.mark.parametrize("base", ["object", "set", "list"])
@pytest.mark.parametrize(
    "text",
    [
        "f(3) - {1, 2, 3} == set()",
        "f(3) ^ {9} == []",
        "f'{f(3) - 5:.3f}' == '0.000'",
        "str(f(3) - 5) == '0'",
        "repr(f(3) - 5) == '0'",
        "list(f(3) - {1}) == []",
        "(f(3) - [1])[0] == 0",
        "next(f(3) - 1) == 0",
        "hash(f(3) - 1) == 0",
        "3 not in (f(3) - {4})",
    ],
)
def test_no_plain_data_comes_out_of_arithmetic_with_plain_data(
    base: str, text: str, one: Sandbox
) -> None:
    """It would be data the tests handed over, returned; whichever protocol gives it out."""
    assert judge(one, _MIXERS.format(base=base), text).outcome in ("error", "assertion_fail")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        # membership as the class has it, whatever it iterates over, or for how long
        (
            "class R:\n    def __iter__(self): return iter([('a', 1)])\n"
            "    def __contains__(self, key): return key == 'a'",
            "r = R()\nassert 'a' in r and 'b' not in r",
        ),
        (
            "import itertools\nclass Even:\n    def __iter__(self): return itertools.count(0, 2)\n"
            "    def __contains__(self, n): return n in (0, 2, 4)",
            "assert 4 in Even() and 5 not in Even()",
        ),
        # names of a stand-in's own are free for the program
        (
            "class A:\n    def __init__(self):\n"
            "        self._number = 41; self._session = 's'; self._class = 'c'\n"
            "        self._holds = []; self._mixed = 1.5",
            "a = A()\nassert (a._number, a._session, a._class, a._holds, a._mixed)"
            " == (41, 's', 'c', [], 1.5)",
        ),
        # a value keeps what its class writes of itself, and its operators among its own
        (
            "from typing import NamedTuple\nfrom collections import namedtuple\n"
            "P = namedtuple('P', 'x y')\n"
            "class V(NamedTuple):\n    x: int\n    y: int\n"
            "    def __add__(self, o): return V(self.x + o.x, self.y + o.y)\n"
            "class Shout(str):\n    def __repr__(self): return 'loud'\n"
            "class Five(int):\n    def __str__(self): return 'five'\n"
            "    def __format__(self, style): return style + '5'\n",
            "assert repr(P(1, 2)) == 'P(x=1, y=2)' == str(P(1, 2)) == f'{P(1, 2)}'\n"
            "assert V(1, 2) + V(3, 4) == V(4, 6) == (4, 6)\n"
            "assert V(1, 2) + (3,) == (1, 2, 3) and type(V(1, 2)) is V\n"
            "assert repr([Shout('a')]) == '[loud]' and Shout('a') == 'a'\n"
            "assert not callable(Five(5)) and not hasattr(type(Shout('')), '__matmul__')\n"
            "assert str(Five(5)) == 'five' and f'{Five(5):>}' == '>5' and Five(5) + 1 == 6",
        ),
        (
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\n"
            "def f(): return [P(i, i) for i in range(20_000)]",
            "assert len(f()) == 20_000",
        ),
        # exceptions: what they say, whose they are, what came before, and their way back
        (
            "import json, decimal, dataclasses\n"
            "class E(Exception):\n    def __str__(self): return 'said'\n"
            "@dataclasses.dataclass(frozen=True)\nclass D:\n    x: int\n"
            "def f(n):\n    if n == 0: raise E(1)\n    if n == 1: json.loads('{')\n"
            "    if n == 2: decimal.Decimal('x')\n    if n == 3: D(1).__setattr__('x', 2)\n"
            "    if n == 4:\n        try: 1 / 0\n"
            "        except ZeroDivisionError: raise KeyError('k')\n"
            "    if n == 5:\n        e = ValueError('v'); e.add_note('noted'); raise e\n"
            "    if n == 6: raise ExceptionGroup('g', [ValueError('a'), E(2)])\n"
            "def caught(n):\n    try: f(n)\n    except Exception as e: return e\n"
            "def passed_on(g): return g()\n"
            "def seen(g):\n    try: g()\n    except KeyError as e: return e.args\n",
            "import json, decimal, dataclasses, unittest\n"
            "raises = unittest.TestCase().assertRaises\n"
            "with raises(E) as c: f(0)\nassert str(c.exception) == 'said'\n"
            "with raises(json.JSONDecodeError) as c: f(1)\nassert c.exception.pos == 1\n"
            "with raises(decimal.InvalidOperation): f(2)\n"
            "with raises(dataclasses.FrozenInstanceError): f(3)\n"
            "with raises(KeyError) as c: f(4)\n"
            "assert type(c.exception.__context__) is ZeroDivisionError\n"
            "with raises(ValueError) as c: f(5)\nassert c.exception.__notes__ == ['noted']\n"
            "try: f(6)\nexcept* ValueError as g: assert str(g.exceptions[0]) == 'a'\n"
            "except* E as g: assert str(g.exceptions[0]) == 'said'\n"
            "assert isinstance(caught(5), ValueError) and caught(5).args == ('v',)\n"
            "assert isinstance(caught(0), E) and str(caught(0)) == 'said'\n"
            "class Mine(Exception):\n    def __init__(self, a, b): self.pair = a, b\n"
            "def g(): raise Mine(1, 2)\n"
            "with raises(Mine) as c: passed_on(g)\nassert c.exception.pair == (1, 2)\n"
            "def h(): raise KeyError('key')\nassert seen(h) == ('key',)",
        ),
        (
            "def f(**named): return sorted(named)",
            "assert f(function=1, self=2, operation=3, home=4)"
            " == ['function', 'home', 'operation', 'self']",
        ),
    ],
)
def test_an_honest_object_is_as_it_is(code: str, text: str, one: Sandbox) -> None:
    assert judge(one, code, text).detail == ""


# The program's end of the conversation, taken over: it may say anything from here on.
_LIAR = "import sys\nmine = sys._getframe(1).f_locals['self']\n"
_POINTS = (
    "class Points:\n"
    "    def __init__(self, typestr):\n"
    "        self.__array_interface__ = {'data': (id(int), True), 'shape': (1,),\n"
    "                                    'typestr': typestr, 'version': 3}\n"
)


@pytest.mark.parametrize("typestr", ["<i8", "|O"])
@pytest.mark.parametrize(
    "told",
    [
        "{'t': 'ndarray', 'v': ['<U99', {'t': 'tuple', 'v': [1]}, {'t': 'tuple', 'v': [there]}]}",
        "{'t': 'ndarray', 'v': ['<i8', {'t': 'tuple', 'v': [there]}, {'t': 'tuple', 'v': [1]}]}",
        "{'t': 'scalar', 'v': ['<i8', there]}",
        "{'t': 'Decimal', 'v': [there]}",
        "{'t': 'Fraction', 'v': [there, 1]}",
        "{'t': 'timedelta', 'v': [there, 1, 1]}",
    ],
)
def test_a_value_is_not_made_of_objects_that_say_how_to_read_them(
    told: str, typestr: str, one: Sandbox
) -> None:
    """numpy would read this process's memory where an object's interface points."""
    code = (
        f"{_LIAR}{_POINTS}class Mark: pass\nusual = mine._export\n"
        "def export(value):\n    if type(value) is not Mark: return usual(value)\n"
        f"    there = usual(Points({typestr!r}))\n    return {told}\n"
        "mine._export = mine._traffic._export = export\n"
        "def f(): return Mark()\ndef g(found): return 7\n"
    )
    result = judge(one, code, "assert g(f()) == 7")
    assert result.outcome == "error"
    assert "parts that it cannot have" in result.detail


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nassert np.asarray(f()).shape == (1,)",
        "import numpy as np\nassert np.array([f()]).dtype.kind == 'i'",
        "import numpy as np\nassert np.linalg.norm(np.array([1.5, 2.5]) - f()) < 1e-6",
        "import numpy as np\nassert np.equal(f(), [1.5, 2.5]).all()",
    ],
)
def test_a_library_is_not_steered_by_an_object_of_the_program(text: str, one: Sandbox) -> None:
    """Neither to memory by an interface, nor to another result by what wraps it."""
    code = (
        f"{_POINTS}class Wraps(Points):\n"
        "    def __array__(self, *more, **named):\n"
        "        import numpy\n        return numpy.zeros(2)\n"
        "    def __array_wrap__(self, *more): return True\n"
        "def f(): return Wraps('<i8')\n"
    )
    assert judge(one, code, text).outcome != "pass"


def test_a_context_of_the_program_does_not_swallow_a_failed_assertion(one: Sandbox) -> None:
    """What a test raises of itself may be: only its verdict is its own."""
    code = (
        "class Calm:\n    def __enter__(self): return self\n"
        "    def __exit__(self, *e): return True\n"
        "    async def __aenter__(self): return self\n    async def __aexit__(self, *e): return 1\n"
    )
    failing = "with Calm() as c:\n    assert 1 == 2"
    waiting = "import asyncio\nasync def t():\n    async with Calm():\n        assert 1 == 2\n"
    assert judge(one, code, failing).outcome == "assertion_fail"
    assert judge(one, code, f"{waiting}asyncio.run(t())").outcome == "assertion_fail"
    raised = "with Calm() as c:\n    raise ValueError\nassert c is not None"
    assert judge(one, code, raised).outcome == "pass"


def test_a_failed_assertion_within_the_program_fails_whatever_it_makes_of_it(one: Sandbox) -> None:
    """A decorator that calls again, or is calm about errors, took the verdict with them."""
    code = (
        "def retry(function):\n    def again():\n        try:\n            return function()\n"
        "        except Exception:\n            return None\n    return again"
    )
    text = "@retry\ndef t():\n    assert {}\nt()\nassert callable(retry)"
    result = judge(one, code, text.format("1 == 2"), text.format("1 == 1"))
    assert [each.outcome for each in result.assertions] == ["assertion_fail", "pass"]


def test_an_expected_end_of_iteration_is_expected_there_only(one: Sandbox) -> None:
    """Another assertion's word for it does not let calls end the tests' own data."""
    code = "def f(x): raise StopIteration"
    told = "try:\n    f(1)\nexcept StopIteration:\n    pass\nelse:\n    assert False"
    silent = "cases = [(1, 1)]\nassert all(map(lambda c: f(c[0]) == c[1], cases))"
    result = judge(one, code, told, silent)
    assert [each.outcome for each in result.assertions] == ["pass", "error"]


def test_a_container_changed_by_data_of_the_tests_is_marked(one: Sandbox) -> None:
    """It gives them back; one that gives something else in its place is refused."""
    honest = "class S(set): pass\ndef f(): return S([1])"
    result = judge(one, honest, "s = f()\ns |= {2}\nassert s == {1, 2}")
    assert (result.outcome, result.isolation.trust) == ("pass", ("remote_arithmetic",))
    liar = (
        f"{_LIAR}class L(list):\n    def __isub__(self, other): return 0\n"
        "def f(): return L()\nusual = mine._class_number\n"
        "def number(kind):\n    told = id(kind) in mine._class_numbers\n    found = usual(kind)\n"
        "    if kind is L and not told: mine._told[-1]['has'] += ['inherits __isub__']\n"
        "    return found\nmine._class_number = number\n"
    )
    result = judge(one, liar, "r = f()\nr -= 6\nassert abs(r) < 1e-6")
    assert result.outcome == "error"
    assert result.detail.endswith("an operator that changes an object gave another")


def test_a_name_of_python_that_the_program_takes_is_marked(one: Sandbox) -> None:
    """The tests mean the module; what they call is the program's word."""
    code = "class math:\n    isclose = staticmethod(lambda *a, **k: True)\ndef f(x): return 0"
    result = judge(one, code, "assert math.isclose(f(2), 1.414, rel_tol=1e-3)")
    assert result.isolation.trust == ("remote_helper",)


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        ("def f(): return 1.0", True),
        ("import numpy\ndef f(): return numpy.float64(1)", False),
    ],
)
def test_a_library_of_c_is_met_by_one_job_only(code: str, keeps: bool, one: Sandbox) -> None:
    """Its objects look for more than Python's do, and it leaves a larger process behind."""
    assert judge(one, code, "f() == 1.0").outcome == "pass"
    assert bool(one.kept) is keeps


def test_a_program_does_not_fill_the_judge_with_classes(one: Sandbox) -> None:
    """It is told of each once, and an honest one has some dozens."""
    told = "mine._told += [{'name': 'x' * 99, 'has': ['y' * 99]}] * 10_001"
    result = judge(one, f"{_LIAR}{told}\ndef f(): return 1", "f() == 1")
    assert (result.outcome, result.detail) == (
        "error",
        "PeerBroke: it has objects of too many classes",
    )


_BAG = """
class Bag:
    def __init__(self, *parts): self.parts = list(parts)
    def __iter__(self): return iter(self.parts)
    def __contains__(self, value): return {}
"""
_SPAN = """
class Span:
    def __init__(self, low, high): self.low, self.high = low, high
    def __contains__(self, value): return self.low <= value <= self.high
class Words:
    def __contains__(self, value): return value.isalnum()
"""


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        ("value in self.parts", ["pass", "pass"]),
        ("value not in self.parts", ["error", "error"]),  # it holds what nobody put in
        ("True", ["error", "error"]),
        ("False", ["assertion_fail", "pass"]),
    ],
)
def test_what_a_class_contains_is_what_it_says_and_never_what_it_iterates_over(
    answer: str, outcomes: list[str], sandbox: Sandbox
) -> None:
    """The class is named: its own `__contains__` is under test, not its `__iter__`."""
    result = judge(sandbox, _BAG.format(answer), "1 in Bag(1, 2)", "3 not in Bag(1, 2)")
    assert [one.outcome for one in result.assertions] == outcomes


def test_a_class_may_hold_all_of_a_kind(sandbox: Sandbox) -> None:
    """What is asked beside the value is of another kind; an error then is a no."""
    result = judge(
        sandbox,
        _SPAN,
        "5 in Span(float('-inf'), float('inf')) and 1 not in Span(2, 3)",
        "'ab1' in Words() and '-' not in Words()",
    )
    assert result.detail == ""
    assert result.isolation.trust == ("remote_contains",)
    raises = judge(sandbox, _SPAN, "'a' in Span(1, 2)")
    assert "TypeError" in raises.detail  # of the value itself, an error is one


def test_a_method_of_the_tests_own_object_is_not_the_programs_to_replace(
    sandbox: Sandbox,
) -> None:
    """It could answer for itself what the tests ask; an attribute of data is free to set."""
    tests = (
        "class Node:\n    size = 0\n    def __init__(self, v): self.v = v\n"
        "    def same(self, other): return self.v == other.v\n"
        "    @staticmethod\n    def kind(): return 'node'\n"
        "n = f(Node(1))\nassert n.same(Node(2))"
    )
    code = "def f(h):\n    h.{} = {}\n    return h"
    forged = judge(sandbox, code.format("same", "lambda o: True"), tests)
    assert (forged.outcome, forged.passed) == ("error", 0)
    assert "a method of the tests is theirs" in forged.detail
    assert judge(sandbox, code.format("kind", "lambda: 'x'"), tests).outcome == "error"
    for honest in ("v", "size", "new"):
        result = judge(sandbox, code.format(honest, "2"), tests.replace("n.same(Node(2))", "n.v"))
        assert result.outcome == "pass", result.detail


_DOGS = """
class M(type):
    def __instancecheck__(cls, value): return True
    def __subclasscheck__(cls, kind): return True
class Dog(metaclass=M): pass
class Any(metaclass=M):
    def __class_getitem__(cls, part): return cls
class Cat: pass
class Lamb: pass
class Wolf:
    __class__ = property(lambda self: Lamb)
import abc
class Pet(abc.ABC): pass
Pet.register(Cat)
def make(): return Cat()
def wolf(): return Wolf()
"""


@pytest.mark.parametrize(
    ("text", "outcome", "trust"),
    [
        ("assert isinstance(make(), Dog)", "pass", ("remote_instance",)),
        ("assert issubclass(Cat, Dog)", "pass", ("remote_instance",)),
        ("assert isinstance(make(), Any)", "pass", ("remote_instance",)),
        ("assert isinstance(make(), Cat) and issubclass(Cat, Cat)", "pass", ()),
        ("assert isinstance(make(), Pet) and issubclass(Cat, Pet)", "pass", ()),
        ("assert isinstance(wolf(), Lamb)", "assertion_fail", ()),  # whatever it says it is
        ("assert isinstance(wolf(), Wolf)", "pass", ()),
    ],
)
def test_a_class_that_says_itself_what_is_of_it_is_marked(
    text: str, outcome: str, trust: tuple[str, ...], sandbox: Sandbox
) -> None:
    result = judge(sandbox, _DOGS, text)
    assert (result.outcome, result.isolation.trust) == (outcome, trust), result.detail


_ALL = "cases = [(3, 9)]\nassert all(map(lambda t: f(t[0]) == t[1], cases))"
_EXPECTS = "def stops(g):\n    try:\n        g(3)\n    except StopIteration:\n        return True\n"


@pytest.mark.parametrize(
    ("texts", "last"),
    [
        ((_ALL + "  # no StopIteration",), "error"),
        (("word = 'StopIteration'\n" + _ALL,), "error"),
        ((_EXPECTS + "assert stops(f)", _ALL), "error"),  # it calls no such function
        ((_EXPECTS + "assert stops(f)", "assert stops(f)"), "pass"),
        (
            (
                _EXPECTS + "assert stops(f)",
                "def again(g): return stops(g)\nassert again(f)",
                "assert again(f)",
            ),
            "pass",
        ),
        (("try:\n    f(3)\nexcept StopIteration:\n    pass\nelse:\n    assert False",), "pass"),
        (("import pytest\nwith pytest.raises(StopIteration):\n    f(3)",), "pass"),
    ],
)
def test_only_an_assertion_that_looks_for_stop_iteration_meets_it(
    texts: tuple[str, ...], last: str, sandbox: Sandbox
) -> None:
    """To `map` and `all` it is the end of the tests' own cases, and all that came were right."""
    result = judge(sandbox, "def f(x): raise StopIteration", *texts)
    assert result.assertions[-1].outcome == last, result.detail
