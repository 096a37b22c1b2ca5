"""What tests lend a program, and what it gives back, are what they would be in one process.

Each program is right: plain Python, program and assertions in one namespace, is the oracle.
"""

from __future__ import annotations

import sys
import types

import pytest

from farm.sandbox.runner import Sandbox, checked_work

_PLAIN = "def f(x): return x * 3"
_ERRORS = """
class Ins(Exception):
    kind = 42
    def __init__(self, need, have):
        super().__init__(f"need {need}, have {have}")
        self.need = need
    @classmethod
    def make(cls): return cls(1, 2)
    def __repr__(self): return "INS"
    def twice(self): return self.need * 2
class Odd(Exception):
    def __str__(self): return "oops"
"""
_RETRY = """
class NetError(Exception):
    def __init__(self, code):
        super().__init__(f"net {code}")
        self.code = code
def retry(f, kind=NetError):
    for i in range(3):
        try: return f()
        except kind as e: last = e.code
    return last
def throw(kind, *a): raise kind(*a)
def give(x): return x
"""
_EMITTER = """
class Emitter:
    def __init__(self): self.handlers = []
    def on(self, f): self.handlers.append(f)
    def off(self, f): self.handlers.remove(f)
    def has(self, f): return f in self.handlers
    def count(self): return len(set(self.handlers))
def same(a, b): return a is b
def cycle(head):
    slow = fast = head
    while fast and fast.next:
        slow, fast = slow.next, fast.next.next
        if slow is fast: return True
    return False
"""
_LOOKING = """
import functools, inspect
def deco(f):
    @functools.wraps(f)
    def w(*a, **k):
        'inner'
        return f(*a, **k)
    return w
def curry(f):
    n = len(inspect.signature(f).parameters)
    def go(*a):
        return f(*a) if len(a) >= n else lambda *b: go(*a, *b)
    return go
def argc(f): return f.__code__.co_argcount, f.__defaults__
def mark(f):
    f.tag = 3
    return f
def tag(f): return f.tag
def hints(f): return {n: p.annotation for n, p in inspect.signature(f).parameters.items()}
class Reg:
    pass
def add_method(f):
    Reg.m = f
    return Reg()
def clsname(c): return c.__name__, c.label
"""
_RARE = """
from pathlib import Path, PurePosixPath, PureWindowsPath
import uuid, re, datetime, os
from zoneinfo import ZoneInfo
def ident(x): return x
def parent(p): return p.parent
def norm(s): return Path(s) / 'x'
def pure(s): return PurePosixPath(s)
def nxt(d): return d + datetime.timedelta(days=1)
def found(r, s): return [m.group() for m in r.finditer(s)]
def ver(u): return u.version, str(u)
def mk(): return uuid.UUID(int=5)
def kind(x): return type(x).__name__
def utc(): return datetime.datetime(2020,1,1,tzinfo=datetime.timezone.utc)
def zon(): return datetime.datetime(2020,7,1,tzinfo=ZoneInfo('Europe/Berlin'))
def wr():
    p = Path('f.txt'); p.write_text('hi'); return p
"""
_GENERAL = """
def total(ps): return sum(p.x + p[1] for p in ps)
def move(p): return p._replace(x=9)
def ident(x): return x
def unpack(p):
    a, b = p
    return a, b
def get(d, k): return d[k]
def put(d, k, v): d[k] = v
def keys(d): return sorted(d), len(d), isinstance(d, dict), 'a' in d
def up(s): return s.upper() + s
def name(e): return e.name, e.value, e + 1
def meth(p): return p.norm()
def big(xs): return max(xs)
def uniq(xs):
    out = []
    for x in xs:
        if x not in out: out.append(x)
    return out
def tot(b): return sum(b), len(b), list(b), str(b), b[0]
def push(s): s.push(1); return len(s), s[-1]
def as_dict(d): return dict(d), {**d}
def using(m):
    with m as x: return x
"""
_THREADS = """
import threading, concurrent.futures
class Counter:
    def __init__(self): self.n, self.lock = 0, threading.Lock()
    def inc(self):
        with self.lock: self.n += 1
def twice(x): return x * 2
def spread(g, xs):
    with concurrent.futures.ThreadPoolExecutor(2) as pool: return list(pool.map(g, xs))
def behind(g):
    t = threading.Thread(target=lambda: [g(i) for i in range(20)])
    t.start()
    return t
"""
_STREAMS = """
import itertools
def total(it): return sum(it)
def first(it):
    for x in it: return x
def take(n, it): return list(itertools.islice(it, n))
def safe(it):
    out = []
    try:
        for x in it: out.append(x)
    except ValueError: out.append("E")
    return out
def read(f): return f.read(), f.seek(0), f.readlines()
def write(f):
    f.write("x")
    print("y", file=f)
"""
_VALUES = """
class Ring(tuple):
    def __getitem__(self, i):
        if isinstance(i, int): return tuple.__getitem__(self, i % len(self))
        return Ring(tuple.__getitem__(self, i))
    def __iter__(self): return iter(tuple.__getitem__(self, slice(None))[::-1])
    def __contains__(self, x): return x == 99
class Words(str):
    def __len__(self): return 7
    def __iter__(self): return iter(str(self).split())
    def __bool__(self): return False
class M(int):
    def __abs__(self): return M(int(self) + 100)
    def __neg__(self): return M(5)
    def __round__(self, n=0): return 9
    def __bool__(self): return True
"""

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
        {"remote_code"},  # get_type_hints evaluates annotations, here only the tests' own
    ),
    "exceptions of the program, made by the tests": (
        _ERRORS,
        [
            "assert str(Ins(5, 2)) == 'need 5, have 2' and Ins(5, 2).need == 5",
            "assert Ins.kind == 42 and Ins(1, 2).kind == 42 and Ins.make().need == 1",
            "assert repr(Ins(1, 2)) == 'INS' and Ins(4, 2).twice() == 8",
            "assert str(Odd('x')) == 'oops'",
            "assert isinstance(Ins(1, 2), Ins) and issubclass(Ins, Exception)",
            "import pytest\nwith pytest.raises(Ins, match='need 5'):\n    raise Ins(5, 1)",
            "with pytest.raises(TypeError):\n    raise Ins",
            "Ins.kind = 7\nassert Ins.make().kind == 7",
            "class Mine(Ins):\n    def __init__(self): super().__init__('a', 'b')\n"
            "try:\n    raise Mine()\nexcept Ins as e:\n    assert type(e) is Mine",
        ],
        set(),
    ),
    "exceptions that the tests raise in the program": (
        _RETRY,
        [
            "def bad(): raise NetError(5)\nassert retry(bad) == 5",
            "class My(Exception):\n    def __init__(self, code):\n"
            "        super().__init__(f'my {code}')\n        self.code = code\n"
            "def worse(): raise My(9)\nassert retry(worse, My) == 9",
            "try:\n    throw(My, 3)\nexcept My as e:\n    assert e.code == 3 and str(e) == 'my 3'\n"
            "else:\n    assert False",
            "try:\n    retry(worse)\nexcept My as e:\n    assert e.code == 9\n"
            "else:\n    assert False",
            "import json\ndef parse(): return json.loads('{')\n"
            "try:\n    retry(parse, json.JSONDecodeError)\nexcept AttributeError as e:\n"
            "    assert e.name == 'code'\nelse:\n    assert False",
            "class Sub(NetError): pass\ndef also(): raise Sub(8)\nassert retry(also) == 8",
            "class Base(Exception): pass\nclass Leaf(Base, ValueError):\n    code = 5\n"
            "def leaf(): raise Leaf('x')\nassert retry(leaf, Base) == retry(leaf, ValueError) == 5",
            "e, m = NetError(3), My(4)\nassert give(e) is e and give(m) is m\n"
            "assert give(My) is My and give(NetError) is NetError and give(KeyError) is KeyError",
        ],
        set(),
    ),
    "exceptions that are met before their module is imported": (
        "from dataclasses import dataclass\nimport json\n@dataclass(frozen=True)\nclass P:\n"
        "    x: int\nclass Bad(json.JSONDecodeError): pass\n"
        "def parse(s): return json.loads(s)\ndef bad(): raise Bad('m', 'd', 0)",
        [
            "try:\n    P(1).x = 2\n    assert False\nexcept AttributeError: pass",
            "from dataclasses import FrozenInstanceError\n"
            "try:\n    P(1).x = 2\n    assert False\nexcept FrozenInstanceError: pass",
            "try:\n    bad()\n    assert False\nexcept ValueError: pass",
            "import json\ntry:\n    parse('{')\n    assert False\n"
            "except json.JSONDecodeError: pass",
            "try:\n    bad()\n    assert False\nexcept json.JSONDecodeError: pass",
        ],
        set(),
    ),
    "what exceptions know beside their arguments": (
        "def f(): return open('no such file')\ndef g(): import nomod\ndef h(): return (1).foo",
        [
            "try:\n    f()\nexcept OSError as e:\n"
            "    assert e.filename == 'no such file' and 'no such file' in str(e)",
            "try:\n    g()\nexcept ImportError as e:\n    assert e.name == 'nomod'",
            "try:\n    h()\nexcept AttributeError as e:\n    assert e.name == 'foo'",
        ],
        set(),
    ),
    "identity of what is lent": (
        _EMITTER,
        [
            "e = Emitter()\ndef h(): pass\ne.on(h)\ne.on(h)\nassert e.has(h) and e.count() == 1",
            "e.off(h)\ne.off(h)\nassert e.handlers == [] and same(h, h)",
            "class N:\n    def __init__(self): self.next = None\n    def m(self): pass\n"
            "a, b = N(), N()\na.next, b.next = b, a\nassert cycle(a) and same(a, b.next)\n"
            "b.next = None\nassert not cycle(a)",
            "e.on(a.m)\ne.off(a.m)\nassert e.handlers == [] and not same(a, b)",
            "seen = []\ne.on(seen.append)\ne.off(seen.append)\nassert e.handlers == []",
        ],
        set(),
    ),
    "functions of the tests, looked at": (
        _LOOKING,
        [
            "@deco\ndef g(x):\n    'doc'\n    return x+1\n"
            "assert g.__name__=='g' and g.__doc__=='doc' and g(2)==3",
            "def h(a,b,c): return a+b+c\nassert curry(h)(1)(2)(3)==6 and curry(h)(1,2)(3)==6",
            "def k(a,b=2,*,c=3): pass\nassert argc(k)==(2,(2,))",
            "@mark\ndef z(): pass\nassert z.tag==3 and tag(z)==3",
            "z.other=5\nassert z.tag==3",
            "def an(a:int,b:str='x'): pass\nassert hints(an)=={'a':int,'b':str}",
            "def me(self, x): return self, x\nr=add_method(me)\nassert r.m(3)==(r,3)",
            "class L:\n    label='q'\nassert clsname(L)==('L','q')",
            "assert deco(lambda: 0).__name__=='<lambda>' and deco(len)([1])==1"
            " and deco(len).__name__=='len'",
            "assert g.__wrapped__(1)==2",
        ],
        set(),
    ),
    "paths, patterns, times of a zone": (
        _RARE,
        [
            "from pathlib import *\n"
            "assert parent(Path('/a/b'))==Path('/a') and ident(Path('a'))==Path('a')"
            " and norm('q')==Path('q/x') and norm('q')!=Path('q')",
            "assert pure('a//b')==PurePosixPath('a/b')"
            " and parent(PureWindowsPath('c:/a/b'))==PureWindowsPath('c:/a')",
            "assert kind(Path('x'))=='PosixPath' and wr().read_text()=='hi'"
            " and str(norm('z'))=='z/x' and norm('z').name=='x'",
            "import uuid\nu=uuid.uuid4()\n"
            "assert ver(u)==(4,str(u)) and ident(u)==u and mk()==uuid.UUID(int=5)",
            "import re\nassert found(re.compile('A+', re.I),'aab')==['aa']",
            "import datetime as D\nx=D.datetime(2020,3,28,12,tzinfo=D.timezone.utc)\n"
            "assert nxt(x)==x+D.timedelta(days=1) and nxt(x).tzinfo is D.timezone.utc"
            " and utc()==D.datetime(2020,1,1,tzinfo=D.timezone.utc)",
            "y=D.datetime(2020,1,1,tzinfo=D.timezone(D.timedelta(hours=2),'X'))\n"
            "assert ident(y).tzname()=='X' and ident(y)==y",
            "from zoneinfo import ZoneInfo\n"
            "b=D.datetime(2020,3,28,12,tzinfo=ZoneInfo('Europe/Berlin'))\n"
            "assert nxt(b).utcoffset()==D.timedelta(hours=2)"
            " and zon().tzinfo.key=='Europe/Berlin' and ident(b)==b",
            "assert {norm('a')} == {Path('a/x')} and norm('a') in [Path('a/x')]",
        ],
        set(),
    ),
    "classes of the tests that extend Python's": (
        _GENERAL,
        [
            "from collections import namedtuple\nfrom typing import NamedTuple\n"
            "Q=namedtuple('Q','x y')\n"
            "assert total([Q(1,2),Q(3,4)])==10 and move(Q(1,2))==Q(9,2)"
            " and type(move(Q(1,2))) is Q and unpack(Q(1,2))==(1,2)",
            "class R(NamedTuple):\n    x: int\n    y: int = 2\n"
            "    def norm(self): return self.x*10\nr=R(1)\n"
            "assert total([r])==3 and ident(r) is r and meth(r)==10 and move(r).norm()==90",
            "class D(dict): pass\nd=D(a=1)\nput(d,'b',2)\n"
            "assert d=={'a':1,'b':2} and get(d,'a')==1 and keys(d)==(['a','b'],2,True,True)"
            " and ident(d) is d and type(d) is D",
            "class M(dict):\n    def __missing__(self,k): return k*2\n"
            "    def both(self): return 1\nm=M(a=1)\n"
            "assert get(m,'zz')=='zzzz' and as_dict(m)==({'a':1},{'a':1})\nput(m,'c',3)\n"
            "assert m['c']==3 and ident(m) is m",
            "class S(str): pass\nassert up(S('a'))=='Aa' and ident(S('a'))=='a'",
            "from enum import IntEnum, Enum\nclass E(IntEnum):\n    A=1\n"
            "assert name(E.A)==('A',1,2) and ident(E.A) is E.A",
            "class P:\n    def __init__(s,v): s.v=v\n    def __eq__(s,o): return s.v==o.v\n"
            "    def __hash__(s): return hash(s.v)\n    def __lt__(s,o): return s.v<o.v\n"
            "    def __gt__(s,o): return s.v>o.v\n"
            "assert len(uniq([P(1),P(1),P(2)]))==2 and big([P(1),P(3)]).v==3",
            "class B:\n    def __iter__(self): return iter([1,2])\n"
            "    def __len__(self): return 2\n    def __str__(self): return 'BB'\n"
            "    def __getitem__(self,i): return i*7\nassert tot(B())==(3,2,[1,2],'BB',0)",
            "class St(list):\n    def push(self,x): self.append(x)\nst=St()\n"
            "assert push(st)==(1,1) and st==[1]",
            "import contextlib\nclass C:\n    def __enter__(self): return 5\n"
            "    def __exit__(self,*a): self.out=a; return False\nc=C()\n"
            "assert using(c)==5 and c.out==(None,None,None)",
            "from dataclasses import dataclass\n@dataclass\nclass Q2:\n    v:int\n"
            "assert uniq([Q2(1),Q2(1)])==[Q2(1)]",
        ],
        set(),
    ),
    "threads of the tests and of the program": (
        _THREADS,
        [
            "import threading\nc = Counter()\n"
            "ts = [threading.Thread(target=lambda: [c.inc() for _ in range(20)]) for _ in '1234']\n"
            "[t.start() for t in ts]\n[t.join() for t in ts]\nassert c.n == 80",
            "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(4) as pool:\n"
            "    assert list(pool.map(twice, range(20))) == [2 * i for i in range(20)]",
            "assert spread(lambda v: [v + 1], range(20)) == [[i] for i in range(1, 21)]",
            "seen = []\nt = behind(seen.append)\nt.join()\nassert seen == list(range(20))",
            "assert spread(lambda i: twice([i]), range(9)) == [[i, i] for i in range(9)]",
            "def deep(i): return spread(twice, [i, i + 1])\n"
            "assert spread(deep, [1, 2]) == [[2, 4], [4, 6]]",
            "seen = []\nt = behind(lambda i: seen.append(twice(i)))\n"
            "for i in range(20): assert twice(i) == 2 * i\n"
            "t.join()\nassert seen == [2 * i for i in range(20)]",
        ],
        set(),
    ),
    "mocks of the tests": (
        "def send(m, x):\n    m.post(x)\n    m.done = True\n    return m.get(1)\n"
        "def use(m):\n    with m as x: x.go()\n    return len(m), m['k'], m.a.b(3)",
        [
            "from unittest.mock import MagicMock, Mock\nm = Mock()\nm.get.return_value = 5\n"
            "assert send(m, 3) == 5 and m.done\nm.post.assert_called_once_with(3)",
            "m = MagicMock()\nm.__len__.return_value = 4\nm.__getitem__.return_value = 'v'\n"
            "m.a.b.return_value = 6\nassert use(m) == (4, 'v', 6)\n"
            "m.__enter__.return_value.go.assert_called_once()\nm.a.b.assert_called_with(3)",
        ],
        set(),
    ),
    "iterators and files of the tests": (
        _STREAMS,
        [
            "assert sum(range(5000)) == total(i for i in range(5000))",
            "g = (i for i in range(5))\nassert first(g) == 0 and list(g) == [1, 2, 3, 4]",
            "g = iter([1, 2, 3])\nassert first(g) == 1 and next(g) == 2 and total(g) == 3",
            "import itertools\nassert take(3, itertools.count()) == [0, 1, 2]",
            "def g():\n    for i in range(100): yield i\n    raise ValueError\n"
            "assert safe(g()) == [*range(100), 'E']",
            "import io\nassert first(io.StringIO('q')) == 'q'\n"
            "assert read(io.StringIO('a\\nb')) == ('a\\nb', 0, ['a\\n', 'b'])\n"
            "f = io.StringIO()\nwrite(f)\nassert f.getvalue() == 'xy\\n'",
        ],
        set(),
    ),
    "classes of the tests": (
        "def make(c, *a): return c(*a)\ndef isit(x, c): return isinstance(x, c)",
        [
            "class P:\n    def __init__(self, v): self.v = v\n"
            "p = make(P, 3)\nassert type(p) is P and p.v == 3",
            "assert isit(P(1), P) and not isit(3, P) and isit(3, int)",
        ],
        set(),
    ),
    "values of a plain type with methods of their own": (
        _VALUES,
        [
            "assert Ring((1, 2, 3))[4] == 2 and list(Ring((1, 2, 3))) == [3, 2, 1]",
            "assert Ring((1, 2, 3))[0:2] == (1, 2) and [*Ring((1, 2))] == [2, 1]",
            "a, b = Ring((1, 2))\nassert (a, b) == (2, 1) and sum(Ring((1, 2))) == 3",
            "assert 99 in Ring((1, 2)) and 1 not in Ring((1, 2))",
            "assert len(Words('a b')) == 7 and list(Words('a b')) == ['a', 'b'] and not Words('a')",
            "assert M(3) == 3 and abs(M(3)) == 103 and -M(3) == 5 and round(M(3)) == 9",
            "assert bool(M(0))",
        ],
        {"remote_contains"},
    ),
    "numbers wider than Python's": (
        "import numpy as np\ndef f(): return np.longdouble('1.1')\n"
        "def g(): return np.array([1, 2], dtype=np.longdouble)\ndef h(): return np.clongdouble(2)",
        [
            "import numpy as np\nassert f() == np.longdouble('1.1') and type(f()) is np.longdouble",
            "assert (g() == [1, 2]).all() and g().dtype == np.longdouble and h() is not None",
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


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("    def __init__(self, *a): raise RuntimeError", "error"),
        ("    def __str__(self): return 'oops'", "assertion_fail"),
        ("    def __init__(self, message): super().__init__()", "assertion_fail"),
    ],
)
def test_an_exception_class_that_is_wrong_does_not_pass(
    body: str, outcome: str, sandbox: Sandbox
) -> None:
    """What the tests make of a class of the program is made by it, not by a likeness here."""
    work = checked_work(f"class E(Exception):\n{body}", ["str(E('boom')) == 'boom'"], timeout_s=5.0)
    assert sandbox.run(work).outcome == outcome


