"""Ctrl-C and SIGTERM: once drains, twice terminates, three times leaves; nothing is lost."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.files.lock import FileLock
from farm.store.directory import DirectoryStore
from tests.examples import states
from tests.faults.runs import FARM, assert_complete, farm, follow, make_store, started, write_cases

CTRL_C = b"\x03"
# how the last line that a command prints begins
LAST_LINE = {
    "run": b'{"schema_version":',
    "score": b'{"metric":',
    "report": b"}\n",
    "demo": b'{"phase":"after_recovery",',
}
# become the foreground of the terminal on stdin, then the command
ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A person at a terminal, running a command whose log is read from it."""

    def __init__(self, *arguments: str) -> None:
        self.keyboard, screen = pty.openpty()
        command = [*FARM, *arguments, "--log-format", "json"]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", ON_TERMINAL, *command],
            stdin=screen, stdout=subprocess.DEVNULL, stderr=screen,
        )  # fmt: skip
        os.close(screen)
        self.shown = b""
        self.pressed = 0.0

    def press(self, key: bytes) -> None:
        """Press a key no quicker than a finger: what comes within 2 ms counts as one signal."""
        time.sleep(max(0.0, self.pressed + 0.05 - time.monotonic()))
        self.pressed = time.monotonic()
        os.write(self.keyboard, key)

    def read(self) -> bool:
        """Read what is shown next; false when the command has ended."""
        try:
            new = os.read(self.keyboard, 65536)
        except OSError:  # how a terminal says that nobody is left on the other side
            return False
        self.shown += new
        return bool(new)

    def wait_for(self, event: str, *, times: int = 1) -> None:
        while self.shown.count(f'"event":"{event}"'.encode()) < times:
            assert self.read(), f"ended before {event}: {self.shown!r}"

    def wait_for_workers(self, count: int) -> None:
        """Wait until workers heed SIGTERM: one that does not yet would end, and the run with it."""
        self.wait_for("worker.spawned", times=count)
        for pid in re.findall(rb'"worker_pid":([0-9]+)', self.shown):
            while not heeds(int(pid), signal.SIGTERM):
                time.sleep(0.01)

    def end(self, *, timeout_s: float = 20) -> int:
        while self.read():
            pass
        return self.process.wait(timeout_s)


