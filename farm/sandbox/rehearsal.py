"""Plays a small job through in the zygote before the first fork, so that children start warm.

An interpreter fills in much as it goes: the types of syntax trees, the specialised form of each
function's code. Whatever is filled in before the fork is shared; after it, every candidate and
tester would pay for it again, in time and in copied pages. Nothing of a real job is used here.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys

from farm.sandbox import candidate, imports, kernel, landlock, tester
from farm.sandbox.frames import Severed

# enough calls for the interpreter to specialise the code they run through
_TIMES = 12
_PROGRAM = """
def twice(values, by=2):
    return [value * by for value in values]
"""
_ASSERTIONS = [
    "assert twice([1, 2]) == [2, 4]",
    "twice([1.5, 'a'])[1] == 'aa'",
    "def check(f):\n    assert f((1,), by=3) == [3]\ncheck(twice)",
    "assert twice([]) == [1]",
]


def rehearse_kernel_calls() -> None:
    """Go through the foreign-call machinery of the lockdown by calls that change nothing."""
    for _ in range(_TIMES):
        with contextlib.suppress(OSError):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # as it is already
        with contextlib.suppress(OSError):
            landlock.enter(-1)  # refused: no such ruleset
        with contextlib.suppress(OSError):
            os.close(-1)


def rehearse() -> None:
    """Run the same job a few times with candidate and tester as two threads of this process."""
    for _ in range(_TIMES):
        imports.may_name_denied(_PROGRAM)
        to_candidate, from_tester = os.pipe()
        to_tester, from_candidate = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        over = _thread.allocate_lock()
        over.acquire()

        def serve(source: int = to_candidate, target: int = from_candidate) -> None:
            with contextlib.suppress(Severed):  # the pipe closes when the tester is done
                candidate.Candidate().serve(source, target)
            over.release()  # noqa: B023  # the loop waits for it before going on

        _thread.start_new_thread(serve, ())
        job = {
            "code": _PROGRAM,
            "assertions": _ASSERTIONS,
            "entry_point": None,
            "grading": "split",
            # the policy would change this process's import machinery for good
            "imports": "allow",
        }
        tester.run(job, source=to_tester, target=from_tester, verdict=nowhere, marked=lambda: None)
        os.close(from_tester)
        over.acquire()
        for number in (to_candidate, to_tester, from_candidate, nowhere):
            os.close(number)
        sys.modules.pop(candidate.NAME, None)