_PEEKS = """
seen = []
def probe(thing, wishes):
    ask = object.__getattribute__(thing, "_home").ask
    for wish, name in wishes:
        request = {"ask": wish, "n": object.__getattribute__(thing, "_number"), "name": name}
        try:
            ask(request | {"a": (), "k": {}, "v": 5})
            seen.append((wish, name))
        except Exception:
            pass
"""


def test_what_is_lent_gives_no_more_than_it_is_said_to(sandbox: Sandbox) -> None:
    """Public attributes and the special methods told of, whatever the program asks for."""
    block = """
import functools
class Box:
    label = 'x'
    def __init__(self): self.open, self._secret = 1, 2
    def __len__(self): return 3
    def __exit__(self, *a): raise KeyError('not to be called')
def helper(x, y=2): return x
helper.known = 1
wishes = [('get', '__class__'), ('get', '_secret'), ('set', '_secret'), ('set', 'pytestmark'),
          ('special', '__init__'), ('special', '__getattribute__'), ('special', '__reduce__'),
          ('special', '__repr__'), ('special', '__exit__'), ('special', None),
          ('special', '__class__')]
box = Box()
probe(box, [*wishes, ('special', '__len__'), ('get', 'open')])
assert seen == [('special', '__len__'), ('get', 'open')], seen
seen.clear()
probe(helper, [*wishes, ('get', '__globals__'), ('set', '__code__'), ('set', 'known')])
probe(Box, [*wishes, ('set', 'label'), ('set', 'fresh')])
probe(functools.partial(helper, 1), [*wishes, ('get', 'func'), ('set', 'func')])
assert seen == [] and helper.known == 1 and Box.label == 'x', seen
"""
    assert sandbox.run(checked_work(_PEEKS, block, timeout_s=5.0)).detail == ""


