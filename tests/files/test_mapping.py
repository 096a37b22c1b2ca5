"""Records written by others: --map, --ignore-extra, --auto-id and --coerce."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec import UNSET

from farm.core.case import Case
from farm.errors import UsageError
from farm.files.mapping import Rules, parse_map
from tests.files.inputs import A, problems, read, source_of, with_member


def test_map_renames_and_reaches_inside(tmp_path: Path) -> None:
    rules = Rules(map=parse_map("response=output.choices.0.text, expected=target"))
    line = b'{"id":"a","prompt":"p","target":"e","output":{"choices":[{"text":"r"}],"ms":3}}'
    assert read(source_of(tmp_path, line), rules) == [
        Case(id="a", prompt="p", expected="e", response="r")
    ]


def test_what_is_not_mapped_is_extra_unless_ignored(tmp_path: Path) -> None:
    line = with_member(b'"target":"t","note":{"deep":[1]}')
    rules = Rules(map=(("expected", "target"),))
    found = problems(source_of(tmp_path, line), rules)
    assert [(p.field, p.rule) for p in found] == [
        ("expected", "unknown_field"),
        ("'note'", "unknown_field"),
    ]
    assert found[0].detail == (
        "is mapped from elsewhere: remove it, or drop it with --ignore-extra"
    )
    loose = Rules(map=(("expected", "target"),), ignore_extra=True)
    (case,) = read(source_of(tmp_path, line), loose)
    assert case.expected == "t"


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    rules = Rules(map=(("response", "output.text"), ("task", "kind")), ignore_extra=True)
    for output in (b"{}", b"1", b"[]", b'"text"'):
        line = b'{"id":"a","prompt":"p","expected":"e","output":' + output + b"}"
        (problem,) = problems(source_of(tmp_path, line), rules)
        assert (problem.field, problem.rule) == ("response", "missing_field")
        assert "'output.text'" in problem.detail


def test_junk_in_what_is_ignored_is_still_no_json(tmp_path: Path) -> None:
    rules = Rules(ignore_extra=True)
    for member, rule in ((b'"x":NaN', "nan"), (b'"x":{"y":1,"y":2}', "duplicate_key")):
        (problem,) = problems(source_of(tmp_path, with_member(member)), rules)
        assert problem.rule == rule


def test_auto_id_is_the_digest_of_the_content(tmp_path: Path) -> None:
    """SHA-256 of the canonical record without its id; an id that is there is kept."""
    line = b'{"prompt":"p", "response":"r", "expected":"e"}'
    first, second = read(source_of(tmp_path, line + b"\n" + A), Rules(auto_id=True))
    content = b'{"prompt":"p","expected":"e","response":"r"}'
    assert first.id == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert second.id == "a"


def test_equal_contents_under_auto_id_are_repeats(tmp_path: Path) -> None:
    line = b'{"prompt":"p","response":"r","expected":"e"}\n'
    (problem,) = problems(source_of(tmp_path, line * 2), Rules(auto_id=True))
    assert (problem.place, problem.rule) == ("line 2", "duplicate_id")
    assert problem.detail.endswith("line 1: the contents are equal, remove one")


def test_coerce_takes_numbers_and_booleans_as_they_are_written(tmp_path: Path) -> None:
    line = (
        b'{"id":7,"prompt":true,"expected":1.50,"response":1e3,"targets":[false,'
        + b"9" * 400
        + b"]}"
    )
    (case,) = read(source_of(tmp_path, line), Rules(coerce=True))
    assert case == Case(
        id="7", prompt="true", expected="1.50", response="1e3", targets=("false", "9" * 400)
    )
    null = A.replace(b'"r"', b"null")
    assert problems(source_of(tmp_path, null), Rules(coerce=True))[0].rule == "bad_type"


@pytest.mark.parametrize(
    "text", ["", "response", "response=", "=x", "answer=x", "response=a,response=b", "id=a,,task=b"]
)
def test_a_map_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_map(text)


def test_targets_may_stand_instead_of_expected(tmp_path: Path) -> None:
    line = b'{"id":"a","prompt":"p","response":"r","targets":["x","y"]}'
    (case,) = read(source_of(tmp_path, line))
    assert case.expected is UNSET
    assert case.targets == ("x", "y")
