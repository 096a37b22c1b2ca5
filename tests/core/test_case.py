"""What a valid case is."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from farm.core.case import Breach, Case, ScoredInput, broken_rules, targets_of

DECODE = msgspec.json.Decoder(Case).decode
PLAIN = b'{"id":"a","prompt":"p","expected":"e","response":"r"}'


def case(**fields: object) -> Case:
    given = {"id": "a", "prompt": "p", "expected": "e", "response": "r", **fields}
    return msgspec.convert(given, Case)


def test_a_record_of_four_fields_is_a_case() -> None:
    assert DECODE(PLAIN) == Case(id="a", prompt="p", expected="e", response="r")
    assert DECODE(PLAIN).targets is UNSET


@pytest.mark.parametrize(
    "member",
    [
        b'"task":null',
        b'"sample":-1',
        b'"sample":1.0',
        b'"sample":true',
        b'"sample":9223372036854775808',
        b'"confidence":null',
        b'"confidence":"0.5"',
        b'"confidence":1e400',
        b'"token_nll":-0.5',
        b'"token_count":-1',
        b'"targets":[]',
        b'"targets":[""]',
        b'"targets":"x"',
        b'"targets":null',
        b'"note":"x"',
    ],
)
def test_a_member_outside_its_type_is_refused(member: bytes) -> None:
    """An explicit null, a negative count, an empty target and an unknown name are all wrong."""
    with pytest.raises(msgspec.ValidationError):
        DECODE(PLAIN[:-1] + b"," + member + b"}")


def test_empty_prompt_and_response_are_legal_but_empty_id_and_expected_are_not() -> None:
    """A model may answer nothing; an expectation of nothing cannot be told from a lost one."""
    assert case(prompt="", response="").response == ""
    for field in ("id", "expected"):
        with pytest.raises(msgspec.ValidationError):
            case(**{field: ""})


def test_expected_comes_first_among_the_targets_and_no_text_twice() -> None:
    both = case(targets=["x", "e", "x", "y"])
    assert targets_of(both) == ("e", "x", "y")
    assert targets_of(case()) == ("e",)
    assert targets_of(Case(id="a", prompt="", response="", targets=("x", "y"))) == ("x", "y")


def test_the_scored_input_is_the_case_without_what_scoring_never_reads() -> None:
    line = PLAIN[:-1] + b',"category":"c","targets":["x"]}'
    view = msgspec.json.decode(line, type=ScoredInput)
    assert view == ScoredInput(id="a", expected="e", response="r", targets=("x",))
    assert targets_of(view) == targets_of(DECODE(line))


def test_one_of_expected_and_targets_must_be_there() -> None:
    bare = Case(id="a", prompt="p", response="r")
    (breach,) = broken_rules(bare, max_text_bytes=10)
    assert (breach.field, breach.rule) == ("expected", "missing_field")
    assert (
        broken_rules(Case(id="a", prompt="", response="", targets=("x",)), max_text_bytes=9) == []
    )


def test_limits_are_counted_in_bytes_not_characters() -> None:
    """256 bytes is the limit of an id; é takes two of them."""
    assert broken_rules(case(id="é" * 128), max_text_bytes=10) == []
    assert broken_rules(case(id="é" * 128 + "x"), max_text_bytes=10) == [
        Breach(field="id", rule="too_long", detail="has 257 bytes, the limit is 256: shorten it")
    ]
    assert broken_rules(case(response="é" * 5), max_text_bytes=10) == []
    long = broken_rules(case(response="é" * 6, targets=["x", "y" * 11]), max_text_bytes=10)
    assert [breach.field for breach in long] == ["response", "targets[1]"]
    assert long[0].detail == "has 12 bytes, the limit is 10: shorten it or raise --max-text-bytes"


@pytest.mark.parametrize("field", ["prompt", "expected", "response", "task", "category", "cluster"])
def test_every_text_field_has_the_limit(field: str) -> None:
    (breach,) = broken_rules(case(**{field: "x" * 11}), max_text_bytes=10)
    assert breach.field == field
