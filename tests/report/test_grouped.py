"""Reports of runs whose cases belong together: by hand, and as the leaderboard has them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farm.core.case import Case
from farm.report import render
from farm.report.build import Report
from farm.report.compare import compare_runs
from farm.report.envelope import Accuracy, to_json
from farm.report.gate import decide_gate
from farm.report.grouped import Sample, grouped_figures
from farm.report.saved import read_saved
from farm.runtime.board import envelope_of, gather
from farm.runtime.sides import side_of
from farm.runtime.standing import report_of
from farm.runtime.trials import Recorded
from farm.stats.intervals import Interval
from farm.stats.leaderboard import LeaderboardRow
from tests.runtime.recordings import case, evaluation, recording


def samples(**tasks: str) -> list[Sample]:
    """A task a word: c is a right sample, w a wrong one, x one that could not be scored."""
    return [
        Sample(
            task=task, score=None if letter == "x" else float(letter == "c"), correct=letter == "c"
        )
        for task, letters in tasks.items()
        for letter in letters
    ]


def test_samples_are_averaged_for_each_task_first() -> None:
    """Shares 1, 1/2 and 0: mean 1/2, and Student's t of two degrees: 0.5 / sqrt(3) * 4.302653."""
    found = grouped_figures(samples(a="cccc", b="cw", c="w"), clusters=None)
    assert found.accuracy == found.mean == 0.5
    assert found.accuracy_interval.method == found.mean_interval.method == "student_t"
    assert found.accuracy_interval.n == 3
    # 0.5 less 1.242 is clipped at 0
    assert found.accuracy_interval.bounds == (0.0, 1.0)


def test_what_could_not_be_scored_is_in_the_range_and_not_in_the_share() -> None:
    """a: 1 of 1 scored, between 1/2 and 1; b: nothing scored, between 0 and 1."""
    found = grouped_figures(samples(a="cx", b="xx"), clusters=None)
    assert (found.accuracy, found.lowest, found.highest) == (1.0, 0.25, 1.0)
    assert found.accuracy_interval.n == 1
    nothing = grouped_figures(samples(a="xx"), clusters=None)
    assert (nothing.accuracy, nothing.mean, nothing.accuracy_interval.lo) == (None, None, None)
    assert nothing.accuracy_interval.reason == "no scored cases"


def test_clusters_of_tasks_count_and_not_tasks() -> None:
    """Two clusters of two tasks, one all right and one all wrong: an error of 1/2, t of one."""
    kept = {"a": "k", "b": "k", "c": "l", "d": "l"}
    found = grouped_figures(samples(a="cc", b="c", c="w", d="w"), clusters=kept)
    assert found.accuracy == 0.5
    assert (found.accuracy_interval.method, found.accuracy_interval.n) == ("clustered_t", 2)
    assert found.accuracy_interval.flags == ("few_clusters",)


CLUSTERED = [case(f"c{i}", "yes" if i % 4 else "no", cluster=f"k{i // 8}") for i in range(40)]
SOME = [
    case(f"c{i}", "yes" if i % 3 else "no", **({"cluster": "k"} if i < 5 else {}))
    for i in range(12)
]
SAMPLED = [
    case(f"c{i}-{j}", "yes" if (i + j) % 3 else "no", task=f"t{i}", sample=j)
    for i in range(12)
    for j in range(1 + i % 3)
]
BOTH = [
    case(f"c{i}-{j}", "yes" if (i + j) % 3 else "no", task=f"t{i}", sample=j, cluster=f"k{i // 3}")
    for i in range(12)
    for j in range(2)
]


@pytest.mark.parametrize("cases", [CLUSTERED, SOME, SAMPLED, BOTH])
@pytest.mark.parametrize("by", ["exact_match", "f1"])
@pytest.mark.parametrize("done", [None, 2])
def test_a_run_says_of_itself_what_the_leaderboard_says(
    cases: list[Case], by: str, done: int | None
) -> None:
    """Both intervals, to the last bit, also half way; the method is named in the signature."""
    run = recording(cases, by=by, done=done)
    board = envelope_of([run], gather([run]), detail=False)
    for detail in (True, False):
        made = report_of(run.store, detail=detail)
        assert accuracy_of(made) == accuracy_on(board.accuracy["m"])
        assert mean_of(made) == mean_on(board.leaderboard[0])
        assert f"|interval:{made.accuracy.method}|" in made.signature
        assert made.accuracy.value is not None
        assert made.accuracy.lowest <= made.accuracy.value <= made.accuracy.highest


def answers(cases: list[Case], *, but: int) -> list[Case]:
    """The same cases with every answer turned round but each `but`-th."""
    turned = {"yes": "no", "no": "yes"}
    return [
        replace(one, response=one.response if place % but == 0 else turned[one.response])
        for place, one in enumerate(cases)
    ]


