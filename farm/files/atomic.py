"""The snapshot commit: a file is replaced whole and durably, or not at all.

Order is everything: temporary file in the same folder, full write, fsync, rename, fsync of the
folder, and only then may anybody be told. An fsync that failed is never tried again: the kernel
marks the pages clean and the second call would lie. The folder is then poisoned for this
process, and so are all that share its `Poison`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

from farm.errors import Corrupt, OutcomeUnknown, StorageError, StorageFull

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# errnos by which a file system says that it cannot do a full flush, not that one failed
_NO_FULL_FLUSH = {errno.ENOTSUP, errno.ENOTTY, errno.EINVAL, errno.ENODEV}
# errnos by which opening says that there is something, and no file
_NO_FILE = {errno.EISDIR: "a folder", errno.ELOOP: "a link", errno.ENXIO: "a pipe or device"}
_INSTEAD = "where a file was written"
_counter = count(1)
# a killed process leaves its temporary files, and in a container the next one has the same pid
_process = os.urandom(4).hex()
_TEMPORARY = re.compile(r"\..+\.(\d+)\.[0-9a-f]{8}\.\d+\.tmp")


class Poison:
    """Remembers the sync that failed; shared by all folders of one store."""

    def __init__(self) -> None:
        self.reason = ""

    def check(self, path: str) -> None:
        """Refuse to go on after a failed sync; raises `StorageError`."""
        if self.reason:
            raise StorageError(path=path, reason=self.reason)


class Folder:
    """An open directory in which files are made and replaced durably.

    Every method raises `StorageFull` or `StorageError` with the old state intact, and
    `OutcomeUnknown` when the new state may or may not survive a power cut.
    """

    def __init__(self, path: str, *, poison: Poison | None = None) -> None:
        self.path = path
        self.poison = poison or Poison()
        with storage_errors(path):
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the directory; files in it are not touched."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def replace(self, name: str, data: bytes) -> None:
        """Put `data` in place of the file `name`, durable on return."""
        self._replace(name, (data,), mode=0o600)

    def replace_by_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Put what `pieces` yields in place of the file `name`, durable on return.

        For results and not for snapshots: the file gets the mode that the process gives to new
        files. When `pieces` fails, its error passes and the old file stands.
        """
        self._replace(name, pieces, mode=0o666)

    def _replace(self, name: str, pieces: Iterable[bytes], *, mode: int) -> None:
        self.poison.check(self.path)
        temporary = self._write_temporary(name, pieces, mode=mode)
        try:
            with storage_errors(self._at(name)):
                os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except StorageError:
            self._discard(temporary)
            raise
        self.sync()

    def create_once(self, files: Mapping[str, bytes]) -> list[str]:
        """Create files that must not exist yet, durable on return; give the names that did exist.

        Those are left as they are. All files are written and synced before the first gets its
        name, and the folder is synced once.
        """
        self.poison.check(self.path)
        existed: list[str] = []
        temporaries: dict[str, str] = {}
        try:
            for name, data in files.items():
                temporaries[name] = self._write_temporary(name, (data,))
            for name, temporary in temporaries.items():
                with storage_errors(self._at(name)):
                    try:
                        os.link(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
                    except FileExistsError:
                        existed.append(name)
        finally:
            for temporary in temporaries.values():
                self._discard(temporary)
        self.sync()
        return existed

    def sync(self) -> None:
        """Make the names in this folder durable; a failure poisons and is of unknown outcome."""
        try:
            full_sync(self.fd)
        except OSError as error:
            self.poison.reason = f"syncing the folder failed: {os.strerror(error.errno or 0)}"
            reason = f"{self.poison.reason}; the last change may or may not be on disk"
            raise OutcomeUnknown(path=self.path, reason=reason) from error

    def sweep(self, *, alive: Callable[[int], bool] | None = None) -> None:
        """Remove the temporary files of writers that are no longer alive, told by their pid.

        Without `alive` all of them go: for the holder of the lock under which they are written.
        """
        with storage_errors(self.path):
            names = os.listdir(self.fd)
        for name in names:
            writer = _TEMPORARY.fullmatch(name)
            if writer and not (alive and alive(int(writer[1]))):
                self._discard(name)

    def read(self, name: str) -> bytes:
        """Read a whole file; raises `FileNotFoundError`, or `StorageError` on anything else.

        Anything in its place that is no file is damage: `Corrupt`.
        """
        path = self._at(name)
        with (
            storage_errors(path, passing=(FileNotFoundError,)),
            open(open_written(path, dir_fd=self.fd), "rb") as file,
        ):
            return file.read()

    def _write_temporary(self, name: str, pieces: Iterable[bytes], *, mode: int = 0o600) -> str:
        temporary = f".{name}.{os.getpid()}.{_process}.{next(_counter)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with storage_errors(self._at(name)):
            fd = os.open(temporary, flags, mode, dir_fd=self.fd)
        try:
            try:
                for piece in pieces:
                    with storage_errors(self._at(name)):
                        write_fully(fd, piece)
                self._sync_file(fd, name)
            finally:
                # a close that fails after a good fsync (quota, network) is a failure as well
                with storage_errors(self._at(name)):
                    os.close(fd)
        except BaseException:  # pieces are made on the way, by code that may fail in its own ways
            self._discard(temporary)
            raise
        return temporary

    def _sync_file(self, fd: int, name: str) -> None:
        try:
            full_sync(fd)
        except OSError as error:
            self.poison.reason = f"fsync failed: {os.strerror(error.errno or 0)}"
            kind = StorageFull if error.errno in _FULL else StorageError
            raise kind(path=self._at(name), reason=self.poison.reason) from error

    def _discard(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self.fd)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)


