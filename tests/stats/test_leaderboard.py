"""Trials to leaderboard: known boards, ranks, ties, missing tasks, refusals."""

from __future__ import annotations

import math
import random
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.errors import BadNumbers
from farm.stats.bootstrap import bootstrap_mean_ci
from farm.stats.evalrun import EvalRun, ScoreTable, tabulate
from farm.stats.intervals import wilson
from farm.stats.leaderboard import LeaderboardRow, aggregate, win_rates
from tests.vectors.load import rows

BOARDS = [
    row for row in rows("statistics", "leaderboard") if "mean_win_rate" in row and "scores" in row
]
REFUSED = [
    row
    for row in rows("statistics", "leaderboard")
    if row.get("expected") == "error" and "scores" in row
]


ROW = {"model_id": "b", "task_id": "t", "score": 1.0}


def runs_of(scores) -> list[EvalRun]:
    return [
        EvalRun(model_id=model, task_id=task, score=score, category=task[0])
        for model, tasks in scores.items()
        for task, score in tasks.items()
    ]


def by_model(rows_) -> dict[str, LeaderboardRow]:
    return {row.model_id: row for row in rows_}


@pytest.mark.parametrize("row", BOARDS, ids=lambda r: r["id"])
def test_boards_have_the_known_means_and_win_rates(row):
    """Where scores tie within 1e-9 the rule page's half points stand (`policy_win_rate`)."""
    board = by_model(aggregate(runs_of(row["scores"]), resamples=400))
    wins = row.get("policy_win_rate", row["mean_win_rate"])
    assert set(board) == set(row["mean"])
    for model, mine in board.items():
        assert mine.mean_score == pytest.approx(row["mean"][model], abs=1e-12)
        assert mine.mean_win_rate == (
            None if wins[model] is None else pytest.approx(wins[model], abs=1e-12)
        )
        assert mine.tasks_completed == row["n_tasks"][model]


@pytest.mark.parametrize("row", REFUSED, ids=lambda r: r["id"])
def test_scores_that_are_none_are_refused_by_name(row):
    """The text "NaN" stands for the number; other texts are texts."""
    scores = {
        model: {task: math.nan if score == "NaN" else score for task, score in tasks.items()}
        for model, tasks in row["scores"].items()
    }
    with pytest.raises(BadNumbers, match="model 'A', task 't1', sample 0: score"):
        aggregate(runs_of(scores))


def test_one_trial_has_one_vote():
    twice = [EvalRun(model_id="A", task_id="t", sample=3, score=s) for s in (0.0, 1.0)]
    with pytest.raises(BadNumbers, match="model 'A', task 't', sample 3: there twice"):
        tabulate(twice)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_id": ""}, "model '', task 't', sample 0: model_id must not be empty"),
        ({"task_id": ""}, "model 'A', task '', sample 0: task_id must not be empty"),
        ({"sample": -1}, "model 'A', task 't', sample -1: sample must be 0 or more"),
    ],
)
def test_a_trial_has_names_and_counts_from_zero(changed, message):
    run = {"model_id": "A", "task_id": "t", "score": 1.0} | changed
    with pytest.raises(BadNumbers, match=message):
        tabulate([run])


def test_a_task_has_one_category():
    runs = [
        EvalRun(model_id=model, task_id="t", category=category, score=1.0)
        for model, category in (("A", "maths"), ("B", "law"))
    ]
    with pytest.raises(BadNumbers, match="category 'law', elsewhere 'maths'"):
        tabulate(runs)


def test_samples_of_a_task_are_averaged_first():
    """t1 twice (0 and 1) and t2 once (1): (0.5 + 1) / 2, not 2 / 3."""
    runs = [
        EvalRun(model_id="A", task_id="t1", sample=0, score=0.0),
        EvalRun(model_id="A", task_id="t1", sample=1, score=1.0),
        EvalRun(model_id="A", task_id="t2", sample=0, score=1.0),
    ]
    (row,) = aggregate(runs)
    assert row.mean_score == 0.75
    assert row.ci_method == "student_t"
    assert row.tasks_completed == 2


