"""The process that asks starts lean: a run may start many of them."""

from __future__ import annotations

import subprocess
import sys


def test_a_process_that_asks_starts_without_the_arrays_of_statistics() -> None:
    """numpy alone took nearly half of the start-up, and makes threads that wait for nothing."""
    code = "import sys, farm.runtime.asker_main; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
