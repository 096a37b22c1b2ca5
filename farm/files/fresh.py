"""A file that this process alone creates, writes once from start to end, and syncs.

Errors of the disk are translated here: no space or quota is StorageFull, every other failure
is StorageError. Names that others must never see half written are the business of the caller,
who stages in a directory of its own and renames; syncing that directory is the caller's too.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from farm.files.atomic import full_sync, storage_errors, write_fully


class FreshFile:
    """A new file, mode 0600, created exclusively and never through a symbolic link.

    Raises StorageError when the name is taken or the directory cannot be written. Used with
    `with`, it is closed at the end, but synced only by `sync`: after an error nobody needs it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with storage_errors(path):
            self._fd = os.open(path, flags, 0o600)

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        with storage_errors(self.path):
            write_fully(self._fd, data)
        self.size += len(data)

    def sync(self) -> None:
        """Return once the content is on the disk.

        A failure is final: a second fsync may report success for pages that were dropped.
        """
        with storage_errors(self.path):
            full_sync(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)
