"""No space, no rights, no locks: one line, exit 3, the old snapshot intact, resumable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disks import mounted, sudo
from tests.faults.runs import (
    assert_complete,
    assert_one_line,
    done_set,
    farm,
    make_store,
    temporaries,
)
from tests.faults.tracing import inject


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """Give a file system of 1 MiB."""
    with mounted("-t", "tmpfs", "-o", "size=1m", "none", at=str(tmp_path / "small")) as root:
        yield root


def fill(root: str) -> str:
    """Take all space that is left; give the file that holds it."""
    path = os.path.join(root, "filler")
    with open(path, "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    assert os.statvfs(root).f_bfree == 0
    return path


@pytest.mark.needs_root
def test_a_full_disk_stops_the_run_and_frees_its_own_leftovers(small: str) -> None:
    store = make_store(small)
    assert farm("worker", "--store", store, "--worker-id", "w").returncode == 0
    before = done_set(store)
    filler = fill(small)
    full = farm("run", "--store", store, "--quiet")
    assert full.returncode == 3
    assert "no space left on device" in full.stderr
    assert_one_line(full.stderr)
    assert done_set(store) == before
    assert temporaries(store) == []
    os.unlink(filler)
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


@pytest.mark.needs_root
def test_a_leftover_that_takes_the_last_space_is_swept_first(small: str) -> None:
    """A run that was killed on a nearly full disk must not keep the next one from starting."""
    store = make_store(small)
    os.rename(fill(small), f"{store}/.ledger.json.4194305.0a1b2c3d.1.tmp")
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


@pytest.mark.needs_root
def test_an_init_that_finds_no_space_leaves_nothing(small: str) -> None:
    given = os.path.join(small, "in.jsonl")
    with open(given, "w") as file:
        file.writelines(
            f'{{"id":"{index}","prompt":"p","expected":"x","response":"x"}}\n'
            for index in range(14000)
        )
    full = farm("init", "--store", f"{small}/store", "--input", given, "--quiet")
    assert full.returncode == 3
    assert_one_line(full.stderr)
    assert os.listdir(small) == ["in.jsonl"]


@pytest.mark.needs_root
def test_a_file_system_that_turned_read_only_stops_the_run(small: str) -> None:
    store = make_store(small)
    sudo("mount", "-o", "remount,ro", small)
    stopped = farm("run", "--store", store, "--quiet")
    assert stopped.returncode == 3
    assert "read-only file system" in stopped.stderr
    assert_one_line(stopped.stderr)
    assert farm("status", "--store", store).returncode == 0
    sudo("mount", "-o", "remount,rw", small)
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


@pytest.mark.needs_root
def test_a_finished_run_can_be_shown_from_a_read_only_file_system(small: str) -> None:
    store = make_store(small)
    assert farm("run", "--store", store, "--quiet").returncode == 0
    sudo("mount", "-o", "remount,ro", small)
    assert farm("run", "--store", store, "--quiet").returncode == 0
    worker = farm("worker", "--store", store, "--worker-id", "w")
    assert (worker.returncode, worker.stdout, worker.stderr) == (0, '{"claimed":false}\n', "")


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path) -> None:
    """EFBIG, which needs no rights to be had: files of at most 1 KiB."""
    store = make_store(str(tmp_path), cases=200, shards=8)
    limited = ("bash", "-c", 'ulimit -f 1; exec "$@"', "bash")
    stopped = farm("run", "--store", store, "--quiet", before=limited)
    assert stopped.returncode == 3
    assert "file too large" in stopped.stderr
    assert_one_line(stopped.stderr)
    assert temporaries(store) == []
    assert farm("run", "--store", store, "--quiet").returncode == 0
    assert_complete(store)


@pytest.mark.needs_strace
@pytest.mark.parametrize("refusal", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_a_file_system_without_locks_is_refused(refusal: str, tmp_path: Path) -> None:
    store = make_store(str(tmp_path))
    refused = farm(
        "run", "--store", store, "--quiet", before=inject("flock", 1, f"error={refusal}")
    )
    assert refused.returncode == 3
    assert "this file system has no locks: put the store on a local disk" in refused.stderr
    assert_one_line(refused.stderr)
