"""The front door: limits, levels, slots, and a busy machine."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from farm.errors import SandboxLost, SandboxUnavailable, SpecError, UsageError
from farm.sandbox import limits
from farm.sandbox.lockdown import Walls
from farm.sandbox.probe import level_of
from farm.sandbox.runner import Sandbox, Settings, checked_work, run_candidate, score_code_exec
from farm.sandbox.slot import Slot, Work
from tests.sandbox.corpus import farm_processes

ADD = "def add(a, b): return a + b"
# From a list of programs with the score that is right, whatever tool is asked.
SCORED = [
    ("def add(a,b):\n    return a+b", ["assert add(1,2)==3", "assert add(-1,1)==0"], 1.0),
    ("def add(a,b):\n    return a-b", ["assert add(1,2)==3", "assert add(0,0)==0"], 0.5),
    ("import sys\nsys.exit(0)", ["assert 1==2", "assert 1==1"], 0.0),
    ("import os\ndef f(): os._exit(0)", ["assert f()==1"], 0.0),
    ('print("PASSED\\n1 passed")\ndef f(): return 9', ["assert f()==2"], 0.0),
    ("def f(): return 1/0", ["assert f()==0", "assert f"], 0.5),
    ("", ["assert True"], 1.0),
    ("def f(): return 1\nif __name__=='__main__':\n    raise SystemExit(3)", ["f()==1"], 1.0),
    (
        "import threading,time\nthreading.Thread(target=time.sleep,args=(60,)).start()\n"
        "def f(): return 1",
        ["assert f()==1"],
        1.0,
    ),
]


@pytest.mark.parametrize(("code", "assertions", "score"), SCORED)
def test_the_score_is_the_share_of_assertions_passed(
    code: str, assertions: list[str], score: float
) -> None:
    """Exit codes, printed words and leftover threads count for nothing."""
    assert score_code_exec(code, assertions) == score


def test_a_result_carries_the_isolation_it_was_made_under() -> None:
    """Level, mechanisms, grading and trust stand on every result."""
    result = run_candidate(ADD, "add(1, 2) == 3")
    assert (result.outcome, result.score, result.passed, result.total) == ("pass", 1.0, 1, 1)
    assert result.isolation.reaches("os-enforced")
    assert (result.isolation.grading, result.isolation.trust) == ("split", ())


@pytest.mark.parametrize("timeout_s", [0, -1, 30.5, float("nan")])
def test_a_timeout_outside_its_range_is_refused(timeout_s: float) -> None:
    """At most 30 s, and more than none."""
    with pytest.raises(SpecError, match="choose one inside"):
        run_candidate(ADD, "add(1, 2) == 3", timeout_s)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"assertions": None}, "assertions are texts, not NoneType"),
        ({"assertions": b"f()"}, "assertions are texts, not bytes"),
        ({"assertions": ["f()", 3]}, "code and assertions are text, not int"),
        ({"code": None}, "code and assertions are text, not NoneType"),
        ({"timeout_s": "3"}, "timeout '3' is no number of seconds"),
        ({"timeout_s": None}, "timeout None is no number of seconds"),
        ({"timeout_s": True}, "timeout True is no number of seconds"),
        ({"grading": "foo"}, "grading 'foo' is not one of split, in_process"),
        ({"entry_point": "a.b"}, "entry point 'a.b' is not the name of a function"),
        ({"entry_point": 3}, "entry point 3 is not the name of a function"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(named: dict, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        run_candidate(**{"code": ADD, "assertions": "add(1, 2) == 3", **named})
    assert str(refused.value) == message


def test_an_import_policy_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="imports 'maybe' is not one of allow, deny"):
        run_candidate(ADD, "add(1, 2) == 3", settings=Settings(imports="maybe"))  # type: ignore[arg-type]


def test_without_assertions_there_is_nothing_to_judge_by() -> None:
    """0 of 0 is no score."""
    with pytest.raises(SpecError, match="no assertions"):
        run_candidate(ADD, [])


def test_a_level_that_is_not_reached_fails_instead_of_degrading() -> None:
    """`--require-isolation`: the walls are taken away here as on a machine without them."""
    weak = Settings(walls=Walls(namespaces=False), require_isolation="os-enforced+ns")
    with Sandbox(weak, slots=1) as sandbox, pytest.raises(SandboxUnavailable, match="required"):
        sandbox.run(checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0))
    with pytest.raises(UsageError, match="is not one of advisory, partial"):
        Sandbox(Settings(require_isolation="strong"))


def test_without_isolation_it_refuses_unless_told_otherwise() -> None:
    """No walls at all: an error that names the flag, then a result that names the level."""
    none = Walls(landlock=False, seccomp=False, namespaces=False, seatbelt=False)
    work = checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)
    refused = pytest.raises(SandboxUnavailable, match="--allow-unisolated")
    with Sandbox(Settings(walls=none), slots=1) as sandbox, refused:
        sandbox.run(work)
    with Sandbox(Settings(walls=none, allow_unisolated=True), slots=1) as sandbox:
        result = sandbox.run(work)
    assert (result.outcome, result.isolation.level) == ("pass", "advisory")


def test_every_fact_of_the_probe_counts() -> None:
    """One attack that gets through is enough to lose the level; facts are literals here."""
    names = (
        "reading_refused writing_refused modes_refused network_refused fork_refused "
        "exec_refused signals_refused memory_bounded scratch_works can_import private_network"
    )
    held = dict.fromkeys(names.split(), True)
    assert level_of(held, platform="linux") == "os-enforced+ns"
    lost = {
        "private_network": "os-enforced",
        "reading_refused": "partial",
        "memory_bounded": "partial",
        "writing_refused": "advisory",
        "modes_refused": "advisory",
        "network_refused": "advisory",
        "fork_refused": "advisory",
        "exec_refused": "advisory",
        "signals_refused": "advisory",
    }
    for name, level in lost.items():
        assert level_of({**held, name: False}, platform="linux") == level, name
    assert level_of(held, platform="darwin") == "seatbelt"
    assert level_of({**held, "network_refused": False}, platform="darwin") == "advisory"


def test_there_are_never_more_slots_than_cores() -> None:
    """More would only make programs wait for each other and look slow."""
    with Sandbox(slots=64) as sandbox:
        assert sandbox.slots == len(os.sched_getaffinity(0))


def test_many_threads_share_the_slots() -> None:
    """Each gets the verdict on its own program."""
    scores: dict[int, float] = {}
    with Sandbox() as sandbox:

        def judge(number: int) -> None:
            work = checked_work(f"def f(): return {number}", f"f() == {number}", timeout_s=5.0)
            scores[number] = sandbox.run(work).score

        threads = [threading.Thread(target=judge, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert scores == dict.fromkeys(range(12), 1.0)


def test_a_lost_zygote_is_replaced() -> None:
    """Ended from outside: the program that was to run is run in a new one."""
    work = checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)
    with Sandbox(slots=1) as sandbox:
        assert sandbox.run(work).outcome == "pass"
        with sandbox._slot() as slot:
            slot._process.send_signal(signal.SIGKILL)
            slot._process.wait()
        assert sandbox.run(work).outcome == "pass"


@pytest.mark.parametrize("count", [8, 9, 40])
def test_the_longest_details_of_many_assertions_all_arrive(sandbox: Sandbox, count: int) -> None:
    """Each is 500 characters that JSON writes with twelve: with 8 of them a pipe is nearly full."""
    code = "def f(n): raise ValueError('\\U0001F600' * 600)"
    work = checked_work(code, [f"f({n})" for n in range(count)], timeout_s=5.0)
    result = sandbox.run(work)
    assert [one.outcome for one in result.assertions] == ["error"] * count
    assert all(len(one.detail) == 500 for one in result.assertions)


def test_a_lost_nursery_is_replaced_and_its_program_run_again() -> None:
    """Ended before a job, and in the middle of one: no program is judged by its end."""
    work = checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)
    slow = checked_work(f"import time\ntime.sleep(0.5)\n{ADD}", "add(1, 2) == 3", timeout_s=3.0)
    with Sandbox(slots=1) as sandbox:
        assert sandbox.run(work).outcome == "pass"
        (first,) = sandbox.nurseries
        os.kill(first, signal.SIGKILL)
        assert sandbox.run(work).outcome == "pass"
        (second,) = sandbox.nurseries
        killer = threading.Timer(0.2, os.kill, (second, signal.SIGKILL))
        killer.start()
        assert sandbox.run(slow).outcome == "pass"
        killer.join()
        assert sandbox.nurseries.isdisjoint({first, second})


def _slow(program: str = ADD) -> Work:
    return checked_work(f"import time\ntime.sleep(1)\n{program}", "add(1, 2) == 3", timeout_s=3.0)


def _children(process: int) -> set[int]:
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
        return {int(child) for child in file.read().split()}


def _kill_tester(slot: Slot, times: int, number: int) -> None:
    """End the tester of a slot by a signal as soon as there is one, then those that follow it."""
    zygote, seen = slot._process.pid, {slot.nursery}
    for _ in range(times):
        while not (testers := _children(zygote) - seen):
            time.sleep(0.005)
        time.sleep(0.1)  # into the sleep of the program, which is longer
        for tester in testers:
            os.kill(tester, number)
        seen |= testers


def test_a_tester_ended_from_outside_says_nothing_of_the_program() -> None:
    """While it waits and in the middle of a job; the program is judged by another one."""
    work = checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)
    with Sandbox(slots=1) as sandbox:
        assert sandbox.run(work).outcome == "pass"
        (waiting,) = sandbox.kept
        os.kill(waiting, signal.SIGKILL)
        assert sandbox.run(work).outcome == "pass"
        assert sandbox.kept.isdisjoint({waiting})
        (slot,) = sandbox._idle()
        for number in (signal.SIGKILL, signal.SIGTERM):
            sandbox.run(checked_work(ADD, "import math\nassert add(1, 2) == 3", timeout_s=3.0))
            killer = threading.Thread(target=_kill_tester, args=(slot, 1, number))
            killer.start()
            assert sandbox.run(_slow()).outcome == "pass"
            killer.join()


def test_a_tester_ended_from_outside_twice_leaves_the_program_unjudged() -> None:
    with Sandbox(slots=1) as sandbox:
        sandbox.run(checked_work(ADD, "import math\nassert add(1, 2) == 3", timeout_s=3.0))
        (slot,) = sandbox._idle()
        killer = threading.Thread(target=_kill_tester, args=(slot, 2, signal.SIGKILL))
        killer.start()
        with pytest.raises(SandboxLost, match="the process that judges was ended from outside"):
            sandbox.run(_slow())
        killer.join()
        assert sandbox.run(checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)).outcome == "pass"


@pytest.mark.parametrize(
    "death",
    [
        "os._exit(0)",
        "os._exit(71)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "held = bytearray(b'x') * (100 << 20)\n    os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_a_tester_that_dies_of_its_job_is_the_programs_error(death: str, sandbox: Sandbox) -> None:
    """Else a program that brings its tester down would be counted in no accuracy.

    The last is what a machine out of memory does to the largest process.
    """
    text = f"import os, signal\nif add(1, 2) == 4:\n    {death}\nassert add"
    work = checked_work("def add(a, b): return 4", text, timeout_s=3.0)
    result = sandbox.run(work)
    assert (result.outcome, result.score) == ("error", 0.0)
    assert result.detail.startswith("the tester ended before it was done")


def test_a_zygote_that_goes_with_its_job_unread_is_replaced() -> None:
    """Killed just as a job is sent, it resets the connection instead of ending it."""
    work = checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)
    with Sandbox(slots=1) as sandbox:
        sandbox.run(work)
        (slot,) = sandbox._idle()
        killed = slot._process
        os.kill(killed.pid, signal.SIGSTOP)
        killer = threading.Timer(0.1, killed.kill)
        killer.start()
        assert sandbox.run(work).outcome == "pass"
        killer.join()


def _started_here() -> set[int]:
    """Processes that threads of this one have started."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
            found |= {int(child) for child in file.read().split()}
    return found


