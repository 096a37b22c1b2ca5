"""Comparing two runs and gating one: pairing, refusals, evidence, exit codes."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from farm.core.case import Group
from farm.errors import SpecError, UsageError
from farm.report.compare import (
    compare_runs,
    render_comparison_json,
    render_comparison_markdown,
)
from farm.report.gate import decide_gate, gate_suite, render_gate_json, render_gate_markdown
from farm.report.junit import render_junit
from farm.report.side import Judged, RunSide
from farm.stats.intervals import wilson

OUTCOME = {"c": (True, 1.0, "correct"), "w": (False, 0.0, "wrong"), "o": (False, None, "error")}


def side(label: str, letters: str, **changes: object) -> RunSide:
    cases = {}
    for place, letter in enumerate(letters):
        correct, score, outcome = OUTCOME[letter]
        cases[f"case-{place:03}"] = Judged(correct=correct, score=score, outcome=outcome)
    made = RunSide(label=label, tasks_sha256="t1", scorer="exact@1", complete=True, cases=cases)
    return replace(made, **changes)


# 10 broken, 2 fixed, 28 alike: exact McNemar p = 0.03857421875
BEFORE = side("before", "c" * 10 + "w" * 2 + "c" * 28)
AFTER = side("after", "w" * 10 + "c" * 2 + "c" * 28)


def test_runs_are_paired_by_case_and_their_changes_listed():
    found = compare_runs(BEFORE, AFTER)
    assert (found.n, found.test, found.significant) == (40, "mcnemar_exact", True)
    assert found.p_value == pytest.approx(0.03857421875, abs=1e-15)
    assert found.difference == pytest.approx(-0.2)
    assert len(found.broken) == 10
    assert [change.id for change in found.fixed] == ["case-010", "case-011"]
    assert (found.fixed[0].before, found.fixed[0].after) == ("wrong", "correct")
    assert found.interval.hi is not None
    assert found.interval.hi < 0.0


def test_cases_without_a_score_are_left_out_by_name():
    found = compare_runs(side("a", "cco"), side("b", "cwc"))
    assert found.n == 2
    assert found.only_first == found.only_second == ("case-002",)


def test_another_scorer_is_always_refused_and_other_tasks_unless_asked():
    with pytest.raises(SpecError, match=r"'exact@1' and 'after' by 'exact@2'"):
        compare_runs(BEFORE, replace(AFTER, scorer="exact@2"), common=True)
    other = replace(AFTER, tasks_sha256="t2")
    with pytest.raises(SpecError, match=r"has tasks 't1' .* has tasks 't2': .* --common"):
        compare_runs(BEFORE, other)
    assert compare_runs(BEFORE, other, common=True).n == 40


def test_graded_scores_are_compared_by_score_and_not_by_verdict():
    def graded(label: str, scores: list[float]) -> RunSide:
        cases = {
            f"c{i}": Judged(correct=s >= 0.5, score=s, outcome="correct")
            for i, s in enumerate(scores)
        }
        return replace(side(label, ""), cases=cases)

    found = compare_runs(graded("a", [0.6, 0.7, 0.9, 0.8]), graded("b", [0.7, 0.9, 0.9, 1.0]))
    assert found.test == "paired_t"
    assert found.difference == pytest.approx(0.125)
    assert (found.fixed, found.broken) == ((), ())


def test_a_comparison_reads_well_and_is_strict_json():
    found = compare_runs(BEFORE, AFTER)
    text = render_comparison_markdown(found)
    assert "before is ahead beyond chance." in text
    assert "Broken, 10 cases:" in text
    assert json.loads(render_comparison_json(found))["p_value"] == found.p_value
    alike = render_comparison_markdown(compare_runs(BEFORE, BEFORE))
    assert "not proof that they are equal" in alike
    none = render_comparison_markdown(compare_runs(side("a", ""), side("b", "")))
    assert "No test: " in none


def test_a_significant_drop_fails_and_a_smaller_one_passes_as_underpowered():
    """5 against 2: p = 0.45; the drop of 3 in 40 is less than 40 cases can show."""
    failed = decide_gate(AFTER, baseline=BEFORE)
    assert (failed.verdict, failed.exit_code, failed.underpowered) == ("regression", 5, False)
    assert "mcnemar exact p 0.039" in failed.reasons[0]
    small = decide_gate(side("small", "w" * 5 + "c" * 35), baseline=BEFORE)
    assert (small.verdict, small.exit_code, small.underpowered) == ("passed", 0, True)
    assert small.detectable is not None


def test_an_improvement_passes_and_is_not_underpowered():
    better = decide_gate(BEFORE, baseline=AFTER)
    assert (better.exit_code, better.underpowered) == (0, False)


def test_an_explicit_threshold_decides_alone():
    """A drop of 0.2: more than 0.1 allowed fails, 0.2 and 0.3 allowed pass."""
    assert decide_gate(AFTER, baseline=BEFORE, max_regression=0.1).exit_code == 5
    assert decide_gate(AFTER, baseline=BEFORE, max_regression=0.2).exit_code == 0
    assert decide_gate(AFTER, baseline=BEFORE, max_regression=0.3).exit_code == 0
    small = side("small", "w" * 3 + "c" * 37)
    assert decide_gate(small, baseline=BEFORE, max_regression=0.0).exit_code == 5


def test_the_least_accuracy_is_held_and_thin_evidence_is_told():
    """30 of 40 is 0.75, Wilson from 0.598: above 0.7, but 40 cases cannot tell it from 0.6."""
    run = side("run", "c" * 30 + "w" * 10)
    assert decide_gate(run, min_accuracy=0.8).exit_code == 5
    thin = decide_gate(run, min_accuracy=0.7)
    assert (thin.exit_code, thin.underpowered) == (0, True)
    assert thin.interval == wilson(30, 40)
    assert not decide_gate(run, min_accuracy=0.5).underpowered


def test_a_reason_shows_as_many_digits_as_it_takes_to_see_it():
    """By three digits, 8,996 of 10,000 is 0.900, and a drop of 0.0024 is 0.002."""
    run = side("run", "c" * 8996 + "w" * 1004)
    low = decide_gate(run, min_accuracy=0.9)
    assert low.reasons == ("accuracy 0.8996 is below 0.9 (95% CI [0.894, 0.905], 10,000 cases)",)
    assert render_gate_markdown(low).count("accuracy") == 1
    close = decide_gate(run, min_accuracy=0.89961)
    assert close.reasons[0].startswith("accuracy 0.8996 is below 0.89961 (")
    base = side("base", "c" * 9020 + "w" * 980)
    (reason,) = decide_gate(run, baseline=base, max_regression=0.002).reasons
    assert reason.startswith("regression, more than the allowed 0.002: -0.0024 against 'base', ")
    text = render_gate_markdown(decide_gate(run, baseline=base, max_regression=0.002))
    assert text.count("against 'base'") == 1
    lost = side("run", "c" * 8996 + "w" * 1003 + "o")
    (reason,) = decide_gate(lost, min_accuracy=0.89965).reasons
    assert "lies between 0.8996 and 0.900; were they wrong: accuracy 0.8996 is below" in reason


def test_an_accuracy_is_not_below_itself_by_its_last_bit():
    """Tasks of 0, 0 and 3/5: the mean is 1/5, which floats make 0.19999999999999998."""
    groups = in_tasks_of(5, 15)
    run = side("run", "w" * 10 + "cccww", groups=groups)
    passed = decide_gate(run, min_accuracy=0.2)
    assert (passed.accuracy, passed.verdict) == (0.19999999999999998, "passed")


def test_an_incomplete_run_ends_with_six_whatever_its_figures():
    perfect = side("run", "c" * 40, complete=False)
    assert decide_gate(perfect, min_accuracy=0.5).exit_code == 6
    assert decide_gate(AFTER, baseline=replace(BEFORE, complete=False)).exit_code == 6
    assert decide_gate(side("run", "ooo"), min_accuracy=0.5).exit_code == 6
    apart = replace(BEFORE, cases={"x": Judged(correct=True, score=1.0, outcome="correct")})
    assert decide_gate(AFTER, baseline=apart).reasons == (
        "'after' and 'before' have no scored case in common",
    )


def test_a_run_that_passes_only_for_want_of_scores_does_not_pass():
    """1 of 50 scored and right: the accuracy lies between 0.02 and 1, and 49 may be broken."""
    base, run = side("base", "c" * 50), side("run", "c" + "o" * 49)
    for result in (decide_gate(run, baseline=base), decide_gate(run, min_accuracy=0.9)):
        assert (result.verdict, result.exit_code, result.underpowered) == ("incomplete", 6, False)
        assert (result.n, result.unscored, result.accuracy) == (1, 49, 1.0)
        assert (result.lowest, result.highest) == (0.02, 1.0)
        (reason,) = result.reasons
        assert reason.startswith(
            "49 of 50 cases of 'run' have no score, its accuracy lies between 0.020 and 1.000; "
            "were they wrong: "
        )
        text = render_gate_markdown(result)
        assert (
            "- 49 cases without a score: over all cases the accuracy lies between 0.020 and 1.000\n"
        ) in text
        printed = json.loads(render_gate_json(result))
        assert (printed["unscored"], printed["lowest"], printed["highest"]) == (49, 0.02, 1.0)
    assert (
        "were they wrong: regression: -0.980 against 'base'"
        in (decide_gate(run, baseline=base).reasons[0])
    )
    assert decide_gate(run, min_accuracy=0.9).reasons[0].endswith("accuracy 0.020 is below 0.9")


def test_cases_without_a_score_do_not_hold_up_a_run_they_cannot_change():
    """38 of 40 right whatever two errors are: above 0.9, and two flips are no regression."""
    base, run = side("base", "c" * 40), side("run", "c" * 38 + "oo")
    assert decide_gate(run, baseline=base, min_accuracy=0.9).verdict == "passed"
    assert decide_gate(run, min_accuracy=0.96).exit_code == 6
    assert decide_gate(run, baseline=base, max_regression=0.04).exit_code == 6
    assert decide_gate(run, baseline=base, max_regression=0.05).exit_code == 0
    # nobody knows what became of them before either
    assert decide_gate(run, baseline=side("base", "c" * 38 + "oo")).verdict == "passed"
    # what is a regression already stays one
    fallen = side("run", "w" * 20 + "o" * 20)
    assert decide_gate(fallen, baseline=base).verdict == "regression"


def test_a_pass_that_could_not_have_failed_says_underpowered():
    """Four pairs reach p = 0.125 at best; one cluster, or one without spread, has no interval."""
    four = side("run", "cccw")
    thin = decide_gate(four, baseline=replace(four, label="base"))
    assert (thin.verdict, thin.underpowered, thin.detectable) == ("passed", True, None)
    assert "this few cases (with n = 4 no difference reaches p &lt; 0.05)" in (
        render_gate_markdown(thin)
    )
    many = side("run", "c" * 39 + "w")
    assert not decide_gate(many, baseline=replace(many, label="base")).underpowered

    one = replace(four, groups=dict.fromkeys(four.cases, Group(cluster="g")))
    assert decide_gate(one, min_accuracy=0.5).underpowered
    assert "- no interval: clusters: at least two are needed\n" in (
        render_gate_markdown(decide_gate(one, min_accuracy=0.5))
    )
    halves = side("run", "cw" * 10)
    halves = replace(
        halves,
        groups={name: Group(cluster=str(place // 2)) for place, name in enumerate(halves.cases)},
    )
    flat = decide_gate(halves, min_accuracy=0.4)
    assert (flat.interval.degenerate, flat.underpowered) == (True, True)
    assert "- all clusters are equal: the interval has no width, which is not certainty\n" in (
        render_gate_markdown(flat)
    )


def in_tasks_of(size: int, count: int = 200) -> dict[str, Group]:
    return {
        f"case-{place:03}": Group(task=f"t{place // size}", sample=place % size)
        for place in range(count)
    }


def test_samples_and_clusters_that_all_fall_alike_are_a_regression():
    """50 tasks of 4 samples, all right and all wrong: McNemar over tasks, 2 / 2^50.

    Where each task falls by a quarter, and in clusters, it is the sign test.
    """
    groups = in_tasks_of(4)
    base = side("base", "c" * 200, groups=groups)
    failed = decide_gate(side("run", "w" * 200, groups=groups), baseline=base)
    assert (failed.verdict, failed.exit_code) == ("regression", 5)
    assert failed.comparison
    assert (failed.comparison.test, failed.comparison.p_value) == ("mcnemar_exact", 2.0**-49)
    assert (failed.comparison.n, failed.comparison.unit, failed.n) == (50, "task", 200)
    part = decide_gate(side("run", "wccc" * 50, groups=groups), baseline=base)
    assert (part.verdict, part.comparison and part.comparison.difference) == ("regression", -0.25)
    assert part.comparison
    assert (part.comparison.test, part.comparison.p_value) == ("sign_exact", 2.0**-49)
    text = render_comparison_markdown(part.comparison)
    assert (
        "base is ahead beyond chance.\nAll differences are equal: the interval has no width" in text
    )
    same = decide_gate(side("run", "c" * 200, groups=groups), baseline=base)
    assert (same.verdict, same.underpowered) == ("passed", False)
    clusters = {one: Group(cluster=group.task) for one, group in groups.items()}
    base, run = side("base", "c" * 200, groups=clusters), side("run", "w" * 200, groups=clusters)
    kept = decide_gate(run, baseline=base).comparison
    assert kept
    assert (kept.test, kept.p_value, kept.n, kept.unit) == ("sign_exact", 2.0**-49, 200, "case")
    assert kept.interval.n == 50


def test_a_task_weighs_the_same_however_often_it_was_sampled():
    """A has 8 samples, all right, B, C and D one each, wrong: 1 of 4 tasks; of cases, 8 of 11."""
    groups = in_tasks_of(8, 8)
    run = side("run", "c" * 8 + "w" * 3, groups=groups)
    failed = decide_gate(run, min_accuracy=0.7)
    assert (failed.verdict, failed.accuracy, failed.n) == ("regression", 0.25, 11)
    assert failed.interval == wilson(1, 4)
    assert failed.reasons == ("accuracy 0.250 is below 0.7 (95% CI [0.046, 0.699], 11 cases in 4 "
                              "tasks)",)  # fmt: skip
    other = side("other", "w" * 8 + "c" * 3, groups=groups)
    better = decide_gate(other, baseline=run, max_regression=0.0)
    assert (better.verdict, better.comparison and better.comparison.difference) == ("passed", 0.5)


def test_copies_of_one_answer_are_no_evidence():
    """Five of ten tasks lost: McNemar 2 / 2^5, whether each was asked once or four times."""
    once = compare_runs(side("a", "c" * 10), side("b", "w" * 5 + "c" * 5))
    groups = in_tasks_of(4, 40)
    often = compare_runs(
        side("a", "c" * 40, groups=groups), side("b", "w" * 20 + "c" * 20, groups=groups)
    )
    for found in (once, often):
        assert (found.test, found.p_value) == ("mcnemar_exact", 0.0625)
        assert (found.n, found.difference, found.significant) == (10, -0.5, False)
    assert (once.unit, often.unit) == ("case", "task")
    assert "only that 10 tasks do not show a difference" in render_comparison_markdown(often)
    assert len(often.broken) == 20


def test_samples_that_one_run_lost_leave_their_task_to_the_others():
    """t0: (1 + 0) / 2 against 1 of one scored; t1: nothing scored in b, so it is left out."""
    groups = in_tasks_of(2, 4)
    found = compare_runs(side("a", "cwcc", groups=groups), side("b", "ocoo", groups=groups))
    assert (found.n, found.mean_first, found.mean_second) == (1, 0.5, 1.0)
    assert found.only_first == ("case-002", "case-003")
    assert found.only_second == ("case-000", "case-002", "case-003")
    assert "|n:1|missing:2+3|" in found.signature
    assert [change.id for change in found.fixed] == ["case-001"]


def test_a_task_is_known_by_the_run_that_names_it():
    """What a case is a sample of is no part of what makes it the same case in two runs."""
    groups = in_tasks_of(4, 4)
    for one, two in (({}, groups), (groups, {})):
        found = compare_runs(side("a", "cccw", groups=one), side("b", "wwcw", groups=two))
        assert (found.n, found.unit, found.difference) == (1, "task", -0.5)


def test_cases_that_only_share_the_name_of_a_task_are_refused():
    """Else a hundred cases of one `task` would be compared as one; a leaderboard says the same."""
    run = side("run", "cc", groups={f"case-{place:03}": Group(task="maths") for place in range(2)})
    message = (
        "'run': cases 'case-000' and 'case-001' are both sample 0 of task 'maths': number repeated "
        "answers by `sample`, or name groups of tasks by `category`"
    )
    with pytest.raises(SpecError, match=message):
        decide_gate(run, min_accuracy=0.5)
    with pytest.raises(SpecError, match=message):
        compare_runs(side("base", "cc"), run)


def test_a_task_in_two_clusters_is_refused_by_name():
    """As a leaderboard of the two runs refuses it."""
    one = side("a", "cc", groups={"case-000": Group(cluster="x")})
    two = side("b", "cc", groups={"case-000": Group(cluster="y")})
    message = (
        "task 'case-000' is in 'cluster y' by case 'case-000' of 'b', elsewhere in 'cluster x'"
    )
    with pytest.raises(SpecError, match=message):
        compare_runs(one, two)


def test_signatures_name_the_post_processing_and_count_what_is_pending():
    """5 of 20 judged so far: 15 are missing, as a report says."""
    run = side("run", "cccww", pending=15, complete=False, post_process="extract_first_line")
    result = decide_gate(run, baseline=replace(BEFORE, post_process="extract_first_line"))
    assert result.signature.startswith("metric:exact@1|post:extract_first_line|n:5|missing:15|")
    assert (result.unscored, result.lowest, result.highest) == (15, 3 / 20, 18 / 20)
    assert result.comparison
    assert "|post:extract_first_line|n:5|missing:35+15|" in result.comparison.signature


def test_a_gate_without_anything_to_judge_by_is_refused():
    with pytest.raises(UsageError, match="--baseline, --min-accuracy"):
        decide_gate(AFTER)
    with pytest.raises(UsageError, match="needs a --baseline"):
        decide_gate(AFTER, min_accuracy=0.5, max_regression=0.1)
    with pytest.raises(UsageError, match="between 0 and 1"):
        decide_gate(AFTER, min_accuracy=95.0)


def test_the_verdict_is_shown_in_markdown_json_and_junit():
    result = decide_gate(AFTER, baseline=BEFORE)
    assert render_gate_markdown(result).startswith("**Gate: regression**\n")
    assert json.loads(render_gate_json(result))["exit_code"] == 5
    root = ElementTree.fromstring(render_junit([gate_suite(result)]))
    assert root[0].get("failures") == "1"
    passed = ElementTree.fromstring(render_junit([gate_suite(decide_gate(BEFORE, baseline=AFTER))]))
    assert passed[0].get("failures") == "0"
    detail = root.findtext("testsuite/testcase/failure") or ""
    assert result.signature in detail
    assert not re.search(r"\\[|\[]|&#", detail)
