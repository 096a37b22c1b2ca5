"""Saved reports as sides of a comparison: both kinds, and files that are neither."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from farm.core.case import Case, Group
from farm.errors import SpecError
from farm.report import render
from farm.report.envelope import to_json
from farm.report.saved import read_saved
from farm.runtime.board import envelope_of, gather
from farm.runtime.sides import side_of
from farm.runtime.standing import report_of
from farm.scoring import registry
from farm.scoring.registry import Scorer
from tests.runtime.recordings import case, recording

RUN = recording([case(f"c{i}", "yes" if i else "no") for i in range(5)], model="m")


def saved(**changes: object) -> bytes:
    """What `farm report` saves of RUN, parts of it replaced."""
    plain = json.loads(to_json(envelope_of([RUN], gather([RUN]), detail=True)))
    return json.dumps(plain | changes).encode()


def test_a_saved_leaderboard_is_the_side_that_its_store_is() -> None:
    side, stored = read_saved(saved(), path="f"), side_of(RUN)
    assert side == stored
    assert side.label == "m"


def test_a_saved_run_report_is_the_side_that_its_store_is() -> None:
    """It names no model here, so the path stands for it."""
    text = json.dumps(_plain(report_of(RUN.store))).encode()
    side = read_saved(text, path="f")
    assert (side.label, side.cases) == ("f", side_of(RUN).cases)
    assert (side.scorer, side.complete) == ("exact_match@1", True)


def test_a_saved_report_tells_what_is_pending_and_what_was_cut_out_of_answers() -> None:
    """The signature of a gate names both; three of eight cases are not listed here."""
    runs = json.loads(saved())["runs"]
    runs["m"]["cases"] = 8
    signature = {"post_processes": ["extract_letter", "none"]}
    board = read_saved(saved(runs=runs, signature=signature), path="f")
    assert (board.pending, board.post_process) == (3, "extract_letter+none")
    line = "metric:tasks|version:1|post:extract_letter+none|n:5|missing:3"
    report = _plain(report_of(RUN.store)) | {"dataset_cases": 8, "signature": line}
    side = read_saved(json.dumps(report).encode(), path="f")
    assert (side.pending, side.post_process) == (3, "extract_letter+none")


@pytest.mark.parametrize(
    "cases",
    [
        [case(f"c{i}", "yes" if i % 3 else "no", cluster=f"k{i % 2}") for i in range(6)],
        [
            case(f"c{i}", "yes" if i % 3 else "no", task=f"t{i // 2}", sample=i % 2)
            for i in range(6)
        ],
        [case("a", "yes", cluster="k"), case("b", "no", cluster="k"), case("c", "no", task="k")],
    ],
    ids=["clusters", "samples", "both"],
)
def test_what_belongs_together_is_saved_with_both_kinds_of_report(cases: list[Case]) -> None:
    """Else a saved baseline would be compared by a test that takes each case as evidence."""
    run = recording(cases, model="m")
    stored = side_of(run)
    assert stored.groups
    board = to_json(envelope_of([run], gather([run]), detail=True))
    assert read_saved(board, path="f") == stored
    report = json.dumps(_plain(report_of(run.store))).encode()
    assert read_saved(report, path="m") == stored


def test_cases_that_name_nothing_but_themselves_leave_no_trace_in_a_report() -> None:
    """Reports of ordinary predictions keep every byte."""
    more: list[dict[str, str]] = [{}, {"task": "c1"}, {"task": "", "cluster": ""}]
    run = recording([case(f"c{i}", "yes", **own) for i, own in enumerate(more)], model="m")
    assert "groups" not in json.loads(to_json(envelope_of([run], gather([run]), detail=True)))
    assert "groups" not in _plain(report_of(run.store))
    assert side_of(run).groups == {}


def test_an_evaluation_pairs_with_its_saved_report_and_its_tasks_hold_samples_together() -> None:
    """Of a report of trials, the ids lose the model, as those of the store's side have."""
    trials = [CASE | {"id": f"m|t{i // 2}|{i % 2}"} for i in range(4)]
    runs = json.loads(saved())["runs"]
    runs["m"]["scorer"] = {"name": "tasks", "version": "0" * 16}
    board = read_saved(saved(cases={"m": trials}, runs=runs), path="f")
    assert set(board.cases) == {"t0|0", "t0|1", "t1|0", "t1|1"}
    assert board.groups == {
        "t0|0": Group(task="t0"),
        "t0|1": Group(task="t0", sample=1),
        "t1|0": Group(task="t1"),
        "t1|1": Group(task="t1", sample=1),
    }
    with pytest.raises(SpecError, match="'f': case 'a' is no trial"):
        read_saved(saved(cases={"m": [CASE]}, runs=runs), path="f")


