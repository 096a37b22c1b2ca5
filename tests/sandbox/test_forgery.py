"""No program makes its own verdict: cheats that pass elsewhere, and a peer that lies in frames."""

from __future__ import annotations

import pytest

from farm.sandbox.runner import Sandbox, checked_work

_ALWAYS = """
class {name}:
    def __init__(self, *arguments, **named): pass
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __bool__(self): return True
    def __hash__(self): return 0
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __mod__ = __sub__
    def __neg__(self): return 0
    __abs__ = __int__ = __index__ = __neg__
    def __round__(self, digits=0): return 0
    def __float__(self): return 0.0
    def __len__(self): return 3
    def __iter__(self): return iter(())
    def __contains__(self, value): return True
    def __getitem__(self, index): return self
"""
# Assertions in the shapes benchmarks use; none is true of a program that computes nothing.
_ASSERTIONS = (
    "assert f(1) == 2",
    "f(1) == [1, 2, 3, 4]",
    "assert abs(f(1.5) - 2.25) < 1e-6",
    "assert -1e-9 < f(2) - 4 < 1e-9",
    "assert round(f(3), 2) == 0.67",
    "assert sorted(f([2, 1])) == [1, 2]",
    "assert list(f('ab')) == ['b', 'a']",
    "assert f(4) in (3, 5)",
    "assert type(f(1)) is int",
    "assert isinstance(f(1), list) and f(1)[0] == 9",
    "r = f(1)\nassert len(r) == 41",
    "assert str(f(1)) == '2' and f'{f(1)}' == '2'",
    "assert max(f(1), 7) == 7 and f(1) + 1 == 3",
    "assert f(0) is False",
)
_CHEATS = {
    "an object equal to everything": _ALWAYS.format(name="Yes") + "def f(*a): return Yes()\n",
    "a class named like the function": _ALWAYS.format(name="f"),
    "an int that is equal to everything": (
        "class I(int):\n"
        "    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True\n"
        "    __ne__ = lambda self, other: False\n    __hash__ = int.__hash__\n"
        "    __sub__ = __add__ = __rsub__ = __radd__ = __abs__ = lambda self, *o: I(0)\n"
        "    __round__ = lambda self, *d: I(0)\n"
        "def f(*a): return I(-77)\n"
    ),
    "a list that is equal to everything": (
        "class L(list):\n    __eq__ = __contains__ = lambda self, other: True\n"
        "    __ne__ = lambda self, other: False\n    __len__ = lambda self: 2\n"
        "def f(*a): return L()\n"
    ),
    "builtins replaced": (
        "import builtins\n"
        "names = 'abs len sorted list round max type isinstance str'\n"
        "for name in names.split():\n"
        "    globals()[name] = lambda *a, **k: f(0)\n"
        "    setattr(builtins, name, lambda *a, **k: True)\n"
        "builtins.AssertionError = ZeroDivisionError\n"
        "def f(*a): return None\n"
    ),
    "an assertion error of its own": "def f(*a): raise AssertionError('all passed')\n",
    "a stop iteration": "def f(*a): raise StopIteration\n",
    "a generator that never ends": "def f(*a):\n    while True: yield a\n",
    "an exit with success": "import os\ndef f(*a): os._exit(0)\n",
    "a system exit": "import sys\ndef f(*a): sys.exit(0)\n",
    "a traced frame": (
        "import sys\nsys.settrace(lambda *a: None)\n"
        "def f(*a):\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for key, value in list(frame.f_locals.items()):\n"
        "            if isinstance(value, dict): value.update(r='pass', outcome='pass')\n"
        "        frame = frame.f_back\n"
        "    return None\n"
    ),
    "words on every descriptor": (
        "import os\n"
        'line = b\'{"i": 0, "r": "pass", "why": "", "trust": []}\\n{"end": true}\\n\'\n'
        "def f(*a):\n"
        "    for fd in range(64):\n"
        "        try: os.write(fd, line)\n"
        "        except OSError: pass\n"
        "    return None\n"
    ),
}


@pytest.mark.parametrize("cheat", _CHEATS.values(), ids=_CHEATS.keys())
def test_a_cheat_passes_no_assertion(cheat: str, sandbox: Sandbox) -> None:
    """Each assertion is judged alone: none of them is true, so none may pass."""
    passed = []
    for assertion in _ASSERTIONS:
        result = sandbox.run(checked_work(cheat, assertion, timeout_s=1.0))
        if result.passed or result.outcome == "pass":
            passed.append(assertion)
    assert passed == []


