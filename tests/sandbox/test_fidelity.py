"""Honest programs behave across the boundary as they would in one process with their tests."""

from __future__ import annotations

import pytest

from farm.sandbox.runner import Sandbox, checked_work

# name: (program, assertions, what the verdict may say it took on trust)
_VECTOR = """
class Vec:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, o): return Vec(self.x + o.x, self.y + o.y)
    def __mul__(self, k): return Vec(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __eq__(self, o): return isinstance(o, Vec) and (self.x, self.y) == (o.x, o.y)
    def __repr__(self): return f"Vec({self.x}, {self.y})"
    def __len__(self): return 2
    def __iter__(self): return iter((self.x, self.y))
"""
_ERRORS = """
class MyError(ValueError):
    def __init__(self, code): super().__init__(f"code {code}"); self.code = code
class Sub(MyError): pass
def f(x):
    if x < 0: raise Sub(7)
    if x == 0: raise ZeroDivisionError("nope")
    if x == 1: raise SystemExit(3)
    if x == 2: return {}["k"]
    return x
"""
_ITERATION = """
def g(n):
    for i in range(n): yield i
def evens():
    i = 0
    while True:
        yield i
        i += 2
class Count:
    def __init__(self): self.i = 0
    def __iter__(self): return self
    def __next__(self):
        self.i += 1
        if self.i > 3: raise StopIteration
        return self.i
"""
_LINKED = """
def total(n):
    t = 0
    while n: t += n.val; n = n.next
    return t
def reverse(n):
    p = None
    while n: n.next, p, n = p, n, n.next
    return p
def make(cls):
    x = cls(9); x.next = cls(10)
    return x
"""
_STATE = """
counter = 0
items = []
settings = {"a": [1]}
def inc():
    global counter
    counter += 1
    items.append(counter)
class Holder:
    def __init__(self, v): self.v = v
    def total(self): return sum(self.v)
    def add(self, x): self.v.append(x)
def cycle():
    a = [1]; a.append(a)
    return a
"""
_SUBCLASSES = """
from collections import namedtuple
from enum import Enum, IntEnum
class Stack(list):
    def push(self, x): self.append(x)
    def peek(self): return self[-1]
class Zero(dict):
    def __missing__(self, k): return 0
P = namedtuple("P", "x y")
class Colour(Enum):
    RED = 1
class Level(IntEnum):
    LOW = 1
"""
_ASYNC = """
import asyncio
class A:
    async def __aenter__(self): return self
    async def __aexit__(self, *a): self.done = True
    async def run(self): await asyncio.sleep(0); return 4
async def numbers(n):
    for i in range(n): yield i
"""
_FUNCTIONS = """
import functools
def compose(*fs):
    def run(x):
        for f in fs: x = f(x)
        return x
    return run
def again(f, n, x):
    for _ in range(n): x = f(x)
    return x
def mapped(f, xs): return list(map(f, xs))
def same(f): return f
def wrapped(f):
    def w(*a, **k): return ("w", f(*a, **k))
    return w
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
"""
_OBJECTS = """
class Context:
    def __enter__(self): self.on = 1; return self
    def __exit__(self, *a): self.on = 2
class Shape:
    @property
    def area(self): return 6
    @staticmethod
    def plus(x): return x + 1
    @classmethod
    def make(cls): return cls()
class Trie:
    def __init__(self): self.words = set()
    def insert(self, w): self.words.add(w)
    def __contains__(self, w): return w in self.words
"""
_ORDER = """
import functools
@functools.total_ordering
class V:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return self.n == o.n
    def __lt__(self, o): return self.n < o.n
    def __hash__(self): return hash(self.n)
"""
CASES: dict[str, tuple[str, tuple[str, ...], set[str]]] = {
    "operators of a class": (
        _VECTOR,
        (
            "Vec(1, 2) + Vec(3, 4) == Vec(4, 6)",
            "assert Vec(1, 2) * 3 == Vec(3, 6) and 3 * Vec(1, 2) == Vec(3, 6)",
            "repr(Vec(1, 2)) == 'Vec(1, 2)' and f'{Vec(1, 2)}' == 'Vec(1, 2)'",
            "list(Vec(1, 2)) == [1, 2] and len(Vec(1, 2)) == 2",
            "a, b = Vec(5, 6)\nassert (a, b) == (5, 6)",
            "type(Vec(1, 2)) is Vec and (Vec(1, 2) * 3).x == 3 and Vec(1, 2) != Vec(1, 3)",
        ),
        {"remote_eq", "remote_arithmetic"},
    ),
    "exceptions": (
        _ERRORS,
        (
            "try:\n    f(-1)\n    assert False\n"
            "except MyError as e:\n    assert e.code == 7 and str(e) == 'code 7'",
            "try: f(-1)\nexcept ValueError as e: assert type(e).__name__ == 'Sub'",
            "try: f(0)\n"
            "except ZeroDivisionError as e:\n"
            "    assert type(e) is ZeroDivisionError and str(e) == 'nope'\n"
            "else: assert False",
            "try: f(1)\nexcept SystemExit as e: assert e.code == 3\nelse: assert False",
            "try: f(2)\nexcept KeyError as e: assert e.args == ('k',)\nelse: assert False",
            "issubclass(Sub, MyError) and issubclass(MyError, ValueError)",
            "import contextlib\nwith contextlib.suppress(MyError): f(-1)\nassert f(5) == 5",
        ),
        set(),
    ),
    "iteration": (
        _ITERATION,
        (
            "list(g(3)) == [0, 1, 2] and sum(g(10)) == 45",
            "import itertools\nassert list(itertools.islice(evens(), 3)) == [0, 2, 4]",
            "list(Count()) == [1, 2, 3] and next(iter(Count())) == 1",
            "it = g(1)\nassert next(it) == 0\n"
            "try:\n    next(it)\n    assert False\nexcept StopIteration: pass",
            "dict(zip(g(2), 'ab')) == {0: 'a', 1: 'b'}",
        ),
        set(),
    ),
    "objects of the tests": (
        _LINKED,
        (
            "class Node:\n    def __init__(self, val, next=None): self.val, self.next = val, next\n"
            "n = Node(1, Node(2, Node(3)))\nassert total(n) == 6",
            "r = reverse(n)\nassert r.val == 3 and r.next.val == 2 and total(r) == 6",
            "assert total(make(Node)) == 19",
        ),
        set(),
    ),
    "shared state": (
        _STATE,
        (
            "inc()\ninc()\nassert counter == 2 and items == [1, 2]",
            "items.append(5)\ninc()\nassert items == [1, 2, 5, 3]",
            "settings['a'].append(2)\nassert settings == {'a': [1, 2]}",
            "held = settings['a']\nheld[0] = 9\nassert settings['a'][0] == 9",
            "v = [1, 2]\nh = Holder(v)\nv.append(3)\nassert h.total() == 6",
            "h.add(4)\nassert v == [1, 2, 3, 4] and h.v is v",
            "a = cycle()\nassert a[0] == 1 and a[1] is a",
            "m = [[0] * 2 for _ in range(2)]\nHolder(m).v[0][1] = 5\nassert m == [[0, 5], [0, 0]]",
        ),
        set(),
    ),
    "subclasses of plain types": (
        _SUBCLASSES,
        (
            "s = Stack()\ns.push(1); s.push(2)\n"
            "assert s.peek() == 2 and s == [1, 2] and len(s) == 2 and 2 in s",
            "isinstance(Stack(), Stack) and list(Stack()) == []",
            "d = Zero()\nassert d['x'] == 0 and d == {}",
            "P(1, 2) == (1, 2) and P(1, 2).x == 1 and P(1, 2)._replace(x=5) == (5, 2)",
            "isinstance(P(1, 2), P)",
            "Colour.RED == Colour.RED and Colour.RED is Colour.RED and Colour.RED.value == 1",
            "Level.LOW == 1 and Level.LOW + 1 == 2 and Level.LOW.name == 'LOW'",
        ),
        set(),
    ),
    "asynchronous code": (
        _ASYNC,
        (
            "import asyncio\nasync def test():\n    async with A() as a:\n"
            "        assert await a.run() == 4\n"
            "    assert [x async for x in numbers(3)] == [0, 1, 2]\nasyncio.run(test())",
        ),
        set(),
    ),
    "functions handed over and back": (
        _FUNCTIONS,
        (
            "compose(lambda x: x + 1, lambda x: x * 2)(3) == 8",
            "again(lambda v: v + [1], 3, []) == [1, 1, 1]",
            "mapped(str, [1, 2]) == ['1', '2']",
            "f = lambda: 0\nassert same(f) is f",
            "@wrapped\ndef q(a, b=1): return a + b\nassert q(1, b=5) == ('w', 6)",
            "import math\nassert mapped(math.sqrt, [4, 9]) == [2, 3]",
            "mapped(lambda x: [x], [1]) == [[1]]",
            "fib(30) == 832040 and fib.cache_info().hits > 0",
            "callable(fib) and not callable(3)",
        ),
        set(),
    ),
    "contexts, properties, membership": (
        _OBJECTS,
        (
            "with Context() as c:\n    assert c.on == 1\nassert c.on == 2",
            "Shape().area == 6 and Shape.plus(1) == 2 and Shape.make().area == 6",
            "hasattr(Shape(), 'area') and not hasattr(Shape(), 'nope')",
            "t = Trie(); t.insert('abc'); assert 'abc' in t and 'x' not in t",
        ),
        {"remote_contains"},
    ),
    "order and hashing": (
        _ORDER,
        (
            "V(1) < V(2) and max(V(1), V(3)).n == 3",
            "sorted([V(2), V(1)])[0].n == 1",
            "len({V(1), V(1)}) == 1 and {V(1): 'a'}[V(1)] == 'a'",
        ),
        {"remote_eq", "remote_order"},
    ),
    "test classes": (
        "def f(x): return x + 1",
        (
            "import io, unittest\nclass T(unittest.TestCase):\n"
            "    def test_a(self): self.assertEqual(f(1), 2)\n"
            "    def test_b(self): self.assertRaises(TypeError, f, 'a')\n"
            "found = unittest.defaultTestLoader.loadTestsFromTestCase(T)\n"
            "ran = unittest.TextTestRunner(stream=io.StringIO()).run(found)\n"
            "assert ran.wasSuccessful() and ran.testsRun == 2",
        ),
        set(),
    ),
    "a check function, then its call": (
        "def add(a, b): return a + b",
        ("def check(c):\n    assert c(1, 2) == 3", "check(add)"),
        set(),
    ),
    "files, threads, printing": (
        "import tempfile, os, threading, concurrent.futures\n"
        "def files():\n    with tempfile.TemporaryDirectory() as d:\n"
        "        path = os.path.join(d, 'a')\n"
        "        with open(path, 'w') as file: file.write('x')\n"
        "        with open(path) as file: return file.read()\n"
        "def squares():\n    with concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
        "        return list(pool.map(lambda v: v * v, range(5)))\n"
        "def loud():\n    print('loud'); return 1\n",
        ("files() == 'x'", "squares() == [0, 1, 4, 9, 16]", "loud() == 1"),
        set(),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_honest_program_passes(
    case: tuple[str, tuple[str, ...], set[str]], sandbox: Sandbox
) -> None:
    """All assertions hold in one process (read them), so all must hold across the boundary."""
    code, assertions, trust = case
    result = sandbox.run(checked_work(code, assertions, timeout_s=5.0))
    assert [one.detail for one in result.assertions if one.outcome != "pass"] == []
    assert result.outcome == "pass"
    assert set(result.isolation.trust) <= trust


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_assertions_above_hold_in_one_process(
    case: tuple[str, tuple[str, ...], set[str]],
) -> None:
    """The oracle: plain `exec`, program and assertions in one namespace."""
    code, assertions, _ = case
    scope: dict = {"__name__": "together"}
    exec(code, scope)
    for text in assertions:
        try:
            judged = compile(text, "<assertion>", "eval")
        except SyntaxError:
            exec(text, scope)
        else:
            value = eval(judged, scope)
            assert value or value is None, text


def test_in_process_grading_says_so(sandbox: Sandbox) -> None:
    """A task may need its tests beside the program; the verdict then says what it is worth."""
    code = "limit = 3\ndef f(): return limit"
    block = "globals()['limit'] = 5\nassert f() == 5"
    apart = sandbox.run(checked_work(code, block, timeout_s=3.0))
    beside = sandbox.run(checked_work(code, block, timeout_s=3.0, grading="in_process"))
    assert apart.outcome == "assertion_fail"
    assert (beside.outcome, beside.isolation.grading) == ("pass", "in_process")
    assert beside.isolation.trust == ("in_process",)
