"""The exactness audit, on a generated set with figures that are known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.errors import SpecError
from farm.qualify.audit import Output, audit_outputs, first_difference, read_outputs
from tests.qualify.servers import farm

# 65 requests; each draft is identical to the baseline on 37 and parts from it on the other 28,
# both at the same position; 6 of those 28 go on differently, so the drafts agree on 59
REQUESTS, IDENTICAL, APART = 65, 37, 6
EARLIEST = "reasoning-06"


def saved_set(*, tokens: bool) -> list[dict[str, Any]]:
    """Make the set; the earliest difference is at position 3 of `EARLIEST`."""
    rows = []
    names = [f"{kind}-{n:02d}" for kind in ("reasoning", "code", "tool", "chat") for n in range(17)]
    names = names[:REQUESTS]
    others = [name for name in names if name != EARLIEST]
    parting = [EARLIEST, *others[: REQUESTS - IDENTICAL - 1]]
    for name in names:
        base = [100 + place for place in range(60)]
        position = (
            3
            if name == EARLIEST
            else 4 + len(name) + parting.index(name) % 30
            if (name in parting)
            else None
        )
        for config in ("baseline", "draft-a", "draft-b"):
            ids = list(base)
            if config != "baseline" and position is not None:
                other = config == "draft-b" and parting.index(name) < APART
                ids[position:] = [900 + other] * (60 - position)
            text = "".join(chr(0x4E00 + token) for token in ids)  # one character a token
            rows.append(
                {
                    "config": config, "request_id": name, "pass": True, "text": text,
                    "token_ids": ids if tokens else None, "template_sha256": "7" * 64,
                }
            )  # fmt: skip
    return rows


def encoded(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("tokens", [True, False])
def test_the_known_set_gives_the_known_figures(tmp_path: Path, tokens: bool) -> None:
    """65 pairs: 37 identical for each draft, drafts agree on 59, all 28 at the same position."""
    (tmp_path / "outputs.jsonl").write_bytes(encoded(saved_set(tokens=tokens)))
    done = farm("qualify", "audit", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    counts = [(r["config"], r["pairs"], r["identical"]) for r in found["against_baseline"]]
    assert counts == [("draft-a", 65, 37), ("draft-b", 65, 37)]
    (between,) = found["between_drafts"]
    assert (between["pairs"], between["identical"]) == (65, 59)
    assert between["both_differ_from_baseline"] == between["same_first_difference"] == 28
    assert [r["template_mismatches"] for r in found["against_baseline"]] == [0, 0]
    first = found["against_baseline"][0]["first_differences"][0]
    assert (first["request_id"], first["position"]) == (EARLIEST, 3)
    assert first["unit"] == ("token" if tokens else "character")
    assert len(found["follow_up"]) == 8
    assert EARLIEST in found["follow_up"][1]
    assert found["baseline_repeat"]["verdict"] == "not_repeated"
    assert [r["attributable"] for r in found["against_baseline"]] == [None, None]


def out(config: str, text: str, **more: Any) -> Output:
    return Output(config=config, request_id=more.pop("id", "r"), text=text, **more)


def test_a_difference_in_a_request_that_was_not_repeated_is_attributed_to_nothing() -> None:
    """The repeat of one request says nothing of another."""
    base = [out("baseline", "A", id="r", pass_=n) for n in (1, 2)] + [out("baseline", "A", id="s")]
    same, other = out("d", "A", id="s", pass_=1), out("d", "B", id="s", pass_=1)
    repeated = out("d", "B", id="r", pass_=1)
    for rows, expected in (([same, repeated], True), ([other, repeated], None), ([other], None)):
        found = audit_outputs([*base, *rows], baseline="baseline")
        assert found.baseline_repeat.verdict == "deterministic"
        assert found.against_baseline[0].attributable is expected


def test_a_baseline_that_repeats_itself_makes_differences_attributable() -> None:
    """Two equal rows of the baseline, told apart by pass."""
    outputs = [out("baseline", "A", pass_=1), out("baseline", "A", pass_=2), out("d", "B", pass_=1)]
    found = audit_outputs(outputs, baseline="baseline")
    assert found.baseline_repeat.verdict == "deterministic"
    assert found.against_baseline[0].attributable is True
    assert found.against_baseline[0].pairs == 1


@pytest.mark.parametrize(
    ("texts", "templates", "expected"),
    [
        (("A", "B"), ("t1", "t2"), False),  # another template may be the whole difference
        (("A", "A"), ("t1", "t2"), True),  # there is no difference to be told of
        (("A", "B"), ("t1", "t1"), True),
        (("A", "B"), ("t1", None), True),  # not told; `templates_unknown` counts it
    ],
)
def test_differences_under_another_template_are_not_attributable(
    texts: tuple[str, str], templates: tuple[str, str | None], expected: bool
) -> None:
    """The template is a dimension of its own, never mixed with the draft's."""
    ours, theirs = (
        out(config, text, template_sha256=template)
        for config, text, template in zip(("baseline", "d"), texts, templates, strict=True)
    )
    found = audit_outputs([ours, ours, theirs], baseline="baseline")
    assert found.baseline_repeat.verdict == "deterministic"
    assert found.against_baseline[0].attributable is expected


