"""Locks between processes of one host: flock on a file that is never unlinked.

The kernel drops the lock when its holder dies, so no stale lock can be left. Unlinking the file
would make two owners possible; the descriptor is close-on-exec so that no child keeps it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from farm.errors import Busy, StorageError
from farm.files.atomic import open_written, storage_errors

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05
_COMMAND_BYTES = 200  # of a command line, enough to know it


class FileLock:
    """An exclusive advisory lock on `path`: a file that is created when missing, or a folder.

    The lock of a folder has no body, so it cannot say who holds it. Raises `Corrupt` where
    something else than a file stands in the place of one.
    """

    def __init__(self, path: str, *, folder: bool = False) -> None:
        self.path = path
        self._is_folder = folder
        with storage_errors(path):
            if folder:
                self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            else:
                self._fd = open_written(path, os.O_RDWR | os.O_CREAT)

    def try_acquire(self) -> bool:
        """Take the lock if it is free; raises `StorageError` where there are no locks."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NO_LOCKS:
                reason = "this file system has no locks: put the store on a local disk"
                raise StorageError(path=self.path, reason=reason) from error
            raise StorageError(path=self.path, reason=os.strerror(error.errno or 0)) from error
        return True

    def acquire(self, *, timeout_s: float) -> None:
        """Take the lock, waiting for others; after the timeout raise `Busy`, naming the holder."""
        end = time.monotonic() + timeout_s
        pause = _FIRST_PAUSE_S
        while not self.try_acquire():
            if time.monotonic() >= end:
                raise Busy(
                    f"{self.path}: held by {self.holder()} for over {timeout_s:g} s; "
                    "let it finish or end it, then run the same command again"
                )
            # flock has no timeout of its own; polling costs a microsecond a try
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    @contextmanager
    def held(self, *, timeout_s: float) -> Iterator[None]:
        """Hold the lock for the length of a block."""
        self.acquire(timeout_s=timeout_s)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give the lock back; the file stays."""
        with storage_errors(self.path):
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def say(self, body: str) -> None:
        """Write who holds the lock, for the messages of those who wait; holders only."""
        data = body.encode()
        with storage_errors(self.path):
            os.pwrite(self._fd, data, 0)
            os.ftruncate(self._fd, len(data))

    def body(self) -> str:
        """Read what the holder wrote, at most 1,000 bytes of it, fit for a message.

        What is not printable is shown as ``?``: the file may have been edited by anybody.
        """
        if self._is_folder:
            return ""
        with storage_errors(self.path):
            text = os.pread(self._fd, 1000, 0).decode("utf-8", "replace").strip()
        return _printable(text)

    def holder(self) -> str:
        """Say who holds the lock: what he wrote, else which process that is, as far as is known."""
        return self.body() or _process_with(os.fstat(self._fd)) or "another process"

    def close(self) -> None:
        """Close the file, which also gives the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _process_with(file: os.stat_result) -> str:
    """Find who has a file locked in the kernel's list; "" where there is none, as on macOS."""
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:  # as in `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == device and int(fields[4]) > 0:
                    return f"process {fields[4]}{_called(fields[4])}"
    except (OSError, ValueError, IndexError):
        return ""
    return ""


def _called(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES).split(b"\0")
    except OSError:
        return ""
    command = b" ".join(words).decode("utf-8", "replace").strip()
    return f" ({_printable(command)})" if command else ""


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
