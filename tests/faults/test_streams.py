"""Standard streams that are closed, full or gone are no reason to lose a run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.runs import FARM, assert_complete, assert_one_line, make_store, write_cases

needs_dev_full = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script, "bash", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def run_command(*arguments: str) -> tuple[str, ...]:
    return (*FARM, "run", *arguments)


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_closed_is_no_crash(streams: str, tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    done = shell(f'"$@" {streams}', *run_command("--store", store))
    assert done.returncode == 0, done.stderr
    assert_complete(store)


def test_a_log_whose_reader_went_away_does_not_stop_the_run(tmp_path: Path) -> None:
    """`farm run 2>&1 | head -c 10`: the pipe is closed within the first event, at the latest."""
    given = write_cases(str(tmp_path / "in.jsonl"), 12)
    store = str(tmp_path / "s")
    command = run_command("--store", store, "--input", given, "--shards", "3")
    done = shell('"$@" 2>&1 >/dev/null | head -c 10', *command)
    assert done.returncode == 0
    assert_complete(store)


def test_a_report_whose_reader_went_away_is_no_failure(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    done = shell('"$@" | head -c 10', *run_command("--store", store, "--quiet"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs pipes of a given size")
def test_a_log_that_nobody_reads_does_not_stop_the_run(tmp_path: Path) -> None:
    """A caller that waits for the end before it reads; the pipe holds a dozen events of 130."""
    store = make_store(str(tmp_path), cases=64, shards=64)
    unread, log = os.pipe()
    fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 4096)
    done = subprocess.run(
        run_command("--store", store), stdout=subprocess.PIPE, stderr=log, timeout=60, check=False
    )
    os.close(unread)
    os.close(log)
    assert done.returncode == 0
    assert json.loads(done.stdout)["complete"] is True
    assert_complete(store)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs pipes of a given size")
def test_a_failure_that_nobody_reads_does_not_keep_the_command_from_ending(tmp_path: Path) -> None:
    unread, log = os.pipe()
    fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 4096)
    os.write(log, b"x" * 4096)
    command = [*FARM, "status", "--store", str(tmp_path / "none")]
    assert subprocess.run(command, stderr=log, timeout=60, check=False).returncode == 1
    os.close(unread)
    os.close(log)


@needs_dev_full
def test_a_report_that_finds_no_space_is_a_failure_in_one_line(tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    done = shell('"$@" > /dev/full', *run_command("--store", store, "--quiet"))
    assert done.returncode == 3
    assert_one_line(done.stderr)
    assert_complete(store)


@needs_dev_full
@pytest.mark.parametrize("arguments", [["--version"], ["run", "--help"]], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_that_finds_no_space_names_standard_output(
    arguments: list[str], unbuffered: str
) -> None:
    given = f'PYTHONUNBUFFERED={unbuffered} "$@" > /dev/full'
    done = shell(given, sys.executable, "-m", "farm", *arguments)
    assert done.returncode == 3
    assert_one_line(done.stderr)
    assert done.stderr.startswith("farm: standard output: no space left on device")


@needs_dev_full
@pytest.mark.parametrize("where", ["2> /dev/full", "--log-file /dev/full"])
def test_a_log_that_finds_no_space_does_not_stop_the_run(where: str, tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    done = shell(f'"$@" {where}', *run_command("--store", store))
    assert done.returncode == 0
    assert '"complete":true' in done.stdout
    assert_complete(store)


@needs_dev_full
def test_wrong_usage_that_nobody_can_be_told_of_is_wrong_usage_all_the_same() -> None:
    assert shell('"$@" 2> /dev/full', *FARM, "bogus").returncode == 2
    assert shell('"$@" 2> /dev/full', *FARM, "status").returncode == 2
