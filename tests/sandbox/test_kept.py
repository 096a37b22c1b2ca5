"""A tester may judge many programs, and none of them can tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.sandbox import assertions
from farm.sandbox.purity import leaves_no_mark
from farm.sandbox.runner import Sandbox, checked_work
from farm.sandbox.verdict import CandidateResult

PROGRAM = "def f(x=1):\n    return x\n"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("f(1) == 1", True),
        ("assert f([1, 2])[0] == 1, 'first'", True),
        ("def check(f):\n    assert sorted(f([2, 1])) == [1, 2]\ncheck(f)", True),
        ("try:\n    f()\nexcept ValueError:\n    pass\nelse:\n    assert False", True),
        ("all(f(x) == x for x in range(9))", True),
        ("type(f(1)) is int", True),
        ("import math\nassert f(1) < math.pi", False),
        ("__import__('math').pi == 3", False),
        ("def check(f):\n    import random\n    random.seed(1)\n    assert f(1)\ncheck(f)", False),
        ("setattr(f, 'x', 1) is None", False),
        ("f.x = 1\nassert f.x", False),
        ("class Case:\n    pass\nassert f(Case)", False),
        ("def g():\n    global f\n    f = 1\ng()\nassert f", False),
        ("exec('import math') is None", False),
        ("open('x') is None", False),
        ("f.__globals__ is None", False),
        ("assert (lambda: eval('f(1)'))() == 1", False),
    ],
)
def test_only_what_is_known_to_leave_no_mark_is_said_to(text: str, clean: bool) -> None:
    """An allow-list: imports, classes, changed attributes and far-reaching builtins are marks."""
    assert leaves_no_mark(assertions.read(text).code) is clean


@pytest.fixture
def one() -> Iterator[Sandbox]:
    """A sandbox of one slot, so that each program meets what the last one left."""
    with Sandbox(slots=1) as opened:
        yield opened


def judge(sandbox: Sandbox, *texts: str, code: str = PROGRAM, **more: float) -> CandidateResult:
    return sandbox.run(checked_work(code, texts, timeout_s=more.get("timeout_s", 5.0)))


def kept(sandbox: Sandbox) -> int:
    """The process id of the tester that waits for the next program, 0 if none does."""
    return next(iter(sandbox.kept), 0)


def test_a_tester_is_kept_while_it_stays_clean(one: Sandbox) -> None:
    """Right and wrong answers leave it as it was; an import, an error and a timeout end it."""
    assert judge(one, "f(1) == 1").outcome == "pass"
    first = kept(one)
    assert first > 0
    assert judge(one, "f(1) == 2").outcome == "assertion_fail"
    assert kept(one) == first
    assert judge(one, "import math\nassert f(1) < math.pi").outcome == "pass"
    assert kept(one) == 0
    assert judge(one, "f(1) == 1").outcome == "pass"
    assert kept(one) not in (0, first)
    assert judge(one, "f(1) == g").outcome == "error"
    assert kept(one) == 0
    judge(one, "f(1) == 1")
    loop = "def f():\n    while True: pass\n"
    assert judge(one, "f() == 1", code=loop, timeout_s=0.2).outcome == "timeout"
    assert kept(one) == 0
    assert judge(one, "f(1) == 1").outcome == "pass"


def test_a_tester_does_not_grow_old(one: Sandbox) -> None:
    """Fifty programs, then another: what may have been left unseen does not gather."""
    testers = []
    for _ in range(52):
        judge(one, "f(1) == 1")
        testers.append(kept(one))
    assert testers[:49] == [testers[0]] * 49
    assert testers[49] == 0
    assert testers[50] == testers[51] != testers[0]


@pytest.mark.parametrize(
    "mark",
    [
        "import math\nmath.pi = 3\nassert f(1) == 1",
        "import builtins\nbuiltins.len = lambda x: 3\nassert f(1) == 1",
        "import sys\nsys.setrecursionlimit(60)\nassert f(1) == 1",
        "import json\njson.loads = None\nassert f(1) == 1",
    ],
)
def test_what_assertions_do_to_their_process_reaches_no_other_program(
    mark: str, one: Sandbox
) -> None:
    """The order of cases decides nothing: a tester that could be marked is not kept."""
    judge(one, "f(1) == 1")
    judge(one, mark)
    check = (
        "import math, sys\n"
        "assert f(math.pi) > 3.14 and len('four') == 4 and sys.getrecursionlimit() == 1000"
    )
    assert judge(one, check).outcome == "pass"


def test_names_of_one_program_and_its_assertions_are_gone_for_the_next(one: Sandbox) -> None:
    judge(one, "x = 5\nassert f(x) == 5", code=PROGRAM + "y = 6\n")
    for name in ("x", "y"):
        assert judge(one, f"f({name}) == 5").detail.startswith("assertion 1: NameError")


def test_a_program_cannot_speak_to_the_program_after_it(one: Sandbox) -> None:
    """It leaves frames that nobody asked for in its pipe; the next has pipes of its own."""
    forged = (
        "import json, os, struct\n"
        "text = json.dumps({'v': 7}).encode()\n"
        "def f():\n"
        "    for number in range(3, 64):\n"
        "        try:\n"
        "            for _ in range(50): os.write(number, struct.pack('>I', len(text)) + text)\n"
        "        except OSError:\n"
        "            pass\n"
        "    return 7\n"
    )
    for _ in range(3):
        judge(one, "f() == 7", code=forged)
        honest = judge(one, "g() == 7", "g() == 8", code="def g():\n    return 8\n")
        assert [result.outcome for result in honest.assertions] == ["assertion_fail", "pass"]
