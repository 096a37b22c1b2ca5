"""Every bad input ends in one clear message, exit code 1, and no store."""

from __future__ import annotations

import gzip
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.shell import Done, farm

GOOD = b'{"id":"a","prompt":"p","expected":"e","response":"r"}'


def record(**fields: object) -> bytes:
    """A good record with some fields replaced; None leaves one out."""
    whole = {"id": "a", "prompt": "p", "expected": "e", "response": "r"} | fields
    return json.dumps({key: value for key, value in whole.items() if value is not None}).encode()


def refused(tmp_path: Path, *options: str, command: str = "init") -> Done:
    """Run a command that must refuse its input and leave nothing behind."""
    store = tmp_path / "store"
    done = farm(command, "--store", str(store), *options)
    assert done.code == 1
    assert done.out == b""
    assert done.events == []
    assert not store.exists()
    return done


# name of the file, its bytes, what the one line must say: place, field, what is wrong, rule
ARRAYS = {
    "truncated": (b"[" + GOOD + b",{", r"index 1: .*ends before.*\[truncated\]"),
    "trailing document": (b"[" + GOOD + b"]\n[]", r"follows the end.*\[trailing_document\]"),
    "unknown field": (b"[" + record(score=1) + b"]", r"index 0: 'score': .*\[unknown_field\]"),
    "missing field": (b"[" + record(response=None) + b"]",
                      r"index 0: response: is missing.*\[missing_field\]"),
    "wrong type": (b"[" + GOOD + b"," + record(id="b", prompt=7) + b"]",
                   r"index 1: prompt: must be text, this is a number.*\[bad_type\]"),
    "empty id": (b"[" + record(id="") + b"]", r"index 0: id: is empty.*\[empty_value\]"),
    "empty expected": (b"[" + record(expected="") + b"]",
                       r"index 0: expected: is empty.*\[empty_value\]"),
    "over-long id": (b"[" + record(id="i" * 257) + b"]",
                     r"index 0: id: has 257 bytes, the limit is 256.*\[too_long\]"),
    "over-long text": (b"[" + record(response="x" * 100_001) + b"]",
                       r"index 0: response: has 100001 bytes, the limit is 100000.*\[too_long\]"),
    "duplicate ids": (b"[" + GOOD + b"," + GOOD + b"]",
                      r"index 1: id: 'a' is also the id of index 0.*\[duplicate_id\]"),
    "duplicate key": (b'[{"id":"a","prompt":"p","expected":"e","response":"r","id":"b"}]',
                      r"index 0: id: appears more than once.*\[duplicate_key\]"),
    "duplicate key, escaped": (b'[{"id":"a","prompt":"p","expected":"e","response":"r",'
                               b'"\\u0069d":"b"}]',
                               r"index 0: id: appears more than once.*\[duplicate_key\]"),
    "NaN": (b'[{"id":"a","prompt":"p","expected":"e","response":"r","confidence":NaN}]',
            r"index 0: confidence: NaN is no JSON number.*\[nan\]"),
    "lone surrogate": (b'[{"id":"a","prompt":"\\ud800","expected":"e","response":"r"}]',
                       r"index 0: prompt: holds half a surrogate pair.*\[bad_unicode\]"),
    "invalid UTF-8": (b"[" + GOOD.replace(b'"p"', b'"\xff"') + b"]",
                      r"index 0: byte \d+ is not UTF-8.*\[bad_unicode\]"),
    "no record": (b"[]", r"the array is empty.*\[empty_file\]"),
    "empty file": (b"", r"holds no record.*\[empty_file\]"),
    "no array": (b'"text"', r"a JSON array is expected.*\[wrong_format\]"),
    "nested": (b"[" * 200_000, r"nested too deep.*\[bad_json\]"),
}  # fmt: skip
LINES = {
    "truncated": (GOOD + b'\n{"id":"b","pro', r"line 2: the file ends in .*\[truncated\]"),
    "trailing document": (GOOD + GOOD, r"line 1: .*follows the end.*\[trailing_document\]"),
    "over-long line": (GOOD + b"\n" + record(id="b", response="x" * 3_300_000),
                       r"line 2: .*bytes.*\[.*too_long.*\]"),
    "no object": (GOOD + b"\n[1]", r"line 2: a record must be an object, .* a list.*\[bad_type\]"),
    "duplicate ids": (GOOD + b"\n\n" + GOOD,
                      r"line 3: id: 'a' is also the id of line 1.*\[duplicate_id\]"),
}  # fmt: skip
FILES = [(f"{name}, array", "in.json", *case) for name, case in ARRAYS.items()]
FILES += [(f"{name}, lines", "in.jsonl", *case) for name, case in LINES.items()]
FILES += [
    ("gz cut short", "in.jsonl.gz", gzip.compress(GOOD * 100)[:-20], r"cut short.*\[truncated\]"),
    ("no gz", "in.jsonl.gz", GOOD, r"is no gz stream.*\[.*\]"),
    ("gz bomb", "in.jsonl.gz", gzip.compress(b" " * 80_000_000), r"times its size.*\[bomb\]"),
    ("no zst", "in.jsonl.zst", GOOD, r"is no zst stream.*\[.*\]"),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Done]]:
    """Every bad file and what the command said of it; many at a time, since each waits its turn."""

    # made here and not by the threads: the factory's first call makes its root, once per caller
    folders = [tmp_path_factory.mktemp("bad") for _ in FILES]

    def judge(case: tuple[str, str, bytes, str], folder: Path) -> tuple[Path, Done]:
        given = folder / case[1]
        given.write_bytes(case[2])
        return given, refused(folder, "--input", str(given), "--shards", "4")

    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip((case[0] for case in FILES), pool.map(judge, FILES, folders), strict=True))


