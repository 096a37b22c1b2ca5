"""The snapshot commit: what is written, in which order, and what every failure leaves behind."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.errors import Corrupt, OutcomeUnknown, StorageError, StorageFull
from farm.files.atomic import Folder, Poison, make_folders, write_fully


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    opened = Folder(str(tmp_path))
    yield opened
    opened.close()


class Calls:
    """Records calls of the operating system on their way through, and can make one fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        self.failing: dict[tuple[str, str], int] = {}
        self._names: dict[int, str] = {}
        for name in ("open", "write", "fsync", "close", "rename", "link", "unlink"):
            monkeypatch.setattr(os, name, self._recorded(name, getattr(os, name)))

    def _recorded(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **named: Any) -> Any:
            first = given[0]
            what = self._names.get(first, "folder") if isinstance(first, int) else _kind(first)
            self.seen.append((call, what))
            if (call, what) in self.failing:
                raise OSError(self.failing[call, what], "")
            result = real(*given, **named)
            if call == "open":
                self._names[result] = what
            return result

        return recorded


def _kind(name: str) -> str:
    return "temporary" if name.endswith(".tmp") else name


def files(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}


def test_a_file_is_replaced_whole_and_for_its_owner_only(folder: Folder, tmp_path: Path) -> None:
    folder.replace("a", b"old")
    folder.replace("a", b"new and longer")
    assert files(tmp_path) == {"a": b"new and longer"}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_the_order_of_a_replacement_is_write_sync_rename_sync_of_the_folder(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the last sync a power cut may lose an acknowledged rename."""
    calls = Calls(monkeypatch)
    folder.replace("a", b"x")
    assert calls.seen == [
        ("open", "temporary"),
        ("write", "temporary"),
        ("fsync", "temporary"),
        ("close", "temporary"),
        ("rename", "temporary"),
        ("fsync", "folder"),
    ]


def test_all_files_created_together_are_durable_before_the_first_has_its_name(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    assert folder.create_once({"a": b"x", "b": b"y"}) == []
    order = [call for call, _ in calls.seen if call in {"fsync", "link", "unlink"}]
    assert order == ["fsync", "fsync", "link", "link", "unlink", "unlink", "fsync"]
    assert calls.seen[-1] == ("fsync", "folder")


def test_a_file_that_exists_is_named_and_left_as_it_is(folder: Folder, tmp_path: Path) -> None:
    folder.create_once({"a": b"first"})
    assert folder.create_once({"a": b"second", "b": b"new"}) == ["a"]
    assert files(tmp_path) == {"a": b"first", "b": b"new"}


def test_what_somebody_else_created_is_made_durable_before_it_is_counted_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may have died between his link and his sync of the folder."""
    folder.create_once({"a": b"x"})
    calls = Calls(monkeypatch)
    folder.create_once({"a": b"x"})
    assert calls.seen[-1] == ("fsync", "folder")


def test_a_short_write_is_followed_by_the_rest(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may take less than it is given; here it takes three bytes at a time."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    folder.replace("a", b"0123456789")
    assert files(tmp_path) == {"a": b"0123456789"}


def test_writing_nothing_writes_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY)
    write_fully(fd, b"")
    os.close(fd)
    assert files(tmp_path) == {"a": b""}


@pytest.mark.parametrize(
    ("call", "code", "kind"),
    [
        ("open", errno.EROFS, StorageError),
        ("write", errno.ENOSPC, StorageFull),
        ("write", errno.EDQUOT, StorageFull),
        ("write", errno.EFBIG, StorageFull),
        ("write", errno.EIO, StorageError),
        ("close", errno.EDQUOT, StorageFull),
        ("rename", errno.ENOSPC, StorageFull),
        ("rename", errno.EACCES, StorageError),
    ],
)
def test_a_failure_before_the_rename_leaves_the_old_file_and_nothing_else(
    folder: Folder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    code: int,
    kind: type[StorageError],
) -> None:
    folder.replace("a", b"old")
    calls = Calls(monkeypatch)
    calls.failing[call, "temporary"] = code
    with pytest.raises(StorageError) as failed:
        folder.replace("a", b"new")
    assert type(failed.value) is kind
    assert str(failed.value) == (
        f"{tmp_path}/a: {os.strerror(code).lower()}; what was committed is intact, "
        "run the same command again once it is mended"
    )
    calls.failing.clear()
    assert files(tmp_path) == {"a": b"old"}
    folder.replace("a", b"new")
    assert files(tmp_path) == {"a": b"new"}


@pytest.mark.parametrize("act", ["replace", "create_once"])
def test_a_failed_sync_of_a_file_is_never_tried_again(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The kernel marks the pages clean: a second fsync returns success and the bytes are gone."""
    folder.replace("a", b"old")
    calls = Calls(monkeypatch)
    calls.failing["fsync", "temporary"] = errno.EIO
    do: Callable[[], object] = (
        (lambda: folder.replace("a", b"new"))
        if act == "replace"
        else (lambda: folder.create_once({"b": b"new"}))
    )
    with pytest.raises(StorageError, match="fsync failed: Input/output error") as failed:
        do()
    assert not isinstance(failed.value, OutcomeUnknown)
    assert calls.seen.count(("fsync", "temporary")) == 1
    assert files(tmp_path) == {"a": b"old"}
    calls.failing.clear()
    with pytest.raises(StorageError, match="fsync failed"):
        do()
    assert calls.seen.count(("fsync", "temporary")) == 1


def test_a_failed_sync_of_the_folder_leaves_the_outcome_unknown_and_ends_all_commits(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new name is visible, but a power cut may take it back."""
    calls = Calls(monkeypatch)
    calls.failing["fsync", "folder"] = errno.EIO
    with pytest.raises(OutcomeUnknown, match="the last change may or may not be on disk"):
        folder.replace("a", b"new")
    calls.failing.clear()
    assert files(tmp_path) == {"a": b"new"}
    with pytest.raises(StorageError, match="syncing the folder failed: Input/output error"):
        folder.replace("a", b"newer")


def test_all_folders_of_one_store_are_poisoned_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt whose sync failed must not be followed by a ledger that counts on it."""
    poison = Poison()
    (tmp_path / "receipts").mkdir()
    ledger = Folder(str(tmp_path), poison=poison)
    receipts = Folder(str(tmp_path / "receipts"), poison=poison)
    calls = Calls(monkeypatch)
    calls.failing["fsync", "temporary"] = errno.EIO
    with pytest.raises(StorageError):
        receipts.create_once({"r": b"x"})
    calls.failing.clear()
    with pytest.raises(StorageError, match="fsync failed"):
        ledger.replace("a", b"x")
    ledger.close()
    receipts.close()


def test_a_real_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """A file-size limit stands in for a full disk; the kernel itself refuses the write."""
    script = """
import resource, sys
from farm.errors import StorageFull
from farm.files.atomic import Folder
folder = Folder(sys.argv[1])
folder.replace("a", b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
large = b"x" * 5000
for act in (lambda: folder.replace("a", large), lambda: folder.create_once({"b": large})):
    try:
        act()
    except StorageFull as full:
        print(full)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
folder.replace("c", large)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [
        f"{tmp_path}/a: file too large",
        f"{tmp_path}/b: file too large",
    ]
    assert files(tmp_path) == {"a": b"old", "c": b"x" * 5000}


def test_a_sweep_removes_the_temporary_files_of_dead_writers_and_nothing_else(
    folder: Folder, tmp_path: Path
) -> None:
    """The names hold the writer's pid, and a token that no other process has."""
    dead = {".a.10.0badcafe.1.tmp", ".b.json.10.00000000.22.tmp"}
    kept = {".a.11.0badcafe.1.tmp", "a", ".hidden", "a.10.0badcafe.1.tmp", ".a.10.1.tmp"}
    for name in kept | dead:
        (tmp_path / name).touch()
    folder.sweep(alive=lambda pid: pid == 11)
    assert files(tmp_path).keys() == kept


def test_the_holder_of_the_lock_sweeps_whatever_the_pid(folder: Folder, tmp_path: Path) -> None:
    """In a container the killed process before us often had the very same id."""
    (tmp_path / f".a.{os.getpid()}.0badcafe.1.tmp").touch()
    folder.sweep()
    assert files(tmp_path) == {}


def test_reading_what_is_missing_is_told_apart_from_what_cannot_be_read(
    folder: Folder, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dir").mkdir()
    with pytest.raises(Corrupt, match="a link, where a file was written"):
        folder.read("link")
    with pytest.raises(Corrupt, match="a folder, where a file was written"):
        folder.read("dir")


def test_a_folder_that_cannot_be_opened_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(StorageError, match=f"^{tmp_path}/{name}: no"):
            Folder(str(tmp_path / name))


def test_a_folder_may_be_closed_twice(folder: Folder) -> None:
    folder.close()
    folder.close()


# make_folders


def test_missing_parents_are_made_and_each_name_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    path = tmp_path / "a" / "b"
    assert make_folders(str(path)) == [str(tmp_path / "a"), str(path)]
    synced = [what for call, what in calls.seen if call == "fsync"]
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert make_folders(str(path)) == []


def test_parents_made_for_a_folder_that_cannot_be_made_are_removed_again(tmp_path: Path) -> None:
    """A name of 300 bytes is too long for any file system."""
    with pytest.raises(StorageError, match="file name too long"):
        make_folders(str(tmp_path / "new" / "newer" / ("x" * 300)))
    assert files(tmp_path) == {}


def test_a_file_in_the_way_is_a_storage_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(StorageError, match="not a directory"):
        make_folders(str(tmp_path / "file" / "a"))
    assert files(tmp_path) == {"file": b"x"}


def test_a_folder_that_somebody_else_made_meanwhile_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else our failure would take away what another init is about to use."""
    real = os.mkdir

    def mkdir(path: str, mode: int) -> None:
        real(path, mode)
        raise FileExistsError(errno.EEXIST, "", path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert make_folders(str(tmp_path / "a")) == []
    assert (tmp_path / "a").is_dir()