def _plain(report: object) -> dict[str, object]:
    plain: dict[str, object] = json.loads(render.to_json(report))
    return plain


def test_a_case_that_could_not_be_scored_has_no_score_in_a_saved_report_either() -> None:
    """Receipts keep 0.0 there, which says nothing; as a score it would be a wrong answer."""
    unscored = CASE | {"correct": False, "score": 0.0, "outcome": "unscorable"}
    side = read_saved(saved(cases={"m": [unscored]}), path="f")
    assert side.cases["a"].score is None


def status(**changes: object) -> bytes:
    """What `farm status` saves of RUN, parts of it replaced."""
    return json.dumps(_plain(report_of(RUN.store)) | changes).encode()


CASE = {"id": "a", "correct": True, "score": 1.0, "outcome": "correct"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "'f' is no saved report: "),
        (b"[1]", "'f' is no saved report: "),
        (b"\xff", "'f' is no saved report: "),
        (b'{"a":' * 5000, "'f' is no saved report: "),
        (b"{}", "'f' is no saved report: save one with"),
        (json.dumps(_plain(report_of(RUN.store, detail=False))).encode(), "save the report with"),
        (saved(cases={}), "'f' does not list its cases"),
        (saved(cases={"m": [CASE, CASE]}), "case 'a' is there twice"),
        (saved(cases={"m": [CASE | {"score": 2.0}]}), r"score 2\.0 is not in \[0, 1\]"),
        (saved(runs={}), "'f' is a report of 0 models"),
        (saved(groups={"m": 3}), "'f' is no saved report: "),
        (status(scorer={"name": "tasks", "version": "1"}), "'f' is a report of 0 models"),
        (status(groups=[]), "'f' is no saved report: "),
    ],
)
def test_what_is_no_report_with_cases_is_refused_with_the_way_out(
    data: bytes, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        read_saved(data, path="f")


def test_a_report_of_two_models_is_refused() -> None:
    """Which of the two was meant is not for us to guess."""
    other = recording([case(f"c{i}", "yes") for i in range(5)], model="n")
    both = to_json(envelope_of([RUN, other], gather([RUN, other]), detail=True))
    with pytest.raises(SpecError, match="a report of 2 models: save one of a single --store"):
        read_saved(both, path="f")


def test_a_scorer_of_which_less_is_better_is_ranked_and_compared_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By more is better, the worst would come first and a gate would fail the better run."""
    metric = Scorer(name="far", version="1", function=lambda _p, _t: 0.5, higher_is_better=False)
    monkeypatch.setitem(registry._LOADED, "far", metric)
    run = recording([case("a", "yes")], by="far")
    identity = json.loads(saved())["runs"]["m"] | {"scorer": {"name": "far", "version": "1"}}
    board, report = saved(runs={"m": identity}), json.dumps(_plain(report_of(run.store))).encode()
    refused: list[Callable[[], object]] = [
        lambda: gather([run]),
        lambda: side_of(run),
        lambda: read_saved(board, path="f"),
        lambda: read_saved(report, path="f"),
    ]
    for reading in refused:
        with pytest.raises(SpecError, match="metric 'far' gives the better answer the lower score"):
            reading()
    monkeypatch.delitem(registry._LOADED, "far")
    with pytest.raises(SpecError, match="metric 'far' is not known"):
        side_of(run)
