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