GRADED = [
    replace(one, expected="a b", response=("a", "a b", "c")[place % 3])
    for place, one in enumerate(SAMPLED)
]
# "!!" is no word, so f1 cannot score it: of some tasks one sample, of others all
LOST = [replace(one, expected="!!") if place % 4 == 1 else one for place, one in enumerate(SAMPLED)]
DEALT = {
    "clusters": (CLUSTERED, answers(CLUSTERED, but=3)),
    "some in a cluster": (SOME, answers(SOME, but=4)),
    "samples": (SAMPLED, answers(SAMPLED, but=2)),
    "both": (BOTH, answers(BOTH, but=3)),
    "graded": (GRADED, [replace(one, response="b") for one in GRADED]),
    "lost": (LOST, answers(LOST, but=2)),
    "unequal": (SAMPLED, [one for one in answers(SAMPLED, but=2) if one.sample in (0, 1)]),
    "other ids": (SAMPLED, [replace(one, id=f"x{one.id}") for one in answers(SAMPLED, but=2)]),
}


@pytest.mark.parametrize("dealt", DEALT)
@pytest.mark.parametrize("done", [(None, None), (None, 2), (2, 2)])
def test_a_gate_and_a_comparison_say_what_the_reports_say(
    dealt: str, done: tuple[int | None, int | None]
) -> None:
    """To the last bit: accuracy, interval, range; difference, interval, test; from files too."""
    runs = [
        recording(cases, model=name, by="f1", done=shards)
        for name, cases, shards in zip("ab", DEALT[dealt], done, strict=True)
    ]
    sides = [side_of(run) for run in runs]
    for run in runs:
        assert_same_figures(run)
    (pair,) = envelope_of(runs, gather(runs), detail=False).pairwise
    found = compare_runs(sides[1], sides[0], common=dealt in ("unequal", "other ids"))
    assert found.difference == pytest.approx(pair.diff_mean, abs=1e-15)
    assert (found.n, found.test, found.p_value, *interval_of(found.interval)) == (
        (pair.n, pair.test, pair.p_value, pair.ci_lo, pair.ci_hi, pair.ci_method)
    )
    assert found.detectable == pair.detectable


@pytest.mark.parametrize("done", [0, 1, 2, 4])
def test_an_evaluation_that_is_under_way_is_the_same_from_its_store_and_from_files(
    done: int,
) -> None:
    """Also where trials that have no verdict yet are samples of tasks that have some."""
    words = {"a": "ccwx", "b": "wwww", "c": "ccxx", "d": "xxxx", "e": "cwcw"}
    assert_same_figures(evaluation(words, shards=4, done=done))


def assert_same_figures(run: Recorded) -> None:
    """What a gate says of a run is what its reports say, and these as files are its side."""
    side, made = side_of(run), report_of(run.store).accuracy
    gated = decide_gate(side, min_accuracy=0.5)
    assert (gated.accuracy, gated.lowest, gated.highest, *interval_of(gated.interval)) == (
        (made.value, made.lowest, made.highest, made.ci_lo, made.ci_hi, made.method)
    )
    board = envelope_of([run], gather([run]), detail=True)
    assert read_saved(to_json(board), path="f") == side
    assert read_saved(render.to_json(report_of(run.store)), path=side.label) == side
    row = board.accuracy[run.model]
    assert (row.accuracy, row.range_lo, row.range_hi) == (made.value, made.lowest, made.highest)


def interval_of(made: Interval) -> Any:
    return made.lo, made.hi, made.method


def accuracy_of(made: Report) -> Any:
    return made.accuracy.ci_lo, made.accuracy.ci_hi, made.accuracy.method


def accuracy_on(row: Accuracy) -> Any:
    return row.ci_lo, row.ci_hi, row.ci_method


def mean_of(made: Report) -> Any:
    interval = made.mean_interval
    return made.mean_score, interval.ci_lo, interval.ci_hi, interval.method, interval.flags


def mean_on(row: LeaderboardRow) -> Any:
    return row.mean_score, row.ci_lo, row.ci_hi, row.ci_method, row.ci_flags


def test_a_large_run_is_read_through_only_where_its_plan_says_so() -> None:
    """A look at a million cases must not read them; an older plan says nothing, and gets Wilson."""
    many = [case(f"c{i}", "yes" if i % 4 else "no", cluster=f"k{i // 8}") for i in range(10_001)]
    unsaid = report_of(recording(many).store)
    said = report_of(recording(many, grouped=True).store)
    assert (unsaid.accuracy.method, said.accuracy.method) == ("wilson", "clustered_t")


@pytest.mark.parametrize("grouped", [True, False])
def test_cases_that_stand_alone_keep_the_interval_of_single_cases(grouped: bool) -> None:
    """Also where each names a task, or the first sample of one."""
    alone = [case(f"c{i}", "yes" if i else "no") for i in range(4)]
    named = [case(f"c{i}", "yes" if i else "no", task=f"t{i}", sample=0) for i in range(4)]
    plain = report_of(recording(alone).store)
    assert (plain.accuracy.method, plain.accuracy.n, plain.accuracy.value) == ("wilson", 4, 0.75)
    same = report_of(recording(named, grouped=grouped).store)
    assert (same.accuracy, same.mean_interval) == (plain.accuracy, plain.mean_interval)
