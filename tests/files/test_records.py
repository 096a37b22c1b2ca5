"""From bytes to cases: what is valid is read, and every bad record is named."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.core.canonical import canonical
from farm.core.case import Breach, Case
from farm.errors import Problem, SpecError
from farm.files.exact import examine
from farm.files.mapping import Rules
from farm.files.records import count_cases, read_cases, structural_quotes
from farm.files.source import Source, find_source
from tests.files.inputs import A, B, problems, read, source_of, with_member

here = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "cases.json"


def test_the_sample_is_read_in_file_order() -> None:
    cases = read(find_source(str(SAMPLE)))
    assert [case.id for case in cases] == ["case-a", "case-b", "case-c", "case-d"]
    assert cases[2].response == " get "
    assert count_cases(find_source(str(SAMPLE))) == 4


@pytest.mark.parametrize(
    "data",
    [
        A + b"\n" + B + b"\n",
        A + b"\n" + B,
        b"\xef\xbb\xbf" + A + b"\r\n" + B + b"\r\n",
        b"\n \t\r\n" + A + b"\n\n" + B + b"\n\r\n  ",
        b"  " + A.replace(b":", b" : ") + b"\r\n\t" + B + b"\t",
        A.replace(b'"id"', b'"\\u0069d"') + b"\n" + B,
    ],
)
def test_line_ends_blank_lines_and_spaces_do_not_matter(tmp_path: Path, data: bytes) -> None:
    source = source_of(tmp_path, data)
    assert [case.id for case in read(source)] == ["a", "b"]
    assert count_cases(source) == 2


def test_batches_carry_ids_and_canonical_lines(tmp_path: Path) -> None:
    (batch,) = read_cases(source_of(tmp_path, A.replace(b":", b": ") + b"\n" + B + b"\n"))
    assert batch.ids == ["a", "b"]
    assert batch.lines == A + b"\n" + B + b"\n"


BAD_RECORDS = [
    (A[:-1], "", "bad_json"),
    (A[:-3], "", "bad_json"),
    (b"nonsense", "", "bad_json"),
    (b"\x00", "", "bad_json"),
    (A.replace(b"r", b"\x01"), "", "bad_json"),
    (b"[" * 200_000, "", "bad_json"),
    (A + B, "", "trailing_document"),
    (A + b" 1", "", "trailing_document"),
    (A + b"\x00", "", "trailing_document"),
    (b"[1]", "", "bad_type"),
    (b"1", "", "bad_type"),
    (b"null", "", "bad_type"),
    (b"NaN", "", "nan"),
    (b"{}", "id", "missing_field"),
    (A.replace(b'"id":"a",', b""), "id", "missing_field"),
    (A.replace(b'"prompt":"p",', b""), "prompt", "missing_field"),
    (A.replace(b'"expected":"e",', b""), "expected", "missing_field"),
    (A.replace(b',"response":"r"', b""), "response", "missing_field"),
    (A.replace(b'"a"', b'""'), "id", "empty_value"),
    (A.replace(b'"e"', b'""'), "expected", "empty_value"),
    (A.replace(b'"a"', b'"' + b"x" * 257 + b'"'), "id", "too_long"),
    (A.replace(b'"a"', '"{}"'.format("é" * 129).encode()), "id", "too_long"),
    (A.replace(b'"r"', b'"' + b"x" * 100_001 + b'"'), "response", "too_long"),
    (A.replace(b'"r"', b'"' + b" " * 3_300_000 + b'"'), "", "line_too_long"),
    (A.replace(b'"r"', b"1"), "response", "bad_type"),
    (A.replace(b'"r"', b"null"), "response", "bad_type"),
    (A.replace(b'"r"', b"NaN"), "response", "nan"),
    (A.replace(b'"r"', b'"\\ud800"'), "response", "bad_unicode"),
    (A.replace(b'"r"', b'"\\udc00x"'), "response", "bad_unicode"),
    (A.replace(b'"r"', b'"\xff"'), "", "bad_unicode"),
    (A.replace(b'"r"', b'"\xed\xa0\x80"'), "", "bad_unicode"),
    (with_member(b'"note":"x"'), "'note'", "unknown_field"),
    (with_member(b'"note":' + b"[" * 9 + b"]" * 9), "'note'", "unknown_field"),
    (with_member(b'"note":' + b"[" * 200_000), "", "bad_json"),
    (with_member(b'"id":"b"'), "id", "duplicate_key"),
    (with_member(b'"\\u0069d":"b"'), "id", "duplicate_key"),
    (with_member(b'"sample":1,"sample":1'), "sample", "duplicate_key"),
    (with_member(b'"task":null'), "task", "bad_type"),
    (with_member(b'"sample":-1'), "sample", "bad_type"),
    (with_member(b'"sample":1.0'), "sample", "bad_type"),
    (with_member(b'"sample":9223372036854775808'), "sample", "bad_type"),
    (with_member(b'"sample":' + b"9" * 5000), "sample", "bad_type"),
    (with_member(b'"confidence":1e999'), "confidence", "bad_type"),
    (with_member(b'"confidence":' + b"9" * 5000), "confidence", "bad_type"),
    (with_member(b'"confidence":NaN'), "confidence", "nan"),
    (with_member(b'"confidence":-Infinity'), "confidence", "nan"),
    (with_member(b'"token_nll":-1'), "token_nll", "bad_type"),
    (with_member(b'"targets":[]'), "targets", "empty_value"),
    (with_member(b'"targets":"x"'), "targets", "bad_type"),
    (with_member(b'"targets":["x",""]'), "targets[1]", "empty_value"),
    (with_member(b'"targets":[null]'), "targets[0]", "bad_type"),
]


@pytest.mark.parametrize(("record", "field", "rule"), BAD_RECORDS)
@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_bad_record_is_named_by_place_field_and_rule(
    tmp_path: Path, record: bytes, field: str, rule: str, form: str
) -> None:
    """In the middle of good ones; the first problem of a record is the one listed here."""
    good = A.replace(b'"a"', b'"z"')
    if form == "lines":
        source, place = source_of(tmp_path, good + b"\n" + record + b"\n" + B), "line 2"
    else:
        data = b"[" + good + b",\n" + record + b"," + B + b"]"
        source, place = source_of(tmp_path, data, name="cases.json"), "index 1"
        if rule in ("trailing_document", "bad_json"):
            # in an array these break the array itself
            assert [p.rule for p in problems(source)] in (["bad_json"], ["truncated"])
            return
    found = problems(source)
    assert {problem.file for problem in found} == {source.name}
    assert {problem.place for problem in found} == {place}
    assert (found[0].field, found[0].rule) == (field, rule)
    assert len({(p.field, p.rule) for p in found}) == len(found)
    assert all(len(str(problem)) < 700 and "\n" not in str(problem) for problem in found)


@pytest.mark.parametrize(
    ("data", "place", "rule"),
    [
        (b"[", "index 0", "truncated"),
        (b"[]", "", "empty_file"),
        (b"[" + A, "", "truncated"),
        (b"[" + A + b",", "index 1", "truncated"),
        (b"[" + A + b"," + B[:-1], "index 1", "truncated"),
        (b"[" + A + b"," + B[:-3], "index 1", "truncated"),
        (b"[" + A + b",]", "index 1", "bad_json"),
        (b"[" + A + B + b"]", "index 1", "bad_json"),
        (b"[" + A + b"]]", "", "trailing_document"),
        (b"[" + A + b"]" + A, "", "trailing_document"),
        (b"[" * 200_000, "index 0", "bad_json"),
    ],
)
def test_a_broken_array_is_named_where_it_breaks(
    tmp_path: Path, data: bytes, place: str, rule: str
) -> None:
    (problem,) = problems(source_of(tmp_path, data, name="cases.json"))
    assert (problem.place, problem.rule) == (place, rule)


@pytest.mark.parametrize(
    ("name", "data", "detail"),
    [
        ("a.jsonl", b"{x", "is not JSON at character 2, expecting property name"),
        ("a.jsonl", b"{} x", "at character 4: remove it"),
        ("a.jsonl", b'{"id":"\xff"}', "byte 8 is not UTF-8"),
        ("a.json", b"[x]", "is not JSON at byte 2, expecting value"),
        ("a.json", b"[{} x]", "a comma or ] is expected at byte 5, found 'x'"),
        ("a.json", b"[{}] x", "at byte 6: remove it"),
        ("a.json", b'[{"id":"\xff"}]', "byte 8 is not UTF-8"),  # of the record
    ],
)
def test_places_in_a_text_are_counted_from_one(
    name: str, data: bytes, detail: str, tmp_path: Path
) -> None:
    """As lines are, and as editors count."""
    found = problems(source_of(tmp_path, data, name=name))
    assert any(detail in problem.detail for problem in found), found


def test_records_before_the_break_of_an_array_are_examined_too(tmp_path: Path) -> None:
    data = b"[" + A.replace(b'"e"', b"1") + b"," + B.replace(b'"r"', b"NaN") + b"," + B[:-4]
    found = problems(source_of(tmp_path, data, name="cases.json"))
    assert [(p.place, p.rule) for p in found] == [
        ("index 0", "bad_type"),
        ("index 1", "nan"),
        ("index 2", "truncated"),
    ]


def test_a_last_line_that_breaks_off_is_a_truncated_file(tmp_path: Path) -> None:
    (problem,) = problems(source_of(tmp_path, A + b"\n" + B[:-5]))
    assert (problem.place, problem.rule) == ("line 2", "truncated")


def test_a_source_that_breaks_off_is_told_after_the_records_before_it(tmp_path: Path) -> None:
    whole = gzip.compress(A.replace(b'"e"', b'""') + b"\n" + B + b"\n")
    found = problems(source_of(tmp_path, whole[:-4], name="cases.jsonl.gz"))
    assert [(p.place, p.rule) for p in found] == [("line 1", "empty_value"), ("", "truncated")]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_repeated_ids_name_both_places(tmp_path: Path, form: str) -> None:
    """The later record is refused, and says where the first one is."""
    records = [A, B, A, b'{"response":"x","id":"b","prompt":"","expected":"y"}', A]
    if form == "lines":
        found = problems(source_of(tmp_path, b"\n\n" + b"\n".join(records)))
        first, wanted = "line 3", ["line 5", "line 6", "line 7"]
    else:
        data = b"[" + b",".join(records) + b"]"
        found = problems(source_of(tmp_path, data, name="cases.json"))
        first, wanted = "index 0", ["index 2", "index 3", "index 4"]
    assert [problem.place for problem in found] == wanted
    assert {problem.rule for problem in found} == {"duplicate_id"}
    assert found[0].detail == f"'a' is also the id of {first}: give each record its own"


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        ([A.replace(b'"e"', b'""'), A], [("line 1", "empty_value"), ("line 2", "duplicate_id")]),
        (
            [A, B, A.replace(b'"e"', b'""')],
            [("line 3", "empty_value"), ("line 3", "duplicate_id")],
        ),
        ([A.replace(b'"a"', b"1"), A], [("line 1", "bad_type")]),  # an id that is none repeats not
        ([b'{"id":"a",' + B[1:], A], [("line 1", "duplicate_key")]),  # which of the two is it?
    ],
)
def test_a_record_with_another_fault_is_held_against_the_ids_all_the_same(
    records: list[bytes], wanted: list[tuple[str, str]], tmp_path: Path
) -> None:
    """What is wrong with a file is said at once, not the rest of it when the first is mended."""
    found = problems(source_of(tmp_path, b"\n".join(records)))
    assert [(problem.place, problem.rule) for problem in found] == wanted


def test_ids_that_repeat_before_a_source_breaks_off_are_told(tmp_path: Path) -> None:
    whole = gzip.compress(A + b"\n" + A + b"\n")
    found = problems(source_of(tmp_path, whole[:-4], name="cases.jsonl.gz"))
    assert [(p.place, p.rule) for p in found] == [("", "truncated"), ("line 2", "duplicate_id")]


def test_the_first_hundred_problems_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read(source_of(tmp_path, A + b"\n" + b"{\n" * 250))
    assert [problem.place for problem in caught.value.problems] == [
        f"line {number}" for number in range(2, 102)
    ]
    assert caught.value.total == 250
    assert str(caught.value).endswith("... 250 problems in all, the first 100 shown")


def test_no_batch_comes_after_a_refused_record(tmp_path: Path) -> None:
    data = A + b"\n" + b"\n" * 99 + b"{}\n" + b"\n" * 99 + B
    batches = read_cases(replace(source_of(tmp_path, data), block_bytes=64))
    assert next(batches).ids == ["a"]
    with pytest.raises(SpecError):
        next(batches)


def test_an_escaped_nul_is_a_legal_text(tmp_path: Path) -> None:
    (case,) = read(source_of(tmp_path, A.replace(b'"r"', b'"\\u0000"')))
    assert case.response == "\0"


def test_limits_hold_at_their_very_byte(tmp_path: Path) -> None:
    """A text of exactly the limit passes, one byte more does not, escaped or not."""
    rules = Rules(max_text_bytes=100)
    for unit in (b"x", b"\\u0041", "é".encode()):
        size = 100 // len(json.loads(b'"' + unit + b'"').encode())
        fits = A.replace(b'"r"', b'"' + unit * size + b'"')
        assert len(read(source_of(tmp_path, fits), rules)) == 1
        over = A.replace(b'"r"', b'"' + unit * size + b'x"')
        assert problems(source_of(tmp_path, over), rules)[0].rule == "too_long"


def test_a_line_over_its_bound_is_passed_over_not_held(tmp_path: Path) -> None:
    """The bound is 32 times the text limit; lines after the long one keep their numbers."""
    data = A + b"\n" + b"x" * 5000 + b"\n{}\n" + b"y" * 5000
    source = replace(source_of(tmp_path, data), block_bytes=1000)
    found = problems(source, Rules(max_text_bytes=50))
    assert [(p.place, p.rule) for p in found if p.rule == "line_too_long"] == [
        ("line 2", "line_too_long"),
        ("line 4", "line_too_long"),
    ]
    assert found[0].detail.startswith("has 5000 bytes, the limit is 1600")
    assert "line 3" in {problem.place for problem in found}


@here
@given(st.integers(1, 300), st.lists(st.sampled_from([A, B, b"", b" ", b"{}", A + b"\r"])))
def test_blocks_of_any_size_read_the_same(tmp_path: Path, size: int, lines: list[bytes]) -> None:
    """Numbers, records and counts do not depend on where blocks are cut."""
    data = A.replace(b'"a"', b'"first"') + b"\n" + b"\n".join(lines)
    source = source_of(tmp_path, data)

    def outcome(source: Source) -> tuple[list[Case], list[Problem]]:
        cases: list[Case] = []
        try:
            for batch in read_cases(source):
                cases += batch.cases
        except SpecError as error:
            return [], list(error.problems)
        return cases, []

    cut = replace(source, block_bytes=size)
    assert outcome(cut) == outcome(source)
    assert count_cases(cut) == sum(1 for line in data.split(b"\n") if line.strip())


pieces = st.sampled_from(
    [b'"id":"a"', b'"id":"c"', b'"prompt":"p"', b'"expected":"e"', b'"response":"\\"r\\\\"',
     b'"response":"\\\\\\"\\u0022"', b'"targets":["x","\\\\"]', b'"task":"t"', b'"sample":3',
     b'"sample":-0', b'"confidence":0.5', b'"confidence":1', b'"confidence":-0', b'"category":"c"',
     b'"token_nll":1e-3', b'"token_count":2', b'"\\u0069d":"d"', b'"note":1', b'"task":null',
     b'"prompt":"\\ud83d\\ude00"', b'"prompt":"\\ud83d"', b'"cluster":"\xc3\xa9"', b'"x', b"{"]
)  # fmt: skip
soup = st.lists(pieces, max_size=9).map(lambda some: b"{" + b",".join(some) + b"}")
base = st.permutations([b'"id":"a"', b'"prompt":"p"', b'"expected":"e"', b'"response":"r"'])
nearly = st.tuples(base, st.lists(pieces, max_size=3)).map(
    lambda both: b"{" + b",".join([*both[0], *both[1]]) + b"}"
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A record, or nearly one, with a few bytes replaced, put in or taken out."""
    data = bytearray(draw(soup | nearly))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(
            st.binary(max_size=1) | st.sampled_from([b'"', b"\\", b"{", b"}", b"\n", b",", b" "])
        )
    return bytes(data)


