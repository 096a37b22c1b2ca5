"""The door for task files: the fixtures, and files that cannot be read."""

from __future__ import annotations

import filecmp
from importlib.resources import files
from pathlib import Path

import pytest

from farm.core.task import MAX_LINE_BYTES, RULES
from farm.errors import SpecError
from farm.files.tasks import validate_file

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples"


def test_the_ten_tasks_pass_two_of_each_category() -> None:
    check = validate_file(SAMPLES / "tasks.jsonl")
    assert check.errors == ()
    categories = [task.category for task in check.tasks]
    assert {name: categories.count(name) for name in set(categories)} == {
        "arithmetic": 2, "mcq": 2, "code_exec": 2, "classification": 2, "summary": 2,
    }  # fmt: skip
    code = {task.task_id: task.metadata["entry_point"] for task in check.tasks[4:6]}
    assert code == {"code_001": "add", "code_002": "is_even"}


def test_each_of_the_ten_broken_lines_trips_one_rule_and_all_rules_are_tripped() -> None:
    check = validate_file(SAMPLES / "tasks_bad.jsonl")
    assert check.validated == 0
    assert [(error.line_number, error.rule) for error in check.errors] == [
        (1, "bad_json"),
        (2, "missing_required"),
        (3, "unknown_field"),
        (4, "bad_type"),
        (5, "bad_value"),
        (6, "illegal_pair"),
        (7, "embedded_few_shot"),
        (8, "duplicate_task_id"),
        (9, "bad_value"),
        (10, "bad_value"),
    ]
    assert {error.rule for error in check.errors} == set(RULES)


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks_bad.jsonl"])
def test_the_package_carries_the_same_fixtures(name: str) -> None:
    packaged = files("farm") / "data" / name
    assert filecmp.cmp(str(packaged), SAMPLES / name, shallow=False)


def test_two_hundred_bad_lines_are_two_hundred_records(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(f'{{"task_id": "t{n}", "n": \n' for n in range(200)), "utf-8")
    check = validate_file(path)
    assert [error.line_number for error in check.errors] == list(range(1, 201))


def test_lines_are_numbered_on_behind_an_overlong_one(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"x" * (3 * MAX_LINE_BYTES) + b"\n" + b"{\n")
    found = [(error.line_number, error.rule) for error in validate_file(path).errors]
    assert found == [(1, "bad_value"), (2, "bad_json")]


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_task_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(SpecError, match="holds no task"):
        validate_file(path)


def test_what_is_no_readable_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        validate_file(tmp_path / "missing.jsonl")
    with pytest.raises(SpecError, match="is a directory"):
        validate_file(tmp_path)
    with pytest.raises(SpecError, match="is not a file name"):
        validate_file("a\x00b")


@pytest.mark.parametrize("head", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"], ids=["gzip", "zstd"])
def test_a_compressed_file_is_refused_as_one(tmp_path: Path, head: bytes) -> None:
    """Line by line it would be told to be no UTF-8."""
    path = tmp_path / "tasks.jsonl.gz"
    path.write_bytes(head + b"\x00\n" * 20)
    with pytest.raises(SpecError, match="is compressed; unpack it, a task file is plain text"):
        validate_file(path)
