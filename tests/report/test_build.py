"""The report value: every figure held against a literal, and nothing said that is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from farm.core.change import Change, Claim, Fail, Publish, apply
from farm.core.ledger import Ledger, encode_ledger
from farm.core.plan import Plan, ScorerName, encode_plan, first_ledger
from farm.core.receipt import Receipt, build_receipt, encode_receipt, refer
from farm.core.result import CaseResult
from farm.report.build import DETAIL_CASES, Detail, Report, WorkerEvent, build
from farm.report.render import to_json
from farm.report.schemas import SCHEMA_NAMES, schema_of
from farm.runtime.standing import report_of
from farm.scoring.corpus import CorpusScore
from farm.scoring.score import score
from tests.contract.homes import MemoryHome
from tests.contract.store_contract import finish
from tests.examples import plan_of, receipt_bytes, verdict

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "cases.json"


def receipts_of(results: dict[str, list[CaseResult]], pids: dict[str, int]) -> dict[str, Receipt]:
    return {
        shard: build_receipt(cases, worker_pid=pids.get(shard, 7))
        for shard, cases in results.items()
    }


def ledger_with(plan: Plan, receipts: dict[str, Receipt]) -> Ledger:
    """The ledger after the receipts of the first shards were published in plan order."""
    ledger = first_ledger(plan)
    for shard, receipt in receipts.items():
        reference = refer(receipt, encode_receipt(receipt))
        changes: list[Change] = [
            Claim(worker="w1", ttl=100),
            Publish(shard=shard, worker="w1", version=1, receipt=reference),
        ]
        ledger, outcomes = apply(ledger, changes, now=0)
        assert all(isinstance(outcome, tuple) for outcome in outcomes), outcomes
    return ledger


def report(
    results: dict[str, list[CaseResult]],
    *,
    shards: int = 4,
    detail: bool = False,
    pids: dict[str, int] | None = None,
    events: list[WorkerEvent] | None = None,
) -> Report:
    plan = plan_of(shards)
    receipts = receipts_of(results, pids or {})
    shown = Detail(
        case_ids={shard.name: [f"case-{i}"] for i, shard in enumerate(plan.shards)},
        receipts=receipts,
        texts={shard: encode_receipt(receipt) for shard, receipt in receipts.items()},
    )
    return build(
        plan,
        ledger_with(plan, receipts),
        detail=shown if detail else None,
        scores=[case.score for cases in results.values() for case in cases],
        worker_events=events,
    )


THREE_OF_FOUR = {
    f"shard-{i}": [verdict(f"case-{i}", correct=i != 2)] for i in range(4)
}  # as the sample is judged


def test_three_of_four_is_an_accuracy_of_three_quarters_with_wilsons_interval() -> None:
    """The ends are what R's prop.test(3, 4, correct = FALSE) prints, to seven digits."""
    made = report(THREE_OF_FOUR)
    assert (made.evaluated, made.correct, made.complete) == (4, 3, True)
    accuracy = made.accuracy
    assert accuracy.value == 0.75
    assert accuracy.ci_lo == pytest.approx(0.3006418, abs=5e-8)
    assert accuracy.ci_hi == pytest.approx(0.9544127, abs=5e-8)
    assert (accuracy.method, accuracy.level, accuracy.n) == ("wilson", 0.95, 4)
    assert (accuracy.lowest, accuracy.highest, accuracy.reason) == (0.75, 0.75, "")
    assert made.mean_score == 0.75
    assert made.outcomes == {"correct": 3, "wrong": 1}


def test_what_is_not_evaluated_yet_could_all_be_wrong_or_all_be_right() -> None:
    """One right of two judged, two of four still open: between 1/4 and 3/4."""
    half = {name: THREE_OF_FOUR[name] for name in ("shard-0",)}
    half["shard-1"] = [verdict("case-1", correct=False)]
    made = report(half)
    assert (made.complete, made.evaluated, made.accuracy.n) == (False, 2, 2)
    assert made.accuracy.value == 0.5
    assert (made.accuracy.lowest, made.accuracy.highest) == (0.25, 0.75)