@pytest.mark.parametrize(
    "reply",
    [
        '{"t": "remade", "v": 0, "base": {"t": "tuple", "v": [3, 9]}}',  # a function
        '{"t": "remade", "v": 1, "base": {"t": "tuple", "v": [3, 9]}}',  # an object
        '{"t": "remade", "v": 99, "base": {"t": "tuple", "v": [3, 9]}}',
        '{"t": "remade", "v": 3, "base": {"t": "tuple", "v": [3]}}',  # of two fields
        '{"t": "remade", "v": 3, "base": [3, 9]}',
        '{"t": "path", "v": ["Path", "x"]}',
        '{"t": "path", "v": ["os", "x"]}',
        '{"t": "zoned", "v": ["2020-01-01T00:00:00", 0, "../../etc/passwd"]}',
        '{"t": "UUID", "v": ["x"]}',
        '{"t": "aware", "v": ["2020-01-01T00:00:00", 0, 0, 0, 0, 7]}',
    ],
)
def test_a_program_makes_of_what_it_was_lent_nothing_else(reply: str, sandbox: Sandbox) -> None:
    """What it says in the wire's own terms, beside what honest programs say, is refused."""
    code = f"""
import gc, json
def f(*things):
    for one in gc.get_objects():
        if type(one).__name__ == "Candidate":
            one._perform = lambda message: {{"v": json.loads({reply!r})}}
"""
    block = (
        "from collections import namedtuple\nPair = namedtuple('Pair', 'x y')\n"
        "class A: pass\ndef g(): pass\n"
        "f(g, A(), Pair(1, 2))\nx = f()\nassert False, repr(x)"
    )
    result = sandbox.run(checked_work(code, block, timeout_s=5.0))
    assert result.outcome == "error"
    assert "broke off the conversation" in result.detail


