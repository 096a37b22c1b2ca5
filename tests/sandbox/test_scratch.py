"""What a program leaves on disk is measured and deleted, however it is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.sandbox.lockdown import Walls
from farm.sandbox.runner import Sandbox, Settings, checked_work
from farm.sandbox.scratch import Scratch, delete_tree, exceeds


def test_deep_and_locked_trees_are_deleted(tmp_path: Path) -> None:
    """3,000 levels are past the longest path and the deepest recursion; a lock is no obstacle."""
    top = tmp_path / "top"
    top.mkdir()
    home = os.open(".", os.O_RDONLY)
    os.chdir(top)
    try:
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        Path("file").write_text("x")
    finally:
        os.fchdir(home)
        os.close(home)
    (top / "locked").mkdir()
    (top / "locked" / "inside").write_text("x")
    (top / "locked").chmod(0)
    delete_tree(str(top))
    assert not top.exists()


def test_a_link_is_deleted_and_not_followed(tmp_path: Path) -> None:
    """What a link points to is somebody else's."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    delete_tree(str(tmp_path / "top"))
    assert (tmp_path / "kept" / "file").read_text() == "x"


def test_a_tree_is_measured_by_bytes_and_by_entries(tmp_path: Path) -> None:
    """Either limit is enough."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 100_000)
    assert not exceeds(str(tmp_path), byte_limit=200_000, file_limit=2)
    assert exceeds(str(tmp_path), byte_limit=50_000, file_limit=2)
    assert exceeds(str(tmp_path), byte_limit=200_000, file_limit=1)


def test_a_used_directory_is_set_aside_and_the_next_is_empty(tmp_path: Path) -> None:
    """The next program does not wait for the deletion of what the last one left."""
    scratch = Scratch(str(tmp_path), own_file_system=False)
    Path(scratch.path, "left").write_text("x")
    assert not scratch.is_empty()
    aside = scratch.renew()
    assert aside is not None
    assert Path(aside, "left").read_text() == "x"
    assert scratch.is_empty()
    scratch.remove()
    assert not tmp_path.exists()


@pytest.mark.parametrize("walls", [Walls(), Walls(namespaces=False)], ids=["own", "directory"])
def test_a_program_cannot_fill_the_disk(walls: Walls) -> None:
    """32 MiB and 1,024 files: the file system refuses, or the zygote ends the program."""
    code = (
        "def f():\n"
        "    for n in range(4000):\n"
        "        with open(f'{n}', 'wb') as file: file.write(b'0' * (1 << 20))\n"
    )
    with Sandbox(Settings(walls=walls), slots=1) as sandbox:
        filled = sandbox.run(checked_work(code, "f() is None", timeout_s=5.0))
        after = sandbox.run(
            checked_work("import os\ndef f(): return os.listdir()", "f() == []", timeout_s=3.0)
        )
    assert filled.outcome == "error"
    assert "No space left" in filled.detail or filled.detail.startswith("scratch_limit")
    assert after.outcome == "pass"
