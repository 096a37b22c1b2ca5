"""Small inputs, and what reading them gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.core.case import Case
from farm.errors import Problem, SpecError
from farm.files.mapping import Rules
from farm.files.records import read_cases
from farm.files.source import Source, find_source

A = b'{"id":"a","prompt":"p","expected":"e","response":"r"}'
B = A.replace(b'"a"', b'"b"')


def source_of(path: Path, data: bytes, *, name: str = "cases.jsonl") -> Source:
    (path / name).write_bytes(data)
    return find_source(str(path / name))


def read(source: Source, rules: Rules = Rules()) -> list[Case]:  # noqa: B008  # frozen
    return [case for batch in read_cases(source, rules) for case in batch.cases]


def problems(source: Source, rules: Rules = Rules()) -> tuple[Problem, ...]:  # noqa: B008
    with pytest.raises(SpecError) as caught:
        read(source, rules)
    return caught.value.problems


def with_member(member: bytes) -> bytes:
    return A[:-1] + b"," + member + b"}"