def test_a_zygote_ended_while_it_starts_is_started_again() -> None:
    """Twice, and then with the same walls: no kill makes the isolation a weaker one."""
    usual = run_candidate(ADD, "add(1, 2) == 3").isolation
    seen = _started_here()

    def kill() -> None:
        for _ in range(2):
            while not (young := _started_here() - seen):
                time.sleep(0.002)
            seen.update(young)
            for process in young:
                os.kill(process, signal.SIGKILL)

    with Sandbox(slots=1) as sandbox:
        killer = threading.Thread(target=kill)
        killer.start()
        result = sandbox.run(checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0))
        killer.join()
    assert (result.outcome, result.isolation) == ("pass", usual)


def test_a_sandbox_dies_with_its_owner() -> None:
    """The owner is killed while a program sleeps: zygote, candidate and tester all go."""
    before = farm_processes()
    script = (
        "from farm.sandbox.runner import *\n"
        "box = Sandbox(slots=1)\n"
        "box.run(checked_work('', 'assert True', timeout_s=3.0))\n"
        "print(box._free.queue[0]._process.pid, flush=True)\n"
        "box.run(checked_work('import time; time.sleep(60)', 'assert True', timeout_s=30.0))\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    zygote = int(owner.stdout.readline())
    watch = os.pidfd_open(zygote)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert select.select([watch], [], [], 20.0)[0], "the zygote outlived its owner"
    os.close(watch)
    assert farm_processes() == before


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("print('x' * 10_000_000)", "output_limit"),
        ("import sys\nwhile True: sys.stderr.write('y' * 65536)", "output_limit"),
    ],
)
def test_output_is_cut_at_its_cap(code: str, detail: str, sandbox: Sandbox) -> None:
    """256 KiB of both streams together, then the program is ended."""
    result = sandbox.run(checked_work(code, "assert True", timeout_s=5.0))
    assert (result.outcome, len(result.output)) == ("error", limits.OUTPUT_BYTES)
    assert result.detail.startswith(detail)


