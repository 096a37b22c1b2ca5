"""A file that a person asked a result into: replaced whole, or written through.

An ordinary file is written beside its place and renamed over it, so that whoever reads it sees
the old result or the new one. What is no ordinary file (a pipe, a terminal, /dev/null) is
written through: renaming would replace it by a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from farm.errors import SpecError
from farm.files.atomic import Folder, storage_errors, write_fully


def write_output(path: str, pieces: Iterable[bytes]) -> None:
    """Write the pieces as the file at `path`, durable on return; links are followed.

    Raises `StorageError` with the old file intact, also when `pieces` fails on its way.
    """
    if _is_special(path):
        with storage_errors(path):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        _write_and_close(fd, path, pieces)
        return
    head, name = os.path.split(os.path.realpath(path))
    folder = Folder(head)
    try:
        folder.replace_by_pieces(name, pieces)
    finally:
        folder.close()


def append_output(path: str, data: bytes) -> None:
    """Append to a file that others may append to as well, such as a CI job's step summary."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with storage_errors(path):
        fd = os.open(path, flags, 0o666)
    _write_and_close(fd, path, [data])


def read_input(path: str) -> bytes:
    """Read a whole file that a person named; raises `SpecError` when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError(f"{path!r} cannot be read: {reason}") from error


def _is_special(path: str) -> bool:
    with storage_errors(path, passing=(FileNotFoundError,)):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return False
    return not stat.S_ISREG(mode)


def _write_and_close(fd: int, path: str, pieces: Iterable[bytes]) -> None:
    try:
        for piece in pieces:
            with storage_errors(path):
                write_fully(fd, piece)
    finally:
        with storage_errors(path):
            os.close(fd)


@contextmanager
def open_output(path: str) -> Iterator[Callable[[bytes], None]]:
    """Open a file to be written from its beginning, piece by piece, by the function this gives.

    Whoever follows the file sees each piece when it was written. Raises `StorageError`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with storage_errors(path):
        fd = os.open(path, flags, 0o666)

    def write(data: bytes) -> None:
        with storage_errors(path):
            write_fully(fd, data)

    try:
        yield write
    finally:
        os.close(fd)
