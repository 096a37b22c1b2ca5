"""Run a hook: a program that is given JSON on its stdin and answers with JSON on its stdout.

It sees the variables that the configuration names and no others, runs in a session of its own
and is ended with everything it started when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from farm.errors import NotPermitted

MAX_OUTPUT_BYTES: Final = 1024 * 1024
_SHOWN: Final = 300


async def run_hook(
    argv: Sequence[str],
    question: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Mapping[str, Any]:
    """Run one hook and return the object it answers with.

    Raises `NotPermitted`, naming the program, when it cannot be started, takes too long, exits
    with anything but 0, says more than a MiB, or answers with anything but one JSON object.
    """
    output = await run_command(
        argv, orjson.dumps(question), environment=environment, timeout_s=timeout_s
    )
    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise _unusable(argv, f"did not answer with JSON: {output[:_SHOWN]!r}") from error
    if not isinstance(answer, dict):
        raise _unusable(argv, f"did not answer with a JSON object: {output[:_SHOWN]!r}")
    return answer


async def run_command(
    argv: Sequence[str], stdin: bytes, *, environment: Mapping[str, str], timeout_s: float
) -> bytes:
    """Run a program to its end and return its stdout; raises `NotPermitted` as `run_hook` does."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _unusable(argv, f"cannot be started: {error}") from error
    try:
        async with asyncio.timeout(timeout_s):
            said, complaint = await process.communicate(stdin)
    except TimeoutError as error:
        raise _unusable(argv, f"did not end within {timeout_s:g} s") from error
    finally:
        # also what it left running: its session has no other members
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode != 0:
        raise _unusable(argv, f"ended with {process.returncode}: {complaint[-_SHOWN:]!r}")
    if len(said) > MAX_OUTPUT_BYTES:
        raise _unusable(argv, f"said more than {MAX_OUTPUT_BYTES} bytes")
    return said


def _unusable(argv: Sequence[str], what: str) -> NotPermitted:
    return NotPermitted(f"hook {' '.join(argv)!r} {what}: mend it, then run the same command again")