def heeds(pid: int, number: signal.Signals) -> bool:
    """Say whether a process has a handler for a signal, by the kernel's own record of it."""
    caught = re.search(
        r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    opened = Terminal(*arguments)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
            opened.process.wait()
        os.close(opened.keyboard)


def assert_free_and_uncharged(store: str) -> None:
    with DirectoryStore(store) as opened:
        leases = opened.ledger().leases
    assert [lease.shard for lease in leases if lease.worker and not lease.done] == []
    assert {lease.attempts for lease in leases} == {0}


def assert_goes_on_at_once(store: str) -> None:
    """The next run waits for no lease: it is over long before one of 30 s expires."""
    began = time.monotonic()
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert time.monotonic() - began < 15
    assert_complete(store)


def test_ctrl_c_once_drains(tmp_path: Path) -> None:
    """The worker finishes the shard it is at, the rest is released, the way on is told."""
    store = make_store(str(tmp_path), cases=40, shards=8)
    options = ("--workers", "1", "--shards-per-process", "8", "--delay-ms", "700")
    with terminal("run", "--store", store, *options) as run:
        run.wait_for("shard.completed")  # the next one is executing by then
        run.press(CTRL_C)
        assert run.end() == 130
    assert b"interrupted by SIGINT" in run.shown
    assert f"continue with: farm run --store {store}".encode() in run.shown
    assert b'"event":"run.interrupted"' in run.shown
    with DirectoryStore(store) as opened:
        done = states(opened.ledger())["done"]
    assert 2 <= done < 8
    assert_free_and_uncharged(store)
    assert_goes_on_at_once(store)


def test_ctrl_c_twice_terminates(tmp_path: Path) -> None:
    """Shards that would take 60 s are not waited for, whatever the grace."""
    store = make_store(str(tmp_path))
    options = ("--delay-ms", "60000", "--grace-s", "60")
    began = time.monotonic()
    with terminal("run", "--store", store, *options) as run:
        run.wait_for_workers(2)
        run.press(CTRL_C)
        run.wait_for("run.draining")
        run.press(CTRL_C)
        assert run.end() == 130
    assert time.monotonic() - began < 20
    assert_free_and_uncharged(store)
    assert_goes_on_at_once(store)


def test_ctrl_c_three_times_leaves_at_once(tmp_path: Path) -> None:
    """Also when the store does not answer: here its commit lock is held for ever."""
    store = make_store(str(tmp_path))
    stuck = FileLock(f"{store}/lock")
    with terminal("run", "--store", store, "--delay-ms", "60000") as run:
        run.wait_for("worker.spawned", times=2)
        stuck.acquire(timeout_s=5)
        began = time.monotonic()
        presses = 0
        while run.process.poll() is None and presses < 50:
            run.press(CTRL_C)
            presses += 1
            try:
                run.process.wait(0.2)  # two presses within one instant would count as one
            except subprocess.TimeoutExpired:
                continue
        assert run.end() == 130
        assert time.monotonic() - began < 8  # the lock would be waited for 10 s
    assert presses >= 3
    assert b"left at once by SIGINT" in run.shown
    assert f"continue with: farm run --store {store}".encode() in run.shown
    stuck.close()
    assert_goes_on_at_once(store)


def test_sigterm_drains_as_ctrl_c_does(tmp_path: Path) -> None:
    """Schedulers send it before they take the machine away; exit 143."""
    store = make_store(str(tmp_path), cases=40, shards=8)
    options = ("--workers", "1", "--shards-per-process", "8", "--delay-ms", "500")
    with started("run", "--store", store, *options) as run:
        for event in follow(run):
            if event["event"] == "shard.completed":
                run.send_signal(signal.SIGTERM)
                break
        _, said = run.communicate(timeout=30)
    assert run.returncode == 143
    assert b"interrupted by SIGTERM" in said
    assert f"continue with: farm run --store {store}".encode() in said
    assert_free_and_uncharged(store)
    assert_goes_on_at_once(store)


def test_sigterm_to_the_whole_group_charges_nobody(tmp_path: Path) -> None:
    """Some schedulers signal every process: workers that end by themselves are not at fault."""
    store = make_store(str(tmp_path), cases=40, shards=8)
    pids: list[int] = []
    with started("run", "--store", store, "--delay-ms", "300") as run:
        for event in follow(run):
            if event["event"] == "worker.spawned":
                pids.append(int(str(event["worker_pid"])))
            if event["event"] == "shard.completed":
                break
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
    assert run.returncode == 143
    assert_free_and_uncharged(store)
    assert_goes_on_at_once(store)


@pytest.mark.parametrize("command", ["init", "run"])
def test_sigterm_while_a_store_is_made_leaves_nothing_and_says_so(
    command: str, tmp_path: Path
) -> None:
    """Nothing is kept then, and what was read of standard input is gone."""
    given = [command, "--store", str(tmp_path / "store"), "--input", "-", "--shards", "3"]
    with subprocess.Popen(
        [*FARM, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as called:
        assert called.stdin is not None
        called.stdin.write(b'{"id":"a","prompt":"p","expected":"x","response":"x"}\n')
        called.stdin.flush()
        end = time.monotonic() + 20
        while not list(tmp_path.glob("store/.init-*/input")):
            assert time.monotonic() < end
            time.sleep(0.01)  # staging is all there is to be seen of an init
        called.send_signal(signal.SIGTERM)
        assert called.wait(20) == 143
        assert called.stderr is not None
        assert called.stderr.read().decode() == (
            "farm: interrupted by SIGTERM; nothing was made yet, "
            f"start again with the same standard input: farm {shlex.join(given)}\n"
        )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--store", "STORE", "--input", "CASES", "--quiet"),
        ("score", "--metric", "exact_match", "--prediction", "a", "--target", "a"),
        ("report", "--store", "STORE"),
        ("demo", "--quiet"),
    ],
    ids=lambda command: command[0],
)
def test_no_signal_changes_how_a_command_ends_once_its_result_is_out(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """Its reader may signal it from then on: it has ended well, and is not called interrupted."""
    store, cases = str(tmp_path / "store"), write_cases(str(tmp_path / "in.jsonl"), 4)
    if command[0] == "report":
        assert farm("run", "--store", store, "--input", cases, "--quiet").returncode == 0
    given = [{"STORE": store, "CASES": cases}.get(word, word) for word in command]
    with subprocess.Popen(
        [*FARM, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as called:
        assert called.stdout is not None
        assert any(line.startswith(LAST_LINE[command[0]]) for line in called.stdout)
        while called.poll() is None:
            called.send_signal(signal.SIGTERM)
            called.send_signal(signal.SIGINT)
        assert (called.returncode, called.communicate()[1]) == (0, b"")
