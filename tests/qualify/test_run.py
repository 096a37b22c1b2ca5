"""Whole runs against the scripted server, one process each: the task, the faults, the kills."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.qualify.servers import (
    farm,
    results,
    scripted_server,
    start_farm,
    write_config,
    write_lease,
)

LAG = {"client_lag"}  # a busy machine may be late; it must be the only reason then


def run(tmp_path: Path, url: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    return farm(
        "qualify", "run", write_config(tmp_path, url=url, **changes),
        "--lease", write_lease(tmp_path), "--output", str(tmp_path / "out"),
    )  # fmt: skip


def test_a_model_that_does_the_task_succeeds_in_every_phase(tmp_path: Path) -> None:
    """Tool, both totals, code in the sandbox; cold and primed borne out by the server's counts."""
    with scripted_server("--drafts", "--pause-s", "0.02") as url:
        done = run(tmp_path, url)
    assert done.returncode == 0, done.stderr
    cold, primed = results(tmp_path / "out")
    assert (cold["cache"], primed["cache"]) == ("cold", "primed")
    for cell in (cold, primed):
        assert cell["tasks_succeeded"] == cell["tasks_total"] == 2
        assert cell["success"] is True
        assert cell["cache_verified"] is True
        assert cell["context_verified"] is True
        assert set(cell["measurement_reasons"]) <= LAG
        assert cell["draft_acceptance"] == 0.5  # the script accepts every other draft
        for task in cell["tasks"]:
            assert list(task["phases"]) == [
                "initial", "appended_tool_turn", "client_compaction", "code_holdout",
            ]  # fmt: skip
            assert task["code_evaluated"] is True
            assert task["code_passed"] is True
            assert 512 <= task["fixture_tokens"] <= 576
            initial = task["phases"]["initial"]["metrics"]
            assert initial["ttft_any_s"] == initial["ttft_visible_s"] > 0
            assert initial["elapsed_s"] >= initial["last_payload_s"] > initial["ttft_any_s"]
            assert initial["completion_tokens"] == 4
            assert initial["server_decode_tokens_s"] == pytest.approx(50.0)
            assert initial["usage"]["completion_tokens"] == 4
    assert cold["prime"] == []
    assert len(primed["prime"]) == 2
    # the same bytes, sent before the wave
    asked = {one["request_sha256"] for one in primed["prime"]}
    assert asked == {t["phases"]["initial"]["request_sha256"] for t in primed["tasks"]}
    tokens = sum(
        phase["metrics"]["completion_tokens"]
        for task in primed["tasks"]
        for phase in task["phases"].values()
    )
    assert primed["completion_tokens"] == tokens
    assert primed["aggregate_tokens_s"] == pytest.approx(tokens / primed["wave_wall_s"])
    assert len(list((tmp_path / "out" / "fixtures").iterdir())) == 2


def test_the_responses_interface_is_measured_as_a_dimension_of_its_own(tmp_path: Path) -> None:
    """The same task over other events, and the protocol in the provenance."""
    with scripted_server("--pause-s", "0.02") as url:
        done = run(tmp_path, url, protocol="responses", concurrency=[1])
    assert done.returncode == 0, done.stderr
    for cell in results(tmp_path / "out"):
        assert cell["success"] is True
        assert cell["cache_verified"] is True
        assert set(cell["measurement_reasons"]) <= LAG
        (task,) = cell["tasks"]
        initial = task["phases"]["initial"]
        assert initial["tool_calls"] == [{"name": "read_record", "arguments": '{"key":"sku-73"}'}]
        assert initial["metrics"]["usage"]["output_tokens"] == 4
    document = json.loads((tmp_path / "out" / "provenance.json").read_bytes())
    assert document["provenance"]["protocol"] == "responses"


@pytest.mark.parametrize(
    ("fault", "reasons", "task"),
    [
        ("late_usage", set(), {"success": True}),
        ("no_cache_count", set(), {"success": True, "cache_verified": None}),
        ("busy_slots", set(), {"success": True}),
        (
            "wrong_tool",
            set(),
            {"success": False, "tool_problem": "wrong_tool", "total_correct": None},
        ),
        ("wrong_arguments", set(), {"success": False, "tool_problem": "wrong_arguments"}),
        (
            "token_mismatch",
            {"context_mismatch"},
            {"success": False, "context_verified": False, "total_correct": True},
        ),
        (
            "no_usage",
            {"context_unverified"},
            {"success": False, "context_verified": None, "code_passed": True},
        ),
        (
            "cut:client_compaction",
            {"client_compaction_truncated"},
            {"success": False, "total_correct": True, "recalculated_correct": False},
        ),
        (
            "midstream_error:code_holdout",
            {"code_holdout_error"},
            {"success": False, "code_evaluated": False, "recalculated_correct": True},
        ),
    ],
)
def test_a_fault_is_told_by_its_reason_and_nothing_measured_is_lost(
    tmp_path: Path, fault: str, reasons: set[str], task: dict[str, Any]
) -> None:
    """One cold cell of one stream, one fault."""
    with scripted_server("--fault", fault, "--pause-s", "0.02") as url:
        done = run(tmp_path, url, concurrency=[1], cache_modes=["cold"])
    assert done.returncode == 0, done.stderr
    (cell,) = results(tmp_path / "out")
    assert set(cell["measurement_reasons"]) - LAG == reasons
    (found,) = cell["tasks"]
    assert {name: found[name] for name in task} == task
    initial = found["phases"]["initial"]["metrics"]
    assert initial["ttft_any_s"] > 0  # a later failure takes nothing away
    if fault == "late_usage":
        # the script waits 0.2 s between the last text and the usage
        assert initial["elapsed_s"] - initial["last_payload_s"] >= 0.19
    if fault == "no_usage":
        assert cell["aggregate_tokens_s"] is None
        assert initial["end_to_end_tokens_s"] is None


