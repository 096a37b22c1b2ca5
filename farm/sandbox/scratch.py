"""The directory a program may write in: empty at the start, bounded, gone afterwards.

In a mount namespace it is a file system of its own with a size; elsewhere it is a directory
that the zygote measures while the program runs. A program that left something behind gets its
directory set aside, not emptied: the next one starts at once and the runner deletes later.
"""

from __future__ import annotations

import os
import stat

from farm.sandbox import limits, namespaces


class Scratch:
    """The scratch directory of one slot; `path` is where the next program works."""

    def __init__(self, base: str, *, own_file_system: bool) -> None:
        self.base = base
        self.own_file_system = own_file_system
        self.path = os.path.join(base, "work")
        self._set_aside = 0
        self._make()

    def _make(self) -> None:
        os.mkdir(self.path, 0o700)
        if self.own_file_system:
            namespaces.mount_scratch(
                self.path, megabytes=limits.SCRATCH_MEGABYTES, files=limits.SCRATCH_FILES
            )

    def is_empty(self) -> bool:
        """Say whether the last program left nothing."""
        with os.scandir(self.path) as entries:
            return next(entries, None) is None

    def renew(self) -> str | None:
        """Start over with an empty directory; return a path to delete, if there is one."""
        if self.own_file_system:
            namespaces.drop_scratch(self.path)
            os.rmdir(self.path)
            self._make()
            return None
        self._set_aside += 1
        left = os.path.join(self.base, f"left-{self._set_aside}")
        os.rename(self.path, left)
        self._make()
        return left

    def remove(self) -> None:
        """Delete the directory and its base, with all that programs left."""
        if self.own_file_system:
            namespaces.drop_scratch(self.path)
        delete_tree(self.base)

    def over_quota(self) -> bool:
        """Say whether the directory holds more than it may; a file system says so itself."""
        return not self.own_file_system and exceeds(
            self.path, byte_limit=limits.SCRATCH_MEGABYTES << 20, file_limit=limits.SCRATCH_FILES
        )


def exceeds(path: str, *, byte_limit: int, file_limit: int) -> bool:
    """Say whether a tree holds more bytes or entries than allowed; stops looking once it does."""
    used = seen = 0
    todo = [path]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if used > byte_limit or seen > file_limit:
                        return True
        except OSError:
            continue  # removed or locked meanwhile: what can be seen is what is counted
    return False


def delete_tree(top: str) -> None:
    """Delete a directory a program filled, however deep, long-named or locked its parts are.

    Directories are moved up to `top` before they are emptied, so neither recursion nor the
    length of a path grows with their depth. Never follows a symbolic link.
    """
    moved = 0
    todo = [top]
    while todo:
        directory = todo.pop()
        try:
            os.chmod(directory, stat.S_IRWXU)
            with os.scandir(directory) as entries:
                listed = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        inner: list[str] = []
        for path, is_directory in listed:
            try:
                if not is_directory:
                    os.unlink(path)
                elif directory == top:
                    inner.append(path)
                else:
                    moved += 1
                    flat = os.path.join(top, f"farm-moved-{moved}")
                    os.rename(path, flat)
                    inner.append(flat)
            except OSError:
                continue
        if directory != top:
            try:
                os.rmdir(directory)
            except OSError:
                continue
        todo += inner
    try:
        os.rmdir(top)
    except OSError:
        return