def write_fully(fd: int, data: bytes) -> None:
    """Write all of `data`; a short write is followed by the rest."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def full_sync(fd: int) -> None:
    """Flush a file or directory to the medium itself, past the drive's cache on macOS."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_FLUSH:
                raise
        else:
            return
    os.fsync(fd)


@contextlib.contextmanager
def storage_errors(path: str, *, passing: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Translate what the operating system says of `path` into farm's errors, once, here."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        raise storage_error(path, error) from error


def open_written(path: str, flags: int = os.O_RDONLY, *, dir_fd: int | None = None) -> int:
    """Open a file of a store and give its descriptor; `dir_fd` is of the folder that `path` is in.

    Raises `Corrupt` where a link, a folder, a pipe or a device stands in its place: farm writes
    files, and to wait for a pipe or to follow a link is to believe somebody else. What else the
    operating system says of it passes.
    """
    name = path if dir_fd is None else os.path.basename(path)
    # a pipe would be waited for; to a file it means nothing
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise Corrupt(path=path, reason=f"{_NO_FILE[error.errno]}, {_INSTEAD}") from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe or device"
        raise Corrupt(path=path, reason=f"{found}, {_INSTEAD}")
    return fd


def storage_error(path: str, error: OSError) -> StorageError:
    """Say in farm's errors what the operating system says of `path`."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    kind = StorageFull if error.errno in _FULL else StorageError
    return kind(path=path, reason=reason.lower())


def make_folders(path: str) -> list[str]:
    """Create a directory and its missing parents, each name durable; give those made.

    When that fails, those made are removed again. Raises `StorageError`.
    """
    missing: list[str] = []
    here = os.path.abspath(path)
    while not os.path.isdir(here):
        missing.append(here)
        here = os.path.dirname(here)
    made: list[str] = []
    try:
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):  # somebody was quicker: theirs, not ours
                with storage_errors(folder, passing=(FileExistsError,)):
                    os.mkdir(folder, 0o700)
                made.append(folder)
            parent = Folder(os.path.dirname(folder))
            try:
                parent.sync()
            finally:
                parent.close()
    except BaseException:
        remove_folders(made)
        raise
    return made


def remove_folders(made: Sequence[str]) -> None:
    """Remove directories that `make_folders` made, as far as nobody has put anything into them."""
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