def test_a_cache_that_only_says_it_is_empty_is_found_out(tmp_path: Path) -> None:
    """A slot says it was erased and still knows the prompt: the server's own count tells."""
    with scripted_server("--fault", "sticky_cache", "--slots", "1", "--pause-s", "0.02") as url:
        changes = {"concurrency": [1], "cache_modes": ["primed", "cold"]}
        done = run(tmp_path, url, **changes)
    assert done.returncode == 0, done.stderr
    primed, cold = results(tmp_path / "out")
    assert primed["cache_verified"] is True
    assert cold["cache_verified"] is False
    assert "cache_not_cold" in cold["measurement_reasons"]
    assert cold["measurement_valid"] is False


@pytest.mark.parametrize(
    ("arguments", "changes", "why"),
    [
        (["--fault", "no_erase"], {}, "--slot-save-path"),
        (["--fault", "busy_slots", "--busy-answers", "-1"], {"hook_timeout_s": 1}, "are busy"),
        (["--slots", "1"], {}, "the server has 1 slots"),
        (["--context", "800"], {}, "each slot has 800"),
        ([], {"min_mem_available_gib": 1e6}, "memory available"),
    ],
)
def test_a_cell_that_may_not_be_measured_stays_open(
    tmp_path: Path, arguments: list[str], changes: dict[str, Any], why: str
) -> None:
    """A refusal is no result: exit 1, no line written; mended, the same command goes on."""
    with scripted_server(*arguments) as url:
        done = run(tmp_path, url, **changes)
    assert done.returncode == 1
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert results(tmp_path / "out") == []


def test_fixed_bytes_are_measured_with_their_counted_tokens(tmp_path: Path) -> None:
    """The archive has a fixed number of records; the counter says how long that is."""
    with scripted_server("--pause-s", "0") as url:
        changes = {"concurrency": [1], "cache_modes": ["cold"], "fixture_mode": "fixed_bytes"}
        done = run(tmp_path, url, **changes)
    assert done.returncode == 0, done.stderr
    (cell,) = results(tmp_path / "out")
    assert cell["context_verified"] is True
    (path,) = (tmp_path / "out" / "fixtures").iterdir()
    fixture = json.loads(path.read_bytes())
    assert (fixture["mode"], fixture["records"]) == ("fixed_bytes", 14)  # (512 - 224) * 3 // 60
    assert fixture["tokens"] == cell["tasks"][0]["fixture_tokens"]


def test_a_held_device_lock_is_a_refusal(tmp_path: Path) -> None:
    """Another qualification has the devices; nothing is made."""
    with (tmp_path / "device.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(tmp_path, "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "another qualification holds the devices" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_output_of_another_configuration_is_refused(tmp_path: Path) -> None:
    """Two configurations are never mixed in one directory."""
    with scripted_server() as url:
        small = {"concurrency": [1], "cache_modes": ["cold"]}
        assert run(tmp_path, url, **small).returncode == 0
        before = (tmp_path / "out" / "results.jsonl").read_bytes()
        done = run(tmp_path, url, **small, model_sha256="3" * 64, max_tokens=128)
    assert done.returncode == 1
    assert "another configuration, it differs in max_tokens, model_sha256;" in done.stderr
    assert done.stderr.endswith("give another --output\n")  # and not to remove what was measured
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "mistake",
    [
        {"api_key_env": "NO_SUCH_VARIABLE"},
        {"token_counter": "tokenizer"},
        {"token_counter": "tokenizer", "tokenizer": "/no/such/folder"},
    ],
)
def test_a_mistake_that_can_be_known_before_binds_no_directory(
    tmp_path: Path, mistake: dict[str, Any]
) -> None:
    """A key that is not set, a tokenizer that is not there: mended, the same command goes on."""
    done = run(tmp_path, "http://127.0.0.1:9", **mistake)
    assert done.returncode == 1
    assert not (tmp_path / "out").exists()


