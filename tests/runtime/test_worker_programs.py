"""A worker and the programs it is to run: opened late, told of, never loaded for texts."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256

import pytest
from msgspec.structs import replace

from farm.core.canonical import canonical
from farm.core.case import Case
from farm.core.message import Assignment, Batch, Message, Progressed
from farm.core.plan import ScorerName, Shard, make_plan
from farm.errors import SpecError
from farm.runtime.worker import Worker, score_shard
from farm.sandbox.runner import Sandbox
from farm.scoring.registry import scorer
from farm.store.memory import MemoryStore
from tests.examples import plan_of

CASE = Case(id="a", prompt="p", expected="f() == 1", response="def f():\n    return 1\n")


def store_of(*cases: Case) -> MemoryStore:
    """A store of one shard that is scored by running programs."""
    text = b"".join(canonical(case) + b"\n" for case in cases)
    shard = Shard(name="shard-0", cases=len(cases), sha256=sha256(text).hexdigest())
    plan = make_plan(
        identity=replace(plan_of().identity, scorer=ScorerName(name="code_exec", version="2")),
        tasks_sha256="0" * 64,
        cases=len(cases),
        shards=(shard,),
    )
    return MemoryStore(plan, cases={"shard-0": text})


BATCH = Batch(assignments=(Assignment(shard="shard-0", version=1, until=1),))


def test_the_sandbox_is_opened_by_the_first_shard_and_once() -> None:
    """Every case is told of here, where a second passes between two words otherwise."""
    said: list[Message] = []
    opened: list[Sandbox] = []

    def open_programs() -> Sandbox:
        opened.append(Sandbox(slots=1))
        return opened[-1]

    made = Worker(
        store_of(CASE, CASE), worker_pid=1, say=said.append, pulse_s=0, open_programs=open_programs
    )
    assert opened == []
    made.run([BATCH, BATCH])
    (sandbox,) = opened
    sandbox.close()
    assert [one.cases for one in said if isinstance(one, Progressed)] == [1, 2, 1, 2]


def test_a_shards_prompts_say_which_function_a_check_is_for() -> None:
    """A program of two functions, and a test that names none."""
    case = Case(
        id="a",
        prompt="def halve(n):\n",
        expected="def check(candidate):\n    assert candidate(4) == 2",
        response="def halve(n):\n    return n // other()\ndef other():\n    return 2\n",
    )
    store = store_of(case)
    with Sandbox(slots=1) as sandbox:
        receipt = score_shard(
            store.read_cases(store.plan.shards[0]),
            store.plan.shards[0],
            scorer("code_exec"),
            worker_pid=1,
            programs=sandbox,
        )
    assert [one.outcome for one in receipt.cases] == ["correct"]


def test_a_worker_that_was_given_no_sandbox_says_so() -> None:
    made = Worker(store_of(CASE), worker_pid=1, say=lambda message: None)
    with pytest.raises(SpecError, match="needs a sandbox"):
        made.run([BATCH])


def test_a_worker_process_loads_no_sandbox_before_it_needs_one() -> None:
    """Its start is near that of the bare interpreter, and most runs score texts."""
    program = "import sys, farm.runtime.worker_main; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert not {name for name in loaded if name.startswith("farm.sandbox")}
    assert not loaded & {"farm.scoring.programs", "ast", "subprocess", "tempfile", "numpy"}