def test_a_repeat_may_be_saved_as_a_configuration_of_its_own() -> None:
    """It is no draft."""
    outputs = [out("baseline", "A"), out("baseline-repeat", "A"), out("d", "B")]
    found = audit_outputs(outputs, baseline="baseline")
    assert (found.baseline_repeat.pairs, found.baseline_repeat.identical) == (1, 1)
    assert [row.config for row in found.against_baseline] == ["d"]


def test_rows_of_one_request_without_a_number_are_repeats_in_their_order() -> None:
    """`pass` as a verdict tells nothing apart, and a failed row is still the same request."""
    outputs = [
        out("baseline", "A", pass_=True), out("baseline", "B", pass_=False),
        out("d", "A", pass_=False),
    ]  # fmt: skip
    found = audit_outputs(outputs, baseline="baseline")
    assert found.baseline_repeat.verdict == "baseline_not_deterministic"
    assert (found.against_baseline[0].pairs, found.against_baseline[0].identical) == (1, 1)


def test_drafts_that_part_at_different_places_are_told_apart() -> None:
    """At 1 and 2 of "abc"; a third request only one of them gets wrong."""
    outputs = [
        out("baseline", "abc", id="1"), out("a", "aXX", id="1"), out("b", "abX", id="1"),
        out("baseline", "abc", id="2"), out("a", "Xbc", id="2"), out("b", "abc", id="2"),
    ]  # fmt: skip
    (found,) = audit_outputs(outputs, baseline="baseline").between_drafts
    assert (found.both_differ_from_baseline, found.same_first_difference) == (1, 0)
    assert (found.one_only, found.other_only) == (1, 0)


def test_other_templates_are_counted_and_unknown_ones_apart() -> None:
    """A template that is not told is not a mismatch."""
    outputs = [
        out("baseline", "A", id="1", template_sha256="x"),
        out("baseline", "A", id="2", template_sha256="x"),
        out("d", "A", id="1", template_sha256="y"),
        out("d", "A", id="2"),
        out("d", "A", id="3"),
    ]
    (row,) = audit_outputs(outputs, baseline="baseline").against_baseline
    assert (row.template_mismatches, row.templates_unknown, row.unpaired) == (1, 1, 1)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (out("a", "same"), out("b", "same"), None),
        (out("a", "abc"), out("b", "abd"), ("character", 2, False)),
        (out("a", "ab"), out("b", "abc"), ("character", 2, True)),
        (out("a", ""), out("b", "x"), ("character", 0, True)),
        # the same text by other tokens is a difference
        (out("a", "ab", token_ids=(1, 2)), out("b", "ab", token_ids=(3,)), ("token", 0, False)),
        # one side without ids: characters
        (out("a", "ab", token_ids=(1, 2)), out("b", "aX"), ("character", 1, False)),
    ],
)
def test_the_first_difference_is_by_token_where_both_have_them(
    one: Output, other: Output, expected: object
) -> None:
    """Position from 0; `one_ends` when the shorter is the beginning of the longer."""
    found = first_difference(one, other, ("r", "0"))
    assert (found and (found.unit, found.position, found.one_ends)) == expected


def test_bad_rows_are_named_by_line() -> None:
    """A row without a text, a row that is not JSON."""
    good = b'{"config":"a","request_id":"r","text":"x"}\n'
    with pytest.raises(SpecError) as refused:
        read_outputs(good + b'{"config":"a"}\n\n{\n', file="o.jsonl")
    assert [problem.place for problem in refused.value.problems] == ["line 2", "line 4"]


def test_an_audit_needs_its_baseline(tmp_path: Path) -> None:
    """The names that are there are given."""
    (tmp_path / "outputs.jsonl").write_bytes(b'{"config":"a","request_id":"r","text":"x"}\n')
    done = farm("qualify", "audit", str(tmp_path))
    assert done.returncode == 1
    assert "give --baseline, one of 'a'" in done.stderr