def test_errors_are_missing_and_not_wrong():
    runs = [
        EvalRun(model_id="A", task_id="t1", score=1.0),
        EvalRun(model_id="A", task_id="t2", score=None, outcome="timeout"),
        EvalRun(model_id="A", task_id="t3", score=0.0, outcome="error"),
    ]
    (row,) = aggregate(runs)
    assert (row.mean_score, row.tasks_completed, row.n_missing) == (1.0, 1, 2)
    assert not row.complete


def test_an_incomplete_model_stands_below_every_complete_one():
    """Row lb-07: B has 0.95 on one task, A 0.85 on both."""
    board = aggregate(runs_of({"A": {"t1": 0.9, "t2": 0.8}, "B": {"t1": 0.95}}))
    assert [(row.rank, row.model_id, row.complete) for row in board] == [
        (1, "A", True), (2, "B", False),
    ]  # fmt: skip


def test_equal_means_share_a_rank_and_the_next_is_skipped():
    board = aggregate(
        runs_of({"C": {"t": 0.1}, "B": {"t": 0.3}, "A": {"t": 0.1 + 0.2}}), resamples=400
    )
    assert [(row.rank, row.model_id) for row in board] == [(1, "A"), (1, "B"), (3, "C")]


def test_a_chain_of_near_ties_does_not_join_its_ends():
    """0.5, 0.5 - 0.8e-9, 0.5 - 1.6e-9: the third is no tie of the first."""
    scores = {name: {"t": 0.5 - i * 0.8e-9} for i, name in enumerate("ABC")}
    assert [row.rank for row in aggregate(runs_of(scores))] == [1, 1, 3]


def test_the_win_rate_counts_tasks_on_which_nobody_was_better():
    """t1 tied for first by A and B, t2 won by B, t3 by C alone there; one model alone has 1.0."""
    board = by_model(
        aggregate(
            runs_of({"A": {"t1": 0.7, "t2": 0.1}, "B": {"t1": 0.7, "t2": 0.5}, "C": {"t3": 0.0}})
        )
    )
    assert [board[model].win_rate for model in "ABC"] == [0.5, 1.0, 1.0]
    assert board["C"].mean_win_rate is None


def test_a_model_without_any_score_is_listed_last_without_figures():
    runs = [
        EvalRun(model_id="A", task_id="t", score=0.0),
        EvalRun(model_id="B", task_id="t", score=None, outcome="error"),
    ]
    last = aggregate(runs)[-1]
    assert (last.rank, last.model_id, last.mean_score, last.win_rate) == (2, "B", None, None)
    assert last.ci_reason == "no scored cases"


def test_rows_carry_the_headline_interval_and_the_bootstrap():
    scores = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    (row,) = aggregate(runs_of({"A": {f"t{i}": s for i, s in enumerate(scores)}}), seed=5)
    assert (row.ci_lo, row.ci_hi) == wilson(6, 8).bounds
    assert row.ci_method == "wilson"
    assert (row.mean_ci_lo, row.mean_ci_hi) == bootstrap_mean_ci(scores, seed=5).bounds


def test_all_right_has_a_degenerate_bootstrap_and_a_headline_with_a_width():
    (row,) = aggregate(runs_of({"A": {f"t{i}": 1.0 for i in range(5)}}))
    assert (row.mean_ci_lo, row.mean_ci_hi, row.degenerate) == (1.0, 1.0, True)
    assert (row.ci_lo, row.ci_hi) == wilson(5, 5).bounds


def test_categories_have_means_and_null_where_a_model_has_none():
    board = by_model(aggregate(runs_of({"A": {"a1": 0.2, "a2": 0.4, "b1": 1.0}, "B": {"a1": 0.5}})))
    assert board["A"].categories == {"a": pytest.approx(0.3), "b": 1.0}
    assert board["B"].categories == {"a": 0.5, "b": None}