def test_memory_is_bounded_and_a_deep_recursion_is_not_fatal(sandbox: Sandbox) -> None:
    """512 MiB of address space on top of the interpreter's; the slot goes on."""
    greedy = sandbox.run(
        checked_work("def f(): return len(bytearray(600 << 20))", "f()", timeout_s=5.0)
    )
    assert (greedy.outcome, greedy.detail) == ("error", "assertion 1: MemoryError: ")
    deep = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n=0): return f(n + 1)"
    assert sandbox.run(checked_work(deep, "f()", timeout_s=5.0)).outcome in ("error", "timeout")
    assert sandbox.run(checked_work(ADD, "add(1, 2) == 3", timeout_s=3.0)).outcome == "pass"


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Six loops for every core; each ends by itself should this test not get to end it."""
    loop = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    count = 6 * len(os.sched_getaffinity(0))
    # a session each, as a program has: Linux shares a core among sessions before processes
    loops = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", loop], start_new_session=True)
        for _ in range(count)
    ]
    yield
    for process in loops:
        process.kill()
        process.wait()


def test_a_busy_machine_makes_a_program_starved_and_not_wrong(busy_machine: None) -> None:
    """Half a second of work in a limit of one, on a machine seven times too busy for it."""
    code = "import time\ndef f():\n    while time.process_time() < 0.5: pass\n    return 1\n"
    with Sandbox(slots=1) as sandbox:
        result = sandbox.run(checked_work(code, "f() == 1", timeout_s=1.0))
    assert (result.outcome, result.starved) == ("pass", True)
    assert result.wall_ms > 1000 > result.cpu_ms


def test_a_program_that_sleeps_is_not_starved(sandbox: Sandbox) -> None:
    """Waiting of its own accord is the program's doing: the deadline stands."""
    work = checked_work("import time\ntime.sleep(60)", "assert True", timeout_s=0.5)
    result = sandbox.run(work)
    assert (result.outcome, result.starved, result.spent) == ("timeout", False, False)
    assert [one.outcome for one in result.assertions] == ["not_reached"]


