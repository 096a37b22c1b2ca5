"""One value, one sequence of bytes: the identity of a dataset rests on it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from farm.core.canonical import DatasetDigest, canonical, canonical_lines, digest_of, task_view
from farm.core.case import Case

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "cases.json"
SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def slow_text(text: str) -> str:
    """Encode one string character by character, from the rules alone."""
    out = []
    for char in text:
        code = ord(char)
        if code in SHORT:
            out.append(SHORT[code])
        elif code < 32 or char in "<>&\u2028\u2029":
            out.append(f"\\u{code:04x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def slow_record(case: Case, fields: tuple[str, ...] = Case.__struct_fields__) -> str:
    members = []
    for field in fields:
        value = getattr(case, field)
        if value is UNSET:
            continue
        if isinstance(value, tuple):
            text = "[" + ",".join(map(slow_text, value)) + "]"
        else:
            text = slow_text(value) if isinstance(value, str) else str(value)
        members.append(f'"{field}":{text}')
    return "{" + ",".join(members) + "}"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['","response":"', ',"targets":["', "\\", '\\"', "<&>", "\u2028\u2029", "\x00\x1f\x7f", "é😀"]
)
filled = texts.filter(bool)
cases = st.builds(
    Case,
    id=filled,
    prompt=texts,
    expected=filled | st.just(UNSET),
    response=texts,
    task=texts | st.just(UNSET),
    sample=st.integers(0, 2**63 - 1) | st.just(UNSET),
    category=texts | st.just(UNSET),
    token_count=st.integers(0, 9) | st.just(UNSET),
    targets=st.lists(filled, min_size=1, max_size=3).map(tuple) | st.just(UNSET),
)


def test_the_sample_has_its_published_digest() -> None:
    """The digest is the reference implementation's for the four-case sample."""
    sample = [Case(**record) for record in json.loads(SAMPLE.read_bytes())]
    digest = DatasetDigest()
    digest.update(canonical_lines(sample).splitlines())
    assert (
        digest.dataset_sha256 == "60eb5c9ae5c3fce2a328d662094c3204689130101ad85c1f4563ce0cd27dd267"
    )


@given(cases)
def test_canonical_bytes_follow_the_rules_on_any_text(case: Case) -> None:
    assert canonical(case) == slow_record(case).encode()
    assert canonical_lines([case, case]) == (slow_record(case) + "\n").encode() * 2


@given(st.lists(cases, max_size=5))
def test_the_task_view_keeps_id_prompt_expected_and_targets(some: list[Case]) -> None:
    """Whatever a text contains, even what looks like a key, only the real key cuts."""
    lines = canonical_lines(some).split(b"\n")[:-1]
    wanted = ",".join(slow_record(c, ("id", "prompt", "expected", "targets")) for c in some)
    assert task_view(lines) == wanted.encode()


@given(st.lists(cases, max_size=8), st.integers(1, 4))
def test_digests_do_not_depend_on_blocks(some: list[Case], size: int) -> None:
    """They are the SHA-256 of the compact array, however the records were handed over."""
    lines = canonical_lines(some).split(b"\n")[:-1]
    digest = DatasetDigest()
    for start in range(0, len(lines), size):
        digest.update(lines[start : start + size])
        digest.update([])
    whole = "[" + ",".join(map(slow_record, some)) + "]"
    assert digest.dataset_sha256 == hashlib.sha256(whole.encode()).hexdigest()
    tasks = b"[" + task_view(lines) + b"]"
    assert digest.tasks_sha256 == hashlib.sha256(tasks).hexdigest()


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.5, b"0.5"), (1.0, b"1.0"), (-0.0, b"-0.0"), (1e-7, b"1e-7"), (1e22, b"1e22"),
     (0.00001, b"0.00001"), (0.1 + 0.2, b"0.30000000000000004"), (5e-324, b"5e-324")],
)  # fmt: skip
def test_floats_keep_their_written_form(value: float, written: bytes) -> None:
    """Pinned, because another form would change the identity of datasets already bound."""
    assert canonical(value) == written


def test_a_digest_of_any_value_is_that_of_its_canonical_bytes() -> None:
    """`printf '{"b":1,"a":"\\u003c"}' | sha256sum`."""
    assert canonical({"b": 1, "a": "<"}) == b'{"b":1,"a":"\\u003c"}'
    assert digest_of({"b": 1, "a": "<"}) == (hashlib.sha256(b'{"b":1,"a":"\\u003c"}').hexdigest())
