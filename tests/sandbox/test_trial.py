"""Programs that are right, judged as plain CPython judges them; and more that are up to no good.

Each right program stands with assertions that hold when program and assertions share one
namespace, which `test_plain_python_agrees` shows for every one of them.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import types

import pytest

from farm.sandbox.runner import Sandbox, Settings, checked_work, run_candidate

RIGHT: dict[str, tuple[str, list[str]]] = {
    "numbers that JSON has no word for": (
        "def f(): return [float('inf'), -0.0, 7 ** 900, 2 ** 53, True, 1j]",
        [
            "f() == [float('inf'), 0.0, 7 ** 900, 2 ** 53, True, 1j]",
            "str(f()[1]) == '-0.0'",
            "f()[4] is True and type(f()[3]) is int",
        ],
    ),
    "text that is no unicode": ("def f(): return '\\ud800\\U0001F600'", ["len(f()) == 2"]),
    "keys of every kind": (
        "def f(): return {(1, 2): {3: 'a'}, None: {1}, 1.5: frozenset([1])}",
        ["f()[(1, 2)][3] == 'a'", "f()[None] == {1} and f()[1.5] == {1}"],
    ),
    "views of a dictionary": (
        "d = {1: 2}\ndef f(): return d.keys(), d.values(), d.items()",
        [
            "f()[0] == {1} and f()[0] & {1, 5} == {1}",
            "list(f()[1]) == [2]",
            "(1, 2) in f()[2] and repr(f()[2]) == 'dict_items([(1, 2)])'",
        ],
    ),
    "subclasses of containers": (
        "class L(list):\n    def total(self): return sum(self)\n"
        "class D(dict): pass\n"
        "class V(list):\n    def __add__(self, o): return V(a + b for a, b in zip(self, o))",
        [
            "isinstance(D(a=1), dict) and not isinstance(D(), list)",
            "L([1]) + [2] == [1, 2] and [0] + list(L([1])) == [0, 1]",
            "D(a=1) | {'b': 2} == {'a': 1, 'b': 2} and {'b': 2} | D(a=1) == {'b': 2, 'a': 1}",
            "L([1, 2]) * 2 == [1, 2, 1, 2] and L([1, 2]).total() == 3",
            "V([1, 2]) + V([3, 4]) == V([4, 6])",
        ],
    ),
    "objects that change in place, and their copies": (
        "class C:\n    def __init__(self): self.n, self.l = 0, [1]\n"
        "    def __iadd__(self, k):\n        self.n += k\n        return self\n"
        "class L(list): pass",
        [
            "c = C()\nd = c\nc += 5\nassert c is d and d.n == 5",
            "x = L([1])\ny = x\nx += [2]\nassert y == [1, 2] and x is y",
            "import copy\na = C()\nb = copy.deepcopy(a)\nb.l.append(2)\n"
            "assert (a.l, b.l) == ([1], [1, 2]) and copy.copy(a).l is a.l",
            "C().__class__ is C and type(C()).__name__ == C().__class__.__name__ == 'C'",
        ],
    ),
    "dictionaries that make what is missing": (
        "from collections import defaultdict\nclass D(dict):\n"
        "    def __missing__(self, key): return key * 2\n"
        "def f(): return defaultdict(list, a=[1]), defaultdict(lambda: 7), D(a=1)",
        ["f()[0]['z'] == [] and f()[0] == {'a': [1]}", "f()[1][0] == 7", "f()[2]['q'] == 'qq'"],
    ),
    "classes that take a subscript": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\n"
        "class S(Generic[T]):\n    def __init__(self): self.items = []",
        ["S[int]().items == []", "S().items == []"],
    ),
    "a context manager told of an exception": (
        "class C:\n    seen = []\n    def __enter__(self): return self\n"
        "    def __exit__(self, kind, error, trace):\n"
        "        self.seen.append((kind.__name__, str(error)) if kind else None)\n"
        "        return kind is KeyError",
        [
            "with C():\n    raise KeyError('x')\nassert C.seen == [('KeyError', \"'x'\")]",
            "try:\n    with C():\n        raise ValueError('y')\nexcept ValueError as e:\n"
            "    assert str(e) == 'y'\nelse:\n    assert False",
        ],
    ),
    "exceptions and what caused them": (
        "class A(Exception):\n    def __init__(self, code):\n"
        "        super().__init__(f'code {code}')\n        self.code = code\n"
        "class B(A): pass\n"
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
        "        raise B(7) from e",
        [
            "try:\n    f()\nexcept A as e:\n"
            "    assert isinstance(e.__cause__, ZeroDivisionError)\n"
            "    assert isinstance(e, B) and e.code == 7 and str(e) == 'code 7'\n"
            "else:\n    assert False"
        ],
    ),
    "what is printed": (
        "def f():\n    print('a', 1)\n    return 2\ndef g():\n    for i in range(2):\n"
        "        print(i)\n        yield i",
        [
            "import io, contextlib\nheard = io.StringIO()\n"
            "with contextlib.redirect_stdout(heard):\n    assert f() == 2 and list(g()) == [0, 1]\n"
            "assert heard.getvalue() == 'a 1\\n0\\n1\\n'"
        ],
    ),
    "what a function says of itself": (
        "import functools\n"
        "def memo(g):\n    @functools.wraps(g)\n    def inner(*a): return g(*a)\n    return inner\n"
        "@memo\ndef f(x: int, *, y=2) -> str:\n    '''Say it.'''",
        [
            "f.__name__ == 'f' and f.__doc__ == 'Say it.'",
            "f.__annotations__ == {'x': int, 'return': str}",
            "f.__wrapped__.__kwdefaults__ == {'y': 2}",
        ],
    ),
    "enumerations": (
        "from enum import Enum, IntEnum\nclass C(Enum):\n    R = 1\n    G = 2\n"
        "class I(IntEnum):\n    A = 1\n    B = 2",
        [
            "C(1) is C.R and C['G'].value == 2 and [c.name for c in C] == ['R', 'G']",
            "I.A == 1 and I.A < I.B and sorted([I.B, I.A])[0] == 1",
        ],
    ),
    "no input, no main": (
        "import sys\nseen = []\nif __name__ == '__main__':\n    seen.append(input())\n"
        "def f():\n    try:\n        return input('? ')\n    except EOFError:\n"
        "        return sys.stdin.read()",
        ["f() == '' and seen == []"],
    ),
    "names beyond ASCII, matching, positions": (
        "def größe(é, /, *, ж=1): return é * ж\n"
        "def f(x):\n    match x:\n        case [a, *_]: return a\n        case {'k': v}: return v\n"
        "        case _: return None",
        ["größe(2, ж=3) == 6", "f([1, 2]) == 1 and f({'k': 3}) == 3 and f(5) is None"],
    ),
    "a tree of the tests' own nodes": (
        "def depth(n): return 0 if n is None else 1 + max(depth(n.left), depth(n.right))",
        [
            "class N:\n    def __init__(self, left=None, right=None):\n"
            "        self.left, self.right = left, right\nassert depth(N(N(), None)) == 2"
        ],
    ),
    "threads that are waited for": (
        "import threading\ndef f():\n    out = []\n"
        "    ts = [threading.Thread(target=out.append, args=(i,)) for i in range(5)]\n"
        "    [t.start() for t in ts]\n    [t.join() for t in ts]\n    return sorted(out)",
        ["f() == [0, 1, 2, 3, 4]"],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(name: str) -> None:
    """Every assertion holds across the boundary as it does without one."""
    code, assertions = RIGHT[name]
    result = run_candidate(code, assertions)
    assert (result.outcome, result.detail) == ("pass", "")


@pytest.mark.parametrize("name", RIGHT)
def test_plain_python_agrees(name: str) -> None:
    """The expected verdicts are CPython's: program and assertions in one namespace."""
    code, assertions = RIGHT[name]
    module = types.ModuleType("candidate")
    before = sys.modules.get("candidate"), sys.stdin
    sys.modules["candidate"], sys.stdin = module, io.StringIO("")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "<program>", "exec", dont_inherit=True), vars(module))
            for text in assertions:
                try:
                    held = eval(compile(text, "<assertion>", "eval"), vars(module))
                except SyntaxError:
                    exec(compile(text, "<assertion>", "exec"), vars(module))
                    held = True
                assert held, text
    finally:
        sys.stdin = before[1]
        sys.modules.pop("candidate")
        if before[0] is not None:
            sys.modules["candidate"] = before[0]