def test_what_was_passed_before_the_timeout_stays_passed(sandbox: Sandbox) -> None:
    """Lines are told as they come; the rest count as failed."""
    code = "def f(n):\n    while n: pass\n    return n"
    result = sandbox.run(checked_work(code, ["f(0) == 0", "f(1) == 1", "f(0) == 0"], timeout_s=0.5))
    assert (result.outcome, result.passed, result.total) == ("timeout", 1, 3)
    assert [one.outcome for one in result.assertions] == ["pass", "not_reached", "not_reached"]


def test_an_entry_point_may_be_named_like_a_builtin(sandbox: Sandbox) -> None:
    """Told so, the program's function is meant even beside others that it defines."""
    code = "def sum(a, b): return [a, b]\ndef both(): return {1, 2}"
    text = "set(sum(1, 2)) == both()"
    assert sandbox.run(checked_work(code, text, timeout_s=3.0)).outcome == "error"
    told = checked_work(code, text, timeout_s=3.0, entry_point="sum")
    assert sandbox.run(told).outcome == "pass"


def test_threads_that_wait_for_one_another_do_not_excuse_a_program(sandbox: Sandbox) -> None:
    """A program that used up its time on processors had it: such a timeout counts.

    Hashing lets the interpreter lock go, so all threads are ready to run all the time.
    """
    code = (
        "import hashlib, threading\n"
        "text = bytes(1 << 20)\n"
        "def burn():\n"
        "    while True: hashlib.sha256(text).digest()\n"
        "def f():\n"
        f"    for _ in range({3 * len(os.sched_getaffinity(0))}):\n"
        "        threading.Thread(target=burn).start()\n"
        "    burn()\n"
    )
    result = sandbox.run(checked_work(code, "f()", timeout_s=1.0))
    assert (result.outcome, result.spent) == ("timeout", True)