def test_a_case_that_could_not_be_scored_is_in_the_range_and_not_in_the_share() -> None:
    """One right, one whose scoring failed: 1 of 1, but between 1/2 and 2/2 of the cases."""
    failed = CaseResult(id="case-1", correct=False, score=0.0, outcome="scorer_error")
    made = report({"shard-0": [verdict("case-0")], "shard-1": [failed]}, shards=2)
    assert (made.evaluated, made.accuracy.n, made.accuracy.value) == (2, 1, 1.0)
    assert (made.accuracy.lowest, made.accuracy.highest) == (0.5, 1.0)
    assert made.mean_score == 1.0
    assert made.outcomes == {"correct": 1, "scorer_error": 1}


def test_an_empty_answer_is_scored_as_wrong() -> None:
    empty = CaseResult(id="case-0", correct=False, score=0.0, outcome="empty")
    made = report({"shard-0": [empty]}, shards=1)
    assert (made.accuracy.value, made.accuracy.n) == (0.0, 1)


def test_with_nothing_evaluated_figures_are_null_and_the_reason_is_said() -> None:
    """Never 0.0, which would be a result."""
    made = report({})
    accuracy = made.accuracy
    assert (accuracy.value, accuracy.ci_lo, accuracy.ci_hi, made.mean_score) == (None,) * 4
    assert (accuracy.n, accuracy.method, accuracy.reason) == (0, "none", "no scored cases")
    assert (accuracy.lowest, accuracy.highest) == (0.0, 1.0)
    assert b'"accuracy":{"value":null,"ci_lo":null,"ci_hi":null' in to_json(made)


def test_mean_scores_do_not_depend_on_the_order_of_the_cases() -> None:
    """Ten tenths are one, exactly; a running sum gives 0.9999999999999999."""
    cases = [CaseResult(id=f"c{i}", correct=False, score=0.1, outcome="wrong") for i in range(10)]
    plan = plan_of(1)
    ledger = ledger_with(plan, receipts_of({"shard-0": cases}, {}))
    assert sum([0.1] * 10) != 1.0
    assert build(plan, ledger, detail=None, scores=[0.1] * 10).mean_score == 0.1
    scores = [1e16, 1.0, -1e16] * 3 + [0.0]
    assert build(plan, ledger, detail=None, scores=scores).mean_score == 0.3


def graded_report(scores: list[float], *, unscorable: int = 0, **more: Any) -> Report:
    """One shard of graded scores, and so many cases that could not be scored."""
    cases = [
        CaseResult(
            id=f"c{i}", correct=s >= 0.5, score=s, outcome="correct" if s >= 0.5 else "wrong"
        )
        for i, s in enumerate(scores)
    ]
    cases += [
        CaseResult(id=f"u{i}", correct=False, score=0.0, outcome="unscorable")
        for i in range(unscorable)
    ]
    plan = more.pop("plan", plan_of(1))
    ledger = ledger_with(plan, receipts_of({"shard-0": cases}, {}))
    return build(plan, ledger, detail=None, scores=scores, fractional=True, **more)


def test_a_mean_of_graded_scores_has_students_interval_clipped_to_what_scores_can_be() -> None:
    """0.2 0.4 0.9: s = sqrt(0.13), t(2) = 4.3026527297: 0.5 -+ 0.8957 is past both ends.

    Twelve scores of 0.4 and 0.6: s = 0.1044465936, t(11) = 2.2009851601, half 0.0663622.
    """
    short = graded_report([0.2, 0.9, 0.4], unscorable=2).mean_interval
    assert (short.ci_lo, short.ci_hi, short.n) == (0.0, 1.0, 3)
    assert (short.method, short.level, short.flags) == ("student_t", 0.95, ("small_n",))
    long = graded_report([0.4, 0.6] * 6).mean_interval
    assert long.ci_lo == pytest.approx(0.5 - 0.0663622, abs=5e-8)
    assert long.ci_hi == pytest.approx(0.5 + 0.0663622, abs=5e-8)
    assert long.flags == ()


def test_the_interval_of_a_mean_does_not_tell_the_order_of_the_shards() -> None:
    # twelve scores whose interval differs in the last bit when they are summed backwards
    scores = [0.1, 0.8, 0.8, 0.3, 0.5, 0.4, 0.7, 0.8, 0.1, 0.0, 0.8, 0.4]
    assert graded_report(scores).mean_interval == graded_report(scores[::-1]).mean_interval


def test_one_graded_score_has_a_mean_and_no_interval() -> None:
    made = graded_report([0.25])
    assert made.mean_score == 0.25
    assert (made.mean_interval.ci_lo, made.mean_interval.ci_hi) == (None, None)
    assert made.mean_interval.reason == "one graded score has no spread to measure"


