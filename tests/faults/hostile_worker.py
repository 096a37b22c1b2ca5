"""A worker that scores as it should, but for one shard: `hostile_worker.py FAULT SHARD MARKER`.

The fault happens when the shard is executed and MARKER, a file, is not there yet; the marker is
made first. With "-" for the marker it happens every time. All that follows is what a worker gets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from farm.core.message import Assignment, Scored, Started, encode_line
from farm.core.receipt import ReceiptReference
from farm.runtime import worker_main
from farm.runtime.worker import Worker

FAULT, SHARD, MARKER = sys.argv[1:4]
_score = Worker.score
_private_stdout = worker_main._private_stdout
_protocol = -1


def _say(data: bytes) -> None:
    while data:
        data = data[os.write(_protocol, data) :]


def hang() -> None:
    time.sleep(600)


def ignore_term() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def print_garbage() -> None:
    _say(b"\x00\xff\xfe this is no message {\n")
    time.sleep(600)


def print_long_line() -> None:
    _say(b"x" * 5_000_000)
    time.sleep(600)


def leave_child() -> None:
    """Start a child that holds every pipe of this worker, leave its pid in MARKER, and die."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"],
        pass_fds=[_protocol],
        start_new_session=True,
    )
    with open(MARKER, "w") as file:
        file.write(str(child.pid))
    os._exit(3)


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def end_early() -> None:
    os._exit(0)


def claim_another() -> None:
    _say(encode_line(Started(shard="shard-999", version=1)))
    time.sleep(600)


def publish_another() -> None:
    receipt = ReceiptReference(
        sha256="0" * 64, bytes=1, worker_pid=1, total=1, correct=1, outcomes={}
    )
    _say(encode_line(Scored(shard=SHARD, version=77, receipt=receipt)))
    time.sleep(600)


def fail() -> None:
    raise ZeroDivisionError("a scorer's own mistake")


FAULTS: dict[str, Callable[[], None]] = {
    act.__name__: act
    for act in (
        hang, ignore_term, stop, print_garbage, print_long_line, leave_child, die, end_early,
        claim_another, publish_another, fail,
    )
}  # fmt: skip


def keep_stdout() -> int:
    global _protocol
    _protocol = _private_stdout()
    return _protocol


def score(self: Worker, assignment: Assignment) -> tuple[bytes, ReceiptReference]:
    if assignment.shard == SHARD and not os.path.exists(MARKER):
        if MARKER != "-":
            open(MARKER, "x").close()
        FAULTS[FAULT]()
    return _score(self, assignment)


Worker.score = score  # type: ignore[method-assign]
worker_main._private_stdout = keep_stdout
sys.exit(worker_main.main(sys.argv[4:]))