@settings(here, max_examples=400)
@given(st.lists(mutated(), min_size=1, max_size=4))
def test_the_fast_way_accepts_what_the_exact_way_accepts(
    tmp_path: Path, records: list[bytes]
) -> None:
    """Line by line the same verdict, and for accepted lines the same case."""
    data = b"\n".join(records) + b"\n"
    lines = data.split(b"\n")[:-1]
    verdicts = [examine(line, Rules()) for line in lines if line.strip(b" \t\r")]
    wanted = [found for found in verdicts if isinstance(found, Case)]
    source = Source(path=str(tmp_path / "x"), name="x", form="lines")
    (tmp_path / "x").write_bytes(data)
    repeated = len({case.id for case in wanted}) < len(wanted)
    if len(wanted) == len(verdicts) and not repeated:
        assert [*map(canonical, read(source))] == [*map(canonical, wanted)]
        return
    with pytest.raises(SpecError) as caught:
        read(source)
    refused = {p.place for p in caught.value.problems if p.rule != "duplicate_id"}
    assert refused == {
        f"line {number}"
        for number, line in enumerate(lines, 1)
        if line.strip(b" \t\r") and not isinstance(examine(line, Rules()), Case)
    }


def test_a_record_over_two_lines_is_refused_even_if_the_count_is_right(tmp_path: Path) -> None:
    """Two records on one line and one over two lines are as many as three lines."""
    split = A.replace(b',"e', b',\n"e').replace(b'"a"', b'"c"')
    found = problems(source_of(tmp_path, A + B + b"\n" + split + b"\n"))
    assert [problem.place for problem in found] == ["line 1", "line 2", "line 3"]


