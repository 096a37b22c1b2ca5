"""A signal at any moment of a start ends in one line and its own exit code, nothing half made."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farm.store.directory import DirectoryStore
from tests.faults.runs import FARM, assert_one_line, farm, make_store, write_cases

# the command line behind it, with a signal sent to itself when a module is looked for
SIGNALLED = """
import os, sys
module, number, *rest = sys.argv[1:]
class Looking:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(number))
sys.meta_path.insert(0, Looking())
sys.argv = ["farm", *rest]
from farm.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "module",
    [
        "click",  # the command line is not even read
        "farm.cli.run",  # which command it is has been read
        "farm.store.initialize",  # the store is about to be made
        "farm.runtime.supervisor",  # it is made, and the run about to begin
        "anyio._backends._asyncio",  # the loop is about to begin
    ],
)
def test_a_signal_while_modules_load_is_one_line(
    module: str, number: signal.Signals, tmp_path: Path
) -> None:
    given = write_cases(str(tmp_path / "in.jsonl"), 4)
    store = tmp_path / "store"
    command = ["run", "--store", str(store), "--input", given, "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-I", "-c", SIGNALLED, module, str(int(number)), *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 128 + number, ended.stderr
    said = ended.stderr.splitlines()
    assert len(said) == 1, ended.stderr
    assert said[0].startswith(f"farm: interrupted by {number.name}")
    assert not list(store.glob(".init-*"))
    assert farm(*command).returncode == 0


# the same, when a file of that name is opened
OPENING = """
import os, sys
name, number, *rest = sys.argv[1:]
def look(event, arguments):
    if event == "open" and str(arguments[0]).endswith(name):
        os.kill(os.getpid(), int(number))
sys.addaudithook(look)
sys.argv = ["farm", *rest]
from farm.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_report_is_built_is_one_line(
    number: signal.Signals, tmp_path: Path
) -> None:
    """The loop is over by then, and with it the handlers that a loop brings along.

    Of all that a supervisor does only the report reads the cases.
    """
    store = make_store(str(tmp_path))
    command = ["run", "--store", store, "--quiet", "--detail", "--now-ms", "5"]
    ended = subprocess.run(
        [sys.executable, "-I", "-c", OPENING, "cases.jsonl", str(int(number)), *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 128 + number, ended.stderr
    assert_one_line(ended.stderr)
    assert f"continue with: farm run --store {store} --detail --quiet\n" in ended.stderr


def test_a_worker_by_hand_that_is_interrupted_gives_its_shard_back(tmp_path: Path) -> None:
    """Else the next one would wait for 30 s, the length of its lease."""
    store = make_store(str(tmp_path))
    command = ["worker", "--store", store, "--worker-id", "hand", "--delay-ms", "60000"]
    with subprocess.Popen(
        [*FARM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stderr is not None
        assert '"claimed":true' in worker.stdout.readline()
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 143
        said = worker.stderr.read()
    assert time.monotonic() - began < 10
    again = f"farm worker --store {store} --worker-id hand --delay-ms 60000"
    assert said.splitlines() == [
        "farm: interrupted by SIGTERM; everything finished is kept, continue with: " + again
    ]
    with DirectoryStore(store) as opened:
        assert [lease.worker for lease in opened.ledger().leases] == ["", "", ""]


# the command line behind it, on a system that gives no more threads
WITHOUT_THREADS = """
import sys, threading
def refused(*arguments):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = refused
sys.argv = ["farm", *sys.argv[1:]]
from farm.__main__ import main
main()
"""


@pytest.mark.parametrize("log", ["--quiet", "--log-format=json"])
def test_a_system_without_threads_to_give_is_one_line(log: str, tmp_path: Path) -> None:
    """A limit on processes (`ulimit -u`) counts threads, and is not heeded where tests are root."""
    store = make_store(str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_THREADS, "run", "--store", store, log],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == (
        "farm: the system gives no more threads: end other programs, or raise `ulimit -u`\n"
    )
    assert farm("run", "--store", store).returncode == 0