def test_a_mean_of_zeros_and_ones_has_the_interval_of_the_accuracy() -> None:
    made = report(THREE_OF_FOUR)
    assert made.mean_interval.method == "wilson"
    assert made.mean_interval.ci_lo == made.accuracy.ci_lo


def test_a_report_by_bleu_4_warns_and_shows_the_corpus_figures_it_was_given() -> None:
    """A wrong answer of one word scores (1/2)^(1/4) = 0.84 by the contract's smoothing."""
    plan = plan_of(1)
    by_bleu = replace(plan.identity, scorer=ScorerName(name="bleu_4", version="1"))
    figure = CorpusScore(name="chrf", score=0.5, signature="s")
    made = graded_report([0.5, 0.6], plan=replace(plan, identity=by_bleu), corpus=[figure])
    assert json.loads(to_json(made))["corpus"] == [{"name": "chrf", "score": 0.5, "signature": "s"}]
    assert "0.84" in made.warnings[0]
    assert "look at the corpus BLEU" in made.warnings[0]
    bare = graded_report([0.5, 0.6], plan=replace(plan, identity=by_bleu))
    assert "farm[metrics]" in bare.warnings[0]
    assert json.loads(to_json(bare))["corpus"] == []
    assert "corpus" not in json.loads(to_json(report(THREE_OF_FOUR)))
    assert score("bleu_4", "wrong", ["right"]) == pytest.approx(0.84, abs=0.001)


def test_worker_processes_are_the_distinct_pids_of_accepted_receipts() -> None:
    made = report(THREE_OF_FOUR, pids={"shard-0": 8, "shard-3": 9})
    assert made.worker_processes == 3


def test_a_quarantined_shard_is_counted_and_leaves_the_run_incomplete() -> None:
    plan = plan_of(2)
    ledger, _ = apply(
        ledger_with(plan, receipts_of({"shard-0": [verdict("case-0")]}, {})),
        [
            Claim(worker="w1", ttl=9),
            Fail(shard="shard-1", worker="w1", version=1, max_attempts=1, reason="died"),
        ],
        now=0,
    )
    made = build(plan, ledger, detail=None, scores=[1.0])
    assert (made.complete, made.quarantined_shards, made.completed_shards) == (False, 1, 1)
    assert [(shard.quarantined, shard.attempts) for shard in made.shards] == [(False, 0), (True, 1)]


def test_the_signature_says_how_the_accuracy_was_made() -> None:
    """A figure is quoted with it, and two figures with the same one may be compared."""
    assert report({"shard-0": [verdict("case-0")]}).signature == (
        "metric:normalized_match|version:1|post:none|n:1|missing:3"
        "|interval:wilson|level:0.95|seed:none"
    )


# shape


def test_the_names_of_a_report_and_their_order_are_published() -> None:
    made = json.loads(to_json(report(THREE_OF_FOUR, detail=True, events=[])))
    assert list(made) == [
        "schema_version", "run_id", "dataset_sha256", "tasks_sha256", "dataset_cases", "scorer",
        "models", "complete", "active_shards", "completed_shards", "quarantined_shards",
        "evaluated", "correct", "accuracy", "mean_score", "mean_interval", "warnings",
        "outcomes", "signature", "worker_processes", "detail", "shards", "receipts",
        "worker_events",
    ]  # fmt: skip
    assert list(made["shards"][0]) == ["lease", "cases", "quarantined", "attempts", "case_ids"]
    assert made["schema_version"] == 1
    assert made["scorer"] == {"name": "normalized_match", "version": "1"}


def test_a_lease_stands_in_the_report_under_its_published_names_with_the_receipts_text() -> None:
    """The uppercase names are a contract; `Result` is the receipt file's exact text."""
    made = json.loads(to_json(report({"shard-0": [verdict("case-0")]}, detail=True)))
    assert made["shards"][0]["lease"] == {
        "Shard": "shard-0",
        "Worker": "w1",
        "Version": 1,
        "Until": 100,
        "Result": '{"worker_pid":7,"cases":[{"id":"case-0","correct":true,"score":1.0,'
        '"outcome":"correct"}],"correct":1,"total":1}',
        "Done": True,
    }
    assert made["shards"][1]["lease"] == {
        "Shard": "shard-1", "Worker": "", "Version": 0, "Until": 0, "Result": "", "Done": False,
    }  # fmt: skip
    assert made["receipts"] == [json.loads(made["shards"][0]["lease"]["Result"])]