def test_clusters_change_the_interval_and_must_cover_every_task():
    runs = runs_of({"A": {f"t{i}": float(i % 2) for i in range(8)}})
    clusters = {f"t{i}": str(i // 2) for i in range(8)}
    assert aggregate(runs, clusters=clusters)[0].ci_method == "clustered_t"
    with pytest.raises(BadNumbers, match="'t7' has no cluster"):
        aggregate(runs, clusters={k: v for k, v in clusters.items() if k != "t7"})


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_trials_does_not_matter(seed):
    """Byte-equal reports start here: sorted, summed exactly, seeded."""
    rng = random.Random(seed)
    runs = [
        EvalRun(
            model_id=f"m{m}",
            task_id=f"t{t}",
            sample=s,
            score=None if rng.random() < 0.1 else rng.random(),
        )
        for m in range(3)
        for t in range(6)
        for s in range(3)
    ]
    expected = aggregate(runs, resamples=400)
    rng.shuffle(runs)
    assert aggregate(runs, resamples=400) == expected


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])), min_size=5, max_size=5),
        min_size=1,
        max_size=5,
    )
)
@settings(deadline=None)
def test_win_rates_equal_the_plain_definition(board):
    """The vectorised count against the sentence of the rule, written out."""
    scores = np.array([[math.nan if s is None else s for s in row] for row in board])
    won, mean_won = win_rates(scores)
    for me, mine in enumerate(board):
        best, points = [], []
        for task, score in enumerate(mine):
            others = [row[task] for i, row in enumerate(board) if i != me and row[task] is not None]
            if score is None:
                continue
            best.append(all(other <= score for other in others))
            if others:
                points.append(sum((o < score) + (o == score) / 2 for o in others) / len(others))
        assert won[me] == (pytest.approx(sum(best) / len(best)) if best else None)
        assert mean_won[me] == (pytest.approx(sum(points) / len(points)) if points else None)


def test_a_hundred_models_do_not_overflow_the_byte_counter():
    """Pairwise counts of up to 2 x 100 do not fit a signed byte."""
    scores = np.linspace(0.0, 1.0, 100)[:, None]
    assert win_rates(scores)[1] == pytest.approx([i / 99 for i in range(100)])


def test_rows_of_a_stream_give_the_leaderboard_of_their_trials():
    """`farm eval --stream` adds the response and more to the fields of a trial."""
    trials = runs_of({"a": {"x": 1.0, "y": 0.5}, "b": {"x": 0.25, "y": None}})
    streamed = [
        {**msgspec.to_builtins(one), "response": "no", "usage": {}, "finish_reason": "stop"}
        for one in trials
    ]
    assert aggregate(streamed) == aggregate(trials)
    assert aggregate(msgspec.json.decode(msgspec.json.encode(streamed))) == aggregate(trials)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"model_id": "m", "task_id": "t"}, "model_id 'm', task_id 't'.*`score`"),
        ({"model_id": "m", "task_id": "t", "score": "1"}, "model_id 'm', task_id 't'.*score"),
        ({"model_id": "m", "task_id": "t", "score": 2.0}, "model 'm', task 't'.*score 2.0"),
        ({}, "a row.*model_id"),
        (3, "3 is no trial"),
        (None, "None is no trial"),
    ],
)
def test_what_is_no_trial_is_refused_by_name(row, told):
    with pytest.raises(BadNumbers, match=told):
        aggregate([row])


@pytest.mark.parametrize(
    "wrong", [{"model_id": 3}, {"task_id": None}, {"category": 1}, {"sample": "0"}, {"sample": []}]
)
def test_names_of_another_type_are_refused_by_name(wrong):
    """Among texts they could not even be sorted."""
    rows_ = [EvalRun(model_id="a", task_id="t", score=1.0), EvalRun(**ROW | wrong)]
    ((name, value),) = wrong.items()
    with pytest.raises(BadNumbers, match=re.escape(f"{name} {value!r} must be")):
        aggregate(rows_)


def test_no_models_give_no_rows():
    assert aggregate([]) == ()


def test_tables_of_arrays_are_checked():
    with pytest.raises(BadNumbers, match=r"1\.5 of model 'B' in column 1"):
        ScoreTable.of([[0.0, 1.0], [0.5, 1.5]], model_ids=["A", "B"])
    with pytest.raises(BadNumbers, match="one row for each of 1 models"):
        ScoreTable.of([[0.0], [0.5]], model_ids=["A"])
    with pytest.raises(BadNumbers, match="'A' is there twice"):
        ScoreTable.of([[0.0], [0.5]], model_ids=["A", "A"])
    with pytest.raises(BadNumbers, match="categories: 2 values for 1 tasks"):
        ScoreTable.of([[0.0]], model_ids=["A"], categories=["x", "y"])