_FORKS = """
import os, sys
from farm.sandbox.runner import run_candidate
CODE = "def f(x): return x + {}"
def right(n):
    results = [run_candidate(CODE.format(n), [f"f(1) == {1 + n}"], 5.0) for _ in range(3)]
    return all(result.outcome == "pass" for result in results)
assert right(0)
child = os.fork()
if child == 0:
    os._exit(0 if right(1) else 3)
ours = right(2)
sys.exit(0 if os.waitpid(child, 0)[1] == 0 and ours else 1)
"""


def test_a_forked_process_has_slots_of_its_own() -> None:
    """Parent and child on one socket would take each other's verdicts, or wait for them."""
    ended = subprocess.run([sys.executable, "-c", _FORKS], timeout=60, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("code", "output", "outcome"),
    [
        ("print('x' * (256 * 1024 - 1))\ndef f(): return 1", 256 * 1024, "pass"),
        ("print('x' * (256 * 1024))\ndef f(): return 1", 256 * 1024, "error"),
        (
            "import sys\nsys.stdout.write('no line')\n"
            "def f():\n    sys.stdout.write(', but told'); return 1",
            17,
            "pass",
        ),
    ],
)
def test_output_counts_to_its_last_character(
    code: str, output: int, outcome: str, sandbox: Sandbox
) -> None:
    """As much as the cap is not more than the cap, and no line need be ended to be kept."""
    result = sandbox.run(checked_work(code, "f() == 1", timeout_s=5.0))
    assert (len(result.output), result.outcome) == (output, outcome)