def test_without_detail_no_single_case_is_listed_and_the_report_says_so() -> None:
    made = json.loads(to_json(report(THREE_OF_FOUR)))
    assert made["detail"] is False
    assert all("case_ids" not in shard for shard in made["shards"])
    assert all("Result" not in shard["lease"] for shard in made["shards"])
    assert made["receipts"] == [
        {"worker_pid": 7, "correct": correct, "total": 1} for correct in (1, 1, 0, 1)
    ]


def test_figures_are_the_same_with_and_without_detail() -> None:
    with_detail, without = report(THREE_OF_FOUR, detail=True), report(THREE_OF_FOUR)
    assert replace(with_detail, detail=False, shards=(), receipts=()) == replace(
        without, shards=(), receipts=()
    )


@pytest.mark.parametrize(
    ("events", "shown"),
    [(None, False), ([], True)],
    ids=["status runs nothing", "nothing had to run"],
)
def test_worker_events_are_left_out_where_none_can_be(
    events: list[WorkerEvent] | None, shown: bool
) -> None:
    """`status` runs no worker; a run that had nothing to do shows an empty list."""
    made = json.loads(to_json(report({}, events=events)))
    assert ("worker_events" in made) is shown
    assert made.get("worker_events", []) == []


def test_a_worker_event_says_claimed_first() -> None:
    event = WorkerEvent(shard="shard-0", version=2, correct=1, total=3, worker_pid=7)
    assert json.loads(to_json(event)) == {
        "claimed": True, "shard": "shard-0", "version": 2, "correct": 1, "total": 3,
        "worker_pid": 7,
    }  # fmt: skip


@pytest.mark.parametrize(("cases", "shown"), [(DETAIL_CASES, True), (DETAIL_CASES + 1, False)])
def test_detail_is_left_out_above_ten_thousand_cases_unless_it_is_asked_for(
    cases: int, shown: bool
) -> None:
    assert DETAIL_CASES == 10_000
    plan = replace(plan_of(3), cases=cases)
    store = MemoryHome(plan).open()
    finish(store)
    assert report_of(store).detail is shown
    assert report_of(store, detail=True).detail
    assert not report_of(store, detail=False).detail


# schemas


def test_reports_with_and_without_detail_keep_their_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema_of("report"))
    for made in (
        report({}),
        report(THREE_OF_FOUR),
        report(THREE_OF_FOUR, detail=True, events=[]),
    ):
        flat: dict[str, Any] = json.loads(to_json(made))
        validator.validate(flat)
        for name in ("run_id", "accuracy", "shards", "signature"):
            assert not validator.is_valid({key: flat[key] for key in flat if key != name})


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_schema_is_one_and_has_a_title(name: str) -> None:
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith(("farm ", "a line of "))


def test_the_files_of_a_store_keep_their_schemas() -> None:
    ledger = ledger_with(plan_of(2), receipts_of({"shard-0": [verdict("case-0")]}, {}))
    for name, data in (
        ("plan", encode_plan(plan_of(2))),
        ("ledger", encode_ledger(ledger)[0]),
        ("receipt", receipt_bytes("a", "b")),
    ):
        validator = jsonschema.Draft202012Validator(schema_of(name))
        flat = json.loads(data)
        validator.validate(flat)
        assert not validator.is_valid({**flat, "schema_version": "1", "total": "1"})


def test_every_record_of_the_sample_keeps_the_schema_of_predictions() -> None:
    validator = jsonschema.Draft202012Validator(schema_of("predictions"))
    for record in json.loads(SAMPLE.read_text("utf-8")):
        validator.validate(record)
    bare = {"id": "a", "prompt": "p", "response": "r"}
    assert not validator.is_valid(bare)
    assert validator.is_valid(bare | {"targets": ["x"]})
    assert not validator.is_valid(bare | {"expected": "e", "more": 1})


def test_json_is_one_line_or_spread_out_for_people() -> None:
    assert to_json({"a": [1, None]}) == b'{"a":[1,null]}\n'
    assert to_json({"a": [1]}, indent=2) == b'{\n  "a": [\n    1\n  ]\n}\n'
