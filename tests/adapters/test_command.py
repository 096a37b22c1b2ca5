"""A program as a model: what it is told, what it may see, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.adapters.command import CommandEndpoint
from farm.adapters.settings import CommandSettings
from farm.core.generation import Generation, Usage
from tests.adapters.asking import task
from tests.adapters.loopback import run


def endpoint(
    script: str, environment: dict[str, str] | None = None, **more: Any
) -> CommandEndpoint:
    argv = (sys.executable, "-I", "-c", script)
    settings = msgspec.convert({"adapter": "command", "argv": argv, **more}, CommandSettings)
    return CommandEndpoint(settings, name="prog", environment=environment or dict(os.environ))


async def asked(script: str, **more: Any) -> Generation:
    async with endpoint(script, **more) as program:
        return await program.send(program.request("What?", task(), sample=2))


def test_a_program_is_told_the_request_and_its_answer_is_read() -> None:
    """It gives its request back as text, so both directions are seen."""
    script = (
        "import json, sys\n"
        "told = json.load(sys.stdin)\n"
        "json.dump({'text': json.dumps(told), 'confidence': 0.5, 'token_nll': 1.5,"
        " 'token_count': 3, 'usage': {'prompt_tokens': 4}, 'finish_reason': 'length',"
        " 'model_version': 'v9'}, sys.stdout)"
    )
    generation = run(asked(script, model="big"))
    assert json.loads(generation.text) == {
        "model": "big",
        "prompt": "What?",
        "task": {"task_id": "t1", "category": "open", "metadata": {}},
        "sample": 2,
    }
    assert generation == Generation(
        generation.text,
        0.5,
        1.5,
        3,
        confidence_source="reported",
        usage=Usage(prompt_tokens=4),
        finish_reason="length",
        model_version="v9",
    )


def test_a_program_sees_the_variables_that_are_named_and_no_others() -> None:
    """Keys in the environment of farm are nobody's business."""
    script = "import json, os; print(json.dumps({'text': ' '.join(sorted(os.environ))}))"
    environment = {"PATH": os.environ["PATH"], "MY_DIR": "d", "API_KEY": "secret"}
    generation = run(asked(script, environment=environment))
    seen = set(generation.text.split()) - {"LC_CTYPE"}  # which Python sets for itself
    assert seen == {"PATH"}
    more = endpoint(script, environment)  # the default list has no MY_DIR either
    assert "MY_DIR" not in more._environment


@pytest.mark.parametrize(
    ("script", "kind", "word"),
    [
        ("import sys; sys.exit('no such weights')", "program", "no such weights"),
        ("print('four')", "malformed", "four"),
        ("print('{\"text\": 4}')", "malformed", "Expected `str`"),
        ('print(\'{"text": "4", "confidence": 2}\')', "malformed", "<= 1"),
        ('print(\'{"text": "4", "conf": 1}\')', "malformed", "conf"),
        ('print(\'{"text": "4", "usage": {"prompt_tokens": -5}}\')', "malformed", "usage"),
        ('print(\'{"text": "4", "token_count": 1e999}\')', "malformed", ""),
        ("pass", "malformed", ""),
        ("import os; os.kill(os.getpid(), 9)", "program", "-9"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "malformed", ""),
    ],
)
def test_a_program_that_fails_is_a_failure_with_its_last_words(
    script: str, kind: str, word: str
) -> None:
    """Never an exception, never an empty answer."""
    generation = run(asked(script))
    assert generation.failure is not None
    assert generation.failure.kind == kind
    assert word in generation.failure.detail


def test_a_program_that_is_not_there_will_not_be_there_for_the_next_case() -> None:
    """So it is fatal, and stops the run after a few tries."""
    settings = CommandSettings(adapter="command", argv=("/nonexistent/program",))

    async def story() -> Generation:
        async with CommandEndpoint(settings, name="p", environment={}) as program:
            return await program.send(program.request("p", task(), sample=0))

    generation = run(story())
    assert generation.failure is not None
    assert generation.failure.fatal


def test_a_program_that_does_not_read_its_input_is_heard_all_the_same() -> None:
    """A megabyte of prompt into a closed pipe."""

    async def story() -> Generation:
        async with endpoint('print(\'{"text": "4"}\')') as program:
            return await program.send(program.request("x" * 1_000_000, task(), sample=0))

    assert run(story()).text == "4"


def test_an_endless_output_is_given_up_at_the_bound() -> None:
    """16 MiB, then the program is killed."""
    script = "import sys\nwhile True: sys.stdout.write('x' * 100000)"
    generation = run(asked(script))
    assert generation.failure is not None
    assert generation.failure.kind == "oversized"


LEAVES_A_CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
{then}
"""


@pytest.mark.parametrize(
    ("then", "kind"),
    [("time.sleep(600)", "timeout"), ('print(\'{"text": "4"}\', flush=True)', None)],
)
def test_nothing_of_a_program_is_left_when_its_call_is_over(
    tmp_path: Path, then: str, kind: str | None
) -> None:
    """A child that holds the pipe open goes too, after a timeout and after an answer."""
    note = tmp_path / "pid"
    argv = (sys.executable, "-I", "-c", LEAVES_A_CHILD.replace("{then}", then), str(note))
    settings = CommandSettings(adapter="command", argv=argv, timeout_s=3.0)

    async def story() -> Generation:
        async with CommandEndpoint(settings, name="p", environment=dict(os.environ)) as program:
            return await program.send(program.request("p", task(), sample=0))

    generation = run(story())
    assert (generation.failure.kind if generation.failure else None) == kind
    assert_gone(int(note.read_text()))


def test_a_cancelled_call_takes_its_program_along(tmp_path: Path) -> None:
    """Ctrl-C must not leave models running."""
    note = tmp_path / "pid"
    os.mkfifo(note)
    script = LEAVES_A_CHILD.replace("{then}", "time.sleep(600)")
    settings = CommandSettings(
        adapter="command", argv=(sys.executable, "-I", "-c", script, str(note))
    )

    async def story() -> int:
        async with CommandEndpoint(settings, name="p", environment=dict(os.environ)) as program:
            request = program.request("p", task(), sample=0)
            call = asyncio.ensure_future(program.send(request))
            pid = int(await asyncio.to_thread(note.read_text))
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return pid

    assert_gone(run(story()))


def assert_gone(pid: int) -> None:
    """Wait for the end of a process that was killed; one that was not would sleep for 600 s."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("this system cannot wait for a process that is not a child")
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], 10)
        assert ended
    finally:
        os.close(handle)
