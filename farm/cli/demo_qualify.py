"""`farm demo qualify`: a qualification from start to end, against a server with a script."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files

from farm.cli import options
from farm.cli.main import Interrupted
from farm.errors import FarmError
from farm.version import VERSION


def show() -> None:
    """Measure four cells and print two JSON lines: the totals, then the summary.

    The server runs in a process of its own and ends with this one.
    """
    with tempfile.TemporaryDirectory(prefix="farm-demo-") as folder, _scripted_server() as told:
        # here and not at the top: they load while the server starts
        import farm.adapters.measured  # noqa: F401  the HTTP client, which the run needs
        from farm.files.runfiles import read_run
        from farm.qualify.config import complete_config, read_config
        from farm.qualify.devicelease import DeviceLease
        from farm.qualify.summary import summarize, totals_of
        from farm.wiring_qualify import qualify

        manifest = (files("farm.data") / "qualify.json").read_bytes()
        known = {**json.loads(manifest), "url": told()}
        config = complete_config(read_config(json.dumps(known).encode(), file="demo"), file="demo")
        lease = DeviceLease(
            nodes=config.nodes,
            expires_unix=time.time() + 600,
            lock_path=f"{folder}/device.lock",
            allowed_gpu_pids=(),
        )
        output = f"{folder}/run"
        ended = qualify(
            config,
            lease,
            output=output,
            on_events=lambda events: None,
            farm_version=VERSION,
        )
        if ended.signal is not None:
            raise Interrupted(ended.signal)
        run = read_run(output)
        options.print_line({"phase": "run", "totals": totals_of(*run, complete=ended.complete)})
        options.print_line({"phase": "summary", "summary": summarize(*run)}, last=True)


@contextmanager
def _scripted_server() -> Iterator[Callable[[], str]]:
    """Start the server; what is given waits for it and gives its URL."""
    command = [
        sys.executable, "-I", "-m", "farm.qualify.scripted", "--slots", "2", "--pause-s", "0.02",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process that was asked for pipes has none")
        said = process.stdout

        def told() -> str:
            line = said.readline()
            if not line:
                raise FarmError("the scripted server did not start: run the demo again")
            return f"http://127.0.0.1:{json.loads(line)['port']}"

        try:
            yield told
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