def test_both_ways_read_a_negative_zero_alike(tmp_path: Path) -> None:
    """The integer -0 is zero, the float -0.0 keeps its sign; equality would not tell them apart."""
    for literal, written in ((b"-0", b"0.0"), (b"-0.0", b"-0.0")):
        line = with_member(b'"confidence":' + literal)
        for rules in (Rules(), Rules(coerce=True)):
            (case,) = read(source_of(tmp_path, line), rules)
            assert canonical(case) == with_member(b'"confidence":' + written)


@given(st.text(alphabet='\\"ab\n', max_size=12))
def test_structural_quotes_are_those_json_sees(text: str) -> None:
    """However a text is escaped, a string adds exactly the two quotes around it."""
    assert structural_quotes(json.dumps({"k": text}).encode()) == 4
    assert structural_quotes(json.dumps([text, text]).encode()) == 4


@here
@given(nearly)
def test_the_other_ways_of_reading_accept_plain_records_unchanged(record: bytes) -> None:
    plain = examine(record, Rules())
    loose = examine(record, Rules(ignore_extra=True, coerce=True, auto_id=True))
    if isinstance(plain, Case):
        assert loose == plain
    if isinstance(loose, list):
        assert isinstance(plain, list)
        assert all(isinstance(breach, Breach) for breach in loose)