def test_a_directory_without_a_measured_cell_may_be_removed(tmp_path: Path) -> None:
    """Only the server shows that a window is too large; nothing is lost with the directory."""
    with scripted_server("--fault", "no_erase") as url:
        assert run(tmp_path, url, cache_modes=["cold"]).returncode == 1
    done = run(tmp_path, url, cache_modes=["cold"], max_tokens=128)
    assert done.returncode == 1
    assert "it differs in max_tokens; nothing was changed" in done.stderr
    assert done.stderr.endswith("give another --output, or remove this one\n")


def test_a_run_goes_on_with_a_server_at_another_address(tmp_path: Path) -> None:
    """A server that was started again has another port; each invocation says where it asked."""
    both = {"concurrency": [1]}
    with scripted_server("--fault", "no_erase", "--pause-s", "0") as url:
        order = {"cache_modes": ["primed", "cold"]}
        assert run(tmp_path, url, **both, **order).returncode == 1  # primed is measured, cold not
    assert len(results(tmp_path / "out")) == 1
    with scripted_server("--pause-s", "0") as other:
        done = run(tmp_path, other, **both, **order)
    assert done.returncode == 0, done.stderr
    assert len(results(tmp_path / "out")) == 2
    document = json.loads((tmp_path / "out" / "provenance.json").read_bytes())
    assert [one["operation"]["url"] for one in document["invocations"]] == [url, other]


@pytest.mark.parametrize(
    ("lock", "why"),
    [("{}", "is a folder: name a file in it"), ("{}/a\0b", "no path holds a zero byte")],
)
def test_a_lock_that_cannot_be_one_is_named(tmp_path: Path, lock: str, why: str) -> None:
    """Before anything is made or asked."""
    done = farm(
        "qualify", "run", write_config(tmp_path, url="http://127.0.0.1:9"),
        "--lease", write_lease(tmp_path, lock_path=lock.format(tmp_path)),
        "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.returncode == 1
    assert why in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_finished_run_changes_no_file(tmp_path: Path) -> None:
    """The same command again prints the totals and touches nothing, with no server there."""
    with scripted_server() as url:
        small = {"concurrency": [1], "cache_modes": ["cold"]}
        first = run(tmp_path, url, **small)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    again = run(tmp_path, url, **small)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert files == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}


MATRIX = {"contexts": [512, 640, 768], "concurrency": [1, 2, 4], "repeats": 3}  # 54 cells


@pytest.mark.timeout(300)
def test_killed_after_20_of_54_cells_the_same_command_goes_on_with_cell_21(tmp_path: Path) -> None:
    """SIGKILL at the 20th completed cell: those lines stand byte for byte, each cell is once."""
    output = tmp_path / "out"
    with scripted_server("--pause-s", "0") as url:
        arguments = (
            "qualify", "run", write_config(tmp_path, url=url, **MATRIX),
            "--lease", write_lease(tmp_path), "--output", str(output),
        )  # fmt: skip
        with start_farm(*arguments) as process:
            assert process.stderr is not None
            completed = 0
            for line in process.stderr:
                completed += json.loads(line)["event"] == "shard.completed"
                if completed == 20:
                    process.kill()
                    break
        done = farm(*arguments, timeout=250)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (output / "events.jsonl").read_bytes().splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    finished = [event["shard"] for event in events if event["event"] == "shard.completed"]
    assert finished == [f"shard-{place}" for place in range(54)]
    second = [e for e in events if e["invocation_id"] == events[-1]["invocation_id"]]
    claimed = [event["shard"] for event in second if event["event"] == "shard.claimed"]
    assert claimed[0] in ("shard-20", "shard-21")  # the kill may come after the next commit
    assert "shard-19" not in claimed
    found = results(output)
    assert [cell["cell"] for cell in found] == list(range(54))
    assert all(cell["success"] for cell in found)
    document = json.loads((output / "provenance.json").read_bytes())
    assert len(document["invocations"]) == 2
    assert list(output.rglob("*.tmp")) == []


def test_a_signal_ends_a_run_that_can_be_continued(tmp_path: Path) -> None:
    """SIGTERM in mid-cell: 143, the command to go on with, and no cell half done."""
    output = tmp_path / "out"
    with scripted_server("--pause-s", "0.05") as url:
        arguments = (
            "qualify", "run", write_config(tmp_path, url=url, concurrency=[1]),
            "--lease", write_lease(tmp_path), "--output", str(output),
        )  # fmt: skip
        with start_farm(*arguments) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if json.loads(line)["event"] == "shard.claimed":
                    process.send_signal(signal.SIGTERM)
                    break
            _, said = process.communicate(timeout=60)
        assert process.returncode == 143
        assert "farm qualify run" in said
        assert results(output) == []
        done = farm(*arguments)
    assert done.returncode == 0, done.stderr
    assert len(results(output)) == 2
