"""The worker process: `python -I -m farm.runtime.worker_main --store DIR --parent PID`.

Its start is kept lean, near that of the bare interpreter: no click, rich, structlog, anyio or
numpy. It speaks the protocol of `farm.core.message` on a private copy of its stdout; descriptor
1 points at stderr, so that a library's print cannot corrupt it.
"""

from __future__ import annotations

import farm.lean  # noqa: F401  isort: skip  before anything that imports msgspec

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from farm.core.message import (
    Batch,
    Message,
    ProtocolError,
    Ready,
    Stopped,
    decode_batch,
    encode_line,
)
from farm.errors import FarmError
from farm.runtime.worker import PULSE_S, Worker
from farm.store.directory import DirectoryStore

if TYPE_CHECKING:
    from farm.scoring.programs import ProgramRunner

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_S = 0.5


def main(argv: list[str]) -> int:
    """Serve batches from stdin until it ends; give the exit code."""
    options = dict(zip(argv[::2], argv[1::2], strict=True))
    say = open_protocol()
    die_with_parent(int(options["--parent"]))
    try:
        with DirectoryStore(options["--store"]) as store, ExitStack() as opened:
            worker = Worker(
                store,
                worker_pid=os.getpid(),
                say=say,
                delay_s=int(options.get("--delay-ms", "0")) / 1000,
                pulse_s=float(options.get("--pulse-s", PULSE_S)),
                open_programs=lambda: _open_sandbox(store, options, opened),
            )
            signal.signal(signal.SIGTERM, lambda *_: worker.stop())
            say(Ready(worker_pid=os.getpid()))
            worker.run(_batches())
    except FarmError as error:
        say(Stopped(reason=str(error), exit_code=error.exit_code))
        return error.exit_code
    except BrokenPipeError:  # the supervisor is gone, and nobody is left to tell
        return 1
    except Exception as error:  # noqa: BLE001  the worker's top: between processes go records
        say(Stopped(reason=_named(error), exit_code=0))
        return 1
    return 0


def _named(error: Exception) -> str:
    said = str(error)  # nothing, where memory runs out
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _open_sandbox(
    store: DirectoryStore, options: dict[str, str], opened: ExitStack
) -> ProgramRunner:
    """Open a sandbox of one slot: the run has as many slots as it has workers."""
    # here and not at the top: a run that scores texts never needs it
    from farm.sandbox.runner import Sandbox, Settings
    from farm.scoring.programrules import rules_of

    rules = rules_of(store.plan.identity.scorer.name)
    settings = Settings(
        imports=rules.imports,
        timeout_s=rules.timeout_s,
        require_isolation=options.get("--require-isolation"),
        allow_unisolated=options.get("--allow-unisolated") == "yes",
    )
    return opened.enter_context(Sandbox(settings, slots=1))


def open_protocol() -> Callable[[Message], None]:
    """Take stdout for messages alone and give what says them; descriptor 1 becomes stderr."""
    protocol = _private_stdout()

    def say(message: Message) -> None:
        data = encode_line(message)
        while data:
            data = data[os.write(protocol, data) :]

    return say


def _private_stdout() -> int:
    private = os.dup(1)
    os.set_inheritable(private, False)
    os.dup2(2, 1)
    return private


def _batches() -> Iterator[Batch]:
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            raise ProtocolError("the last line of the input is cut short")
        yield decode_batch(line)


def die_with_parent(parent: int) -> None:
    """End this process when `parent` ends, however it ends.

    Linux has the kernel do it; elsewhere a thread watches for a new parent.
    """
    if sys.platform == "linux":
        import ctypes  # here and not at the top: 2 ms that only Linux needs

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        import threading  # as late: Linux has no need of it

        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