@pytest.mark.parametrize(("case", "message"), [(case[0], case[3]) for case in FILES])
def test_a_bad_file_is_refused_in_one_line(
    verdicts: dict[str, tuple[Path, Done]], case: str, message: str
) -> None:
    """The line names the file, the place in it, the field and the rule."""
    given, done = verdicts[case]
    assert len(done.failures) == 1, done.err
    assert done.failures[0].startswith(f"farm: {given}: ")
    assert re.search(f"{message}$", done.failures[0]), done.failures[0]


def test_what_is_no_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """A directory, a missing file, and a path through a file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.json").write_bytes(b"[]")
    for name, message in (
        ("folder", "is a directory: give one file [not_a_file]"),
        ("missing.json", "does not exist: check the path [missing_file]"),
        ("file.json/below", "cannot be opened, not a directory: check the path [unreadable]"),
    ):
        path = tmp_path / name
        assert refused(tmp_path, "--input", str(path)).failures == [f"farm: {path}: {message}"]


def test_all_bad_records_are_named_in_one_run(tmp_path: Path) -> None:
    """Of 200 bad lines the first hundred are named, then all are counted."""
    given = tmp_path / "in.jsonl"
    lines = [record(id=f"c{number}", expected="") for number in range(1, 201)]
    given.write_bytes(b"\n".join(lines) + b"\n" + record(id="good"))
    failures = refused(tmp_path, "--input", str(given)).failures
    assert len(failures) == 101
    assert failures[:100] == [
        f"farm: {given}: line {number}: expected: is empty: fill it in [empty_value]"
        for number in range(1, 101)
    ]
    assert failures[100] == "farm: ... 200 problems in all, the first 100 shown"


def test_a_file_that_breaks_off_still_has_its_bad_records_named(tmp_path: Path) -> None:
    """Also when the shard count is left to a counting pass, which meets the break first."""
    given = tmp_path / "in.jsonl.gz"
    noise = b"".join(record(id=f"c{os.urandom(20).hex()}") + b"\n" for _ in range(2_000))
    packed = gzip.compress(record(expected="") + b"\n" + noise)
    given.write_bytes(packed[: len(packed) // 2])
    first, last = refused(tmp_path, "--input", str(given)).failures
    assert first.endswith("line 1: expected: is empty: fill it in [empty_value]")
    assert last.endswith("fetch the file again [truncated]")


@pytest.mark.parametrize("command", ["run", "demo"])
def test_other_commands_refuse_bad_input_as_init_does(tmp_path: Path, command: str) -> None:
    given = tmp_path / "in.json"
    given.write_bytes(b"[" + record(response=None) + b"]")
    store = () if command == "demo" else ("--store", str(tmp_path / "store"))
    done = farm(command, *store, "--input", str(given))
    assert done.code == 1
    assert done.out == b""
    assert done.failures == [
        f"farm: {given}: index 0: response: is missing: add it, or name it with --map "
        "[missing_field]"
    ]
    assert not (tmp_path / "store").exists()


def test_bad_input_leaves_an_empty_folder_empty_and_an_old_store_alone(tmp_path: Path) -> None:
    """A folder that was there stays, with nothing in it; a foreign one is not touched."""
    given = tmp_path / "in.json"
    given.write_bytes(b"[" + record(id="") + b"]")
    empty, foreign = tmp_path / "empty", tmp_path / "foreign"
    empty.mkdir()
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work", "utf-8")
    assert farm("init", "--store", str(empty), "--input", str(given)).code == 1
    assert os.listdir(empty) == []
    refused = farm("init", "--store", str(foreign), "--input", str(given))
    assert refused.code == 1
    assert "neither empty nor a store, it holds 'thesis.txt'" in refused.failures[0]
    assert os.listdir(foreign) == ["thesis.txt"]


def test_standard_input_is_named_and_refused_as_files_are(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = farm("init", "--store", str(store), "--input", "-", stdin=GOOD + b"\n" + GOOD)
    assert done.code == 1
    assert done.failures == [
        "farm: <stdin>: line 2: id: 'a' is also the id of line 1: give each record its own "
        "[duplicate_id]"
    ]
    assert not store.exists()
