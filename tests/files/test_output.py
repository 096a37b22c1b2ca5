"""Result files: replaced whole or not at all, written through where renaming would destroy."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.errors import SpecError, StorageError
from farm.files.output import append_output, read_input, write_output


def test_pieces_become_the_file_with_the_mode_of_new_files(tmp_path: Path) -> None:
    """A page that a web server is to show is not 0600, as a store's files are."""
    path = tmp_path / "page.html"
    path.write_text("old")
    before = os.umask(0o022)
    try:
        write_output(str(path), [b"one ", b"", b"two"])
    finally:
        os.umask(before)
    assert path.read_bytes() == b"one two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["page.html"]


def test_when_the_pieces_fail_the_old_file_stands_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise SpecError("a damaged store")

    with pytest.raises(SpecError):
        write_output(str(path), broken())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_output(str(link), [b"new"])
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_ordinary_file_is_written_through_and_stays(tmp_path: Path) -> None:
    """As root a rename would put a file in the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_output(str(pipe), [b"a", b"b"])
    reader.join(timeout=10)
    assert read == [b"ab"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_output(os.devnull, [b"x"])
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "file"):
        with pytest.raises(StorageError, match=str(tmp_path)):
            write_output(str(path), [b"x"])
    with pytest.raises(StorageError, match="is a directory"):
        append_output(str(tmp_path), b"x")
    with pytest.raises(SpecError, match="cannot be read: is a directory"):
        read_input(str(tmp_path))


def test_a_summary_keeps_what_other_steps_wrote(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    append_output(str(path), b"one\n")
    append_output(str(path), b"two\n")
    assert path.read_text() == "one\ntwo\n"