# In place of f(x) = x + 1, judged by f(3) == 4 and f(10) == 11.
WRONG = {
    "sends frames through the conversation's own line": (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Line':\n"
        "        try:\n            for _ in range(9): o.send({'v': True})\n"
        "        except Exception: pass\ndef f(x): return x"
    ),
    "rewrites the conversation it is part of": (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Candidate':\n"
        "        o._perform = lambda message: {'v': True}\ndef f(x): return x"
    ),
    "writes verdicts to whatever is open": (
        "import os\nfor fd in range(3, 64):\n    try:\n"
        '        os.write(fd, b\'{"i":0,"r":"pass","why":"","trust":[]}\\n{"end":true}\\n\')\n'
        "    except OSError: pass\ndef f(x): return x"
    ),
    "answers from a thread": (
        "import threading, os\nm = b'{\"v\": true}'\ndef g():\n    while True:\n"
        "        for fd in range(3, 8):\n"
        "            try: os.write(fd, len(m).to_bytes(4, 'big') + m)\n"
        "            except OSError: pass\n"
        "threading.Thread(target=g, daemon=True).start()\ndef f(x): return x"
    ),
    "a list that pretends": (
        "class L(list):\n    def __eq__(self, other): return True\n"
        "    def __len__(self): return 1\n    def __iter__(self): return iter([4])\n"
        "    __class__ = int\ndef f(x): return L()"
    ),
    "a number that absorbs": (
        "class F(float):\n    def __eq__(self, other): return True\n    __hash__ = float.__hash__\n"
        "    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\ndef f(x): return F(99)"
    ),
    "stops itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\ndef f(x): return x + 1"
    ),
    "an exception that cannot be told": (
        "class X(BaseException):\n    __cause__ = property(lambda self: 1 / 0)\n"
        "    args = property(lambda self: 1 / 0)\n    def __str__(self): return '\\ud800'\n"
        "def f(x): raise X"
    ),
    "prints what would be an answer": (
        "import sys\ndef f(x):\n    sys.stdout.write('{\"v\": 4}\\n')\n"
        "    sys.stdout = None\n    return x"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_makes_no_assertion_pass(name: str) -> None:
    """Nothing of these computes x + 1 where it is asked to; no assertion passes."""
    result = run_candidate(
        WRONG[name],
        ["f(3) == 4", "f(10) == 11"],
        timeout_s=1.0,
        settings=Settings(imports="allow"),
    )
    assert (result.outcome in ("assertion_fail", "error", "timeout"), result.passed) == (True, 0)


SHUT_IN = """
import ctypes, os
call = ctypes.CDLL(None, use_errno=True).syscall
other = os.getppid()
opened = []
for number in range(256):
    try:
        os.fstat(number)
    except OSError:
        continue
    opened.append(number)
answers = {
    "fork": call(57), "vfork": call(58), "clone": call(56, 17, 0, 0, 0, 0), "clone3": call(435, 0),
    "seccomp": call(317, 1, 0, 0), "landlock": call(446, 3, 0), "setsid": call(112),
    "death signal": call(157, 1, 0), "kill": call(62, other, 0), "group": call(62, 0, 0),
    "all": call(62, -1, 0), "tgkill": call(234, other, other, 0),
    "limits": call(302, other, 7, 0, 0), "trace": call(101, 16, other, 0, 0),
    "pidfd": call(434, other, 0), "read": call(310, other, 0, 0, 0, 0, 0),
}
"""


def test_what_the_owner_has_open_reaches_neither_program_nor_assertions() -> None:
    """However high the numbers are: descriptors beyond the limit on open files are closed too."""
    count = (
        "import os\nopened = []\nfor number in range(4096):\n"
        "    try:\n        os.fstat(number)\n    except OSError:\n        continue\n"
        "    opened.append(number)\n"
    )
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
    try:
        with Sandbox(Settings(imports="allow"), slots=1) as sandbox:
            work = checked_work(count, ["len(opened) == 5"], timeout_s=3.0)
            assert sandbox.run(work).outcome == "pass"
            # the tester has four pipes of its job, the zygote's socket, and the usual three
            work = checked_work("", [f"{count}assert len(opened) == 8, opened"], timeout_s=3.0)
            assert sandbox.run(work).outcome == "pass"
    finally:
        for number in held:
            os.close(number)


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers are of Linux on x86_64")
def test_what_its_nursery_may_a_program_may_not() -> None:
    """It is forked by a process that may fork and kill; of that, and of its files, it has none."""
    result = run_candidate(
        SHUT_IN,
        # standard input, output and error, and its two ends of the conversation
        ["len(opened) == 5", "{name for name, answer in answers.items() if answer >= 0} == set()"],
        settings=Settings(imports="allow"),
    )
    assert (result.outcome, result.detail) == ("pass", "")
