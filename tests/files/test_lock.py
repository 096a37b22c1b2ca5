"""Locks between processes: who holds one is named, and a dead holder holds nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.errors import Busy, Corrupt, StorageError
from farm.files.lock import FileLock

HOLDER = """
import sys
from farm.files.lock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire(timeout_s=0)
lock.say("process 42 since noon")
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    """Another process that holds the lock until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_the_lock_of_another_process_is_busy_and_its_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    try:
        lock = FileLock(str(path))
        assert not lock.try_acquire()
        with pytest.raises(Busy) as busy:
            lock.acquire(timeout_s=0)
        assert str(busy.value) == (
            f"{path}: held by process 42 since noon for over 0 s; "
            "let it finish or end it, then run the same command again"
        )
        lock.close()
    finally:
        end(process)


def test_a_killed_holder_gives_its_lock_back_at_once(tmp_path: Path) -> None:
    """The kernel drops it: nobody ever has to unlock by hand."""
    path = tmp_path / "lock"
    end(holder(path))
    lock = FileLock(str(path))
    assert lock.try_acquire()
    lock.close()


def test_two_handles_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    first, second = FileLock(str(tmp_path / "lock")), FileLock(str(tmp_path / "lock"))
    with first.held(timeout_s=0):
        assert not second.try_acquire()
        with pytest.raises(Busy, match=r"held by .* for over 0.001 s"):
            second.acquire(timeout_s=0.001)
    with second.held(timeout_s=0):
        assert not first.try_acquire()
    first.close()
    second.close()


def test_a_block_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    first, second = FileLock(str(tmp_path / "lock")), FileLock(str(tmp_path / "lock"))

    def fail() -> None:
        with first.held(timeout_s=0):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    assert second.try_acquire()
    first.close()
    second.close()


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    """Else the resume of a killed run would wait for a forgotten grandchild."""
    lock = FileLock(str(tmp_path / "lock"))
    lock.acquire(timeout_s=0)
    child = subprocess.Popen(
        [sys.executable, "-c", "input('up')"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    try:
        # started is not yet up: its inherited descriptors are closed a moment later
        assert child.stdout is not None
        assert child.stdout.read(2) == b"up"
        lock.close()
        other = FileLock(str(tmp_path / "lock"))
        assert other.try_acquire()
        other.close()
    finally:
        end(child)


def test_closing_gives_the_lock_back_and_the_file_stays(tmp_path: Path) -> None:
    """A lock file that is unlinked makes two owners possible."""
    lock = FileLock(str(tmp_path / "lock"))
    lock.acquire(timeout_s=0)
    inode = (tmp_path / "lock").stat().st_ino
    lock.close()
    lock.close()
    again = FileLock(str(tmp_path / "lock"))
    assert again.try_acquire()
    again.close()
    assert (tmp_path / "lock").stat().st_ino == inode


def test_what_the_holder_says_replaces_what_the_one_before_said(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "lock"))
    lock.say("a long name of a holder")
    lock.say("short")
    assert lock.body() == "short"
    lock.close()


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b"\x1b[2Jgone\nnew line\x00", "?[2Jgone?new line?"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 5000, "x" * 1000),
    ],
)
def test_a_foreign_body_cannot_hurt_the_message_that_shows_it(
    tmp_path: Path, body: bytes, shown: str
) -> None:
    """Anybody may have edited the file; control characters do not reach a terminal."""
    (tmp_path / "lock").write_bytes(body)
    lock = FileLock(str(tmp_path / "lock"))
    assert lock.body() == shown
    lock.close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_apart_from_a_busy_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(code, "")

    lock = FileLock(str(tmp_path / "lock"))
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        with pytest.raises(StorageError, match="this file system has no locks: put the store on"):
            lock.try_acquire()
    lock.close()


def test_a_lock_is_never_followed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(Corrupt, match="a link, where a file was written"):
        FileLock(str(tmp_path / "lock"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="needs the kernel's list of locks")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_holder_that_said_nothing_is_named_all_the_same(kind: str, tmp_path: Path) -> None:
    """Nobody writes his name for the length of one commit; the kernel knows whose the lock is."""
    path = str(tmp_path if kind == "folder" else tmp_path / "lock")
    script = (
        "import sys; from farm.files.lock import FileLock;"
        "lock = FileLock(sys.argv[1], folder=sys.argv[2] == 'folder');"
        "lock.acquire(timeout_s=9); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", script, path, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        waiting = FileLock(path, folder=kind == "folder")
        with pytest.raises(
            Busy, match=rf"held by process {holder.pid} \(.*python.*\) for over 0 s"
        ):
            waiting.acquire(timeout_s=0)
        waiting.close()
        holder.communicate()