def test_a_program_does_not_answer_what_the_tests_ask_of_a_mock(sandbox: Sandbox) -> None:
    """It may use a mock; what a mock says of its use is not the program's to set."""
    code = """
def send(m):
    for change in (
        lambda: setattr(m, "assert_called_once_with", lambda *a: None),
        lambda: setattr(m, "post", type("X", (), {"assert_called_once_with": print})()),
        lambda: setattr(m, "call_count", 1),
        lambda: setattr(m, "method_calls", [1]),
        lambda: m.configure_mock(call_count=1),
    ):
        try: change()
        except AttributeError: pass
"""
    assertions = (
        "from unittest.mock import Mock\nm = Mock()\nsend(m)\nm.post.assert_called_once_with(3)",
        "m.assert_called_once_with(3)",
        "assert m.call_count == 1",
        "assert m.method_calls == [1]",
    )
    result = sandbox.run(checked_work(code, assertions, timeout_s=5.0))
    assert [one.outcome for one in result.assertions] == ["assertion_fail"] * 4


def test_a_value_that_claims_to_contain_anything_contains_nothing_asked(sandbox: Sandbox) -> None:
    """Named by the tests it is asked, among what nobody put in; else what is in it counts."""
    code = "class R(tuple):\n    def __contains__(self, x): return True\ndef f(): return R((1, 2))"
    named = sandbox.run(checked_work(code, ["5 in R((1, 2))"], timeout_s=5.0))
    unnamed = sandbox.run(checked_work(code, ["5 in f()", "1 in f()"], timeout_s=5.0))
    assert named.outcome == "error"
    assert [one.outcome for one in unnamed.assertions] == ["assertion_fail", "pass"]