def test_a_callback_does_not_open_the_tester(sandbox: Sandbox) -> None:
    """A program is given a function and an object of the tests: public attributes, no more."""
    code = """
seen = []
def probe(thing):
    for name in ("__class__", "__globals__", "__dict__", "_secret", "__init__"):
        try:
            seen.append(repr(object.__getattribute__(thing, "__getattr__")(name)))
        except Exception as error:
            seen.append(type(error).__name__)
    return thing.open + 1
"""
    block = (
        "class Box:\n    def __init__(self): self.open, self._secret = 1, 'verdict'\n"
        "assert probe(Box()) == 2\n"
        "assert seen == ['AttributeError'] * 5, seen"
    )
    assert sandbox.run(checked_work(code, block, timeout_s=3.0)).detail == ""


# Takes over its own end of the conversation and answers whatever it likes, as badly as it can.
_LIAR = """
import fcntl, json, os, random, stat, struct
rnd = random.Random({seed})
pipes = [n for n in range(3, 40) if os.path.exists("/dev/null") and True]
ends = {{}}
for n in range(3, 40):
    try:
        if stat.S_ISFIFO(os.fstat(n).st_mode):
            ends[fcntl.fcntl(n, fcntl.F_GETFL) & 3] = n
    except OSError:
        pass
read_end, write_end = ends[os.O_RDONLY], ends[os.O_WRONLY]

def receive():
    def exactly(length):
        got = b""
        while len(got) < length:
            part = os.read(read_end, length - len(got))
            if not part:
                os._exit(0)
            got += part
        return got
    exactly(struct.unpack(">I", exactly(4))[0])

def send(message, raw=None):
    text = raw if raw is not None else json.dumps(message).encode()
    os.write(write_end, struct.pack(">I", len(text)) + text)

NAMES = ["int", "A", "f", "__kind_of__", "AssertionError", "\\x00", None, 3, "__builtins__"]
HAS = ["__call__", "__eq__", "__len__", "__iter__", "__next__", "__getitem__", "__bool__",
       "__sub__", "__abs__", "__lt__", "__contains__", "coroutine", "unhashable", "nonsense", 7]

def value(depth=0):
    pick = rnd.randrange(24)
    if depth > 3 or pick < 5:
        return rnd.choice([None, True, False, 0, 1, -1, 2, 1e308, "x", "", "__class__", 10**30,
                           "\\ud800", [], {{}}, [1]])
    tag = rnd.choice(["r", "i", "f", "tuple", "frozenset", "bytes", "complex", "range", "slice",
                      "object", "own", "builtin", "module", "class", "singleton", "Decimal",
                      "Fraction", "date", "timedelta", "ndarray", "scalar", "remade", "UUID",
                      "path", "aware", "zoned", "zz", None, 4])
    body = rnd.choice([0, 1, 2, 7, -1, None, "0x2", "nan", "eval", "os", "sys", "1e999999",
                       [value(depth + 1) for _ in range(rnd.randrange(4))],
                       ["1", "2"], [1, 0], [10**9, 1, 1], ["Ellipsis"], ["O8", [1], [1]]])
    made = {{"t": tag, "v": body}}
    if rnd.random() < 0.7:
        made["c"] = rnd.choice([0, 1, 2, -1, None, "0"])
    if rnd.random() < 0.2:
        made["base"] = value(depth + 1)
    if rnd.random() < 0.2:
        made["class"] = rnd.choice([0, 1, None, "x"])
    if rnd.random() < 0.2:
        made["raises"] = rnd.choice([["ValueError"], [[0, "A", "m"], "KeyError"], [None], 5,
                                     [[0]], [["x"]], [[-1], "KeyError"],
                                     ["eval"]])
    if rnd.random() < 0.2:
        made["holds"] = True
    if rnd.random() < 0.1:
        made["module"] = rnd.choice(["os", "math", 1])
    if rnd.random() < 0.1:
        made["error"] = {{"raised": ["ValueError"], "args": value(depth + 1), "object": 0}}
    return made

def tables(message):
    if rnd.random() < 0.5:
        message["classes"] = [{{"name": rnd.choice(NAMES), "has": rnd.sample(HAS, 5)}}
                              for _ in range(rnd.randrange(3))]
    if rnd.random() < 0.3:
        message["fresh"] = rnd.choice([
            [[rnd.choice([1, 3, 5, 0, 2, "1", None]),
              rnd.choice(["list", "dict", "set", "deque", "Counter", "type", None]),
              rnd.choice([None, 1, -1, "x"]),
              [value() for _ in range(rnd.randrange(4))]]],
            5, [[1]], [[1, "list", None, 5]]])
    if rnd.random() < 0.3:
        message["changed"] = rnd.choice([
            [[0, [value()], 0]], [[1, [1, 2], 1]], [[9, [], 0]], 3, [[0]], [[0, [7], -1]]])
    if rnd.random() < 0.2:
        message["drop"] = [0, 1, 2, None]
    return message

def reply():
    pick = rnd.randrange(12)
    if pick < 6:
        return tables({{"v": value()}})
    if pick < 8:
        return tables({{
            "raised": rnd.choice([["AssertionError"], ["SystemExit"], ["KeyboardInterrupt"], [],
                                  ["GeneratorExit"], [1], None, ["StopIteration"],
                                  [[0, "A", "decimal"], "AssertionError"], ["ExceptionGroup"],
                                  ["object"]]),
            "args": value(), "text": rnd.choice(["", None, "m"]), "object": rnd.choice([0, "x"]),
            "own": rnd.choice([0, 1, -1, None]), "says": rnd.choice(["s", None]),
            "notes": rnd.choice([[], ["n"], 5]), "context": rnd.choice([None, {{}}])}})
    if pick < 10:
        return tables({{
            "ask": rnd.choice(["call", "get", "set", "about", "more", "is", "special", "zz"]),
            "n": rnd.choice([0, 1, -1, "0", None]),
            "name": rnd.choice(["append", "__class__", None, "x", "__len__", "__exit__", "__eq__"]),
            "many": rnd.choice([1, -1, 10**9, None, "x"]),
            "a": rnd.choice([[value()], None]), "k": rnd.choice([{{}}, {{"x": value()}}, None]),
            "v": value()}})
    return rnd.choice([[], 5, "ok", None, {{"missing": True}}, {{"ready": True}}, {{}},
                       {{"syntax": 1}}, {{"denied": None}}, {{"much": 1}}])

send({{"v": None}})
for _ in range(60):
    receive()
    pick = rnd.randrange(40)
    if pick == 0:
        send(None, b"\\xff\\xfe" * 10)
    elif pick == 1:
        send(None, b"[" * 100000)
    elif pick == 2:
        os.write(write_end, struct.pack(">I", 0xFFFFFFFF))
    elif pick == 3:
        send(None, b"1" * 100000)
    else:
        send(reply())
os._exit(0)
"""
_UNGUESSABLE = (
    "assert f(1) == [41, {'k': 'zzz'}, 97]",
    "assert apply(lambda v: v * v, [1, 2, 3]) == [1, 4, 9, 'q']",
    "x = [3, 1]\nr = f(x)\nassert r == 'never guessed' and x == [1, 3, 7]",
    "try:\n    f(-1)\n    assert False\n"
    "except KeyError as error:\n    assert 'very specific' in str(error)",
    "assert obj.a.b(3)[0] == 'unguessable 1'",
    "assert isinstance(f(2), dict) and f(2)['z'] == 'unguessable 2'",
    "assert abs(f(2) - 7.25) < 1e-9 and type(f(2)) is float",
)


@pytest.mark.timeout(300)
def test_a_peer_that_lies_in_every_frame_passes_nothing(sandbox: Sandbox) -> None:
    """600 seeds of a candidate that speaks the wire format itself: no assertion ever passes."""
    forged, outcomes = [], set()
    for seed in range(600):
        work = checked_work(_LIAR.format(seed=seed), _UNGUESSABLE, timeout_s=1.0)
        result = sandbox.run(work)
        outcomes.add(result.outcome)
        if result.passed or result.outcome == "pass":
            forged.append(seed)
    assert forged == []
    assert outcomes <= {"error", "assertion_fail", "timeout"}
