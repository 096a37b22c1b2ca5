"""Markdown, step summary and the making safe of foreign text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.report.envelope import build_envelope, failed
from farm.report.markdown import render_markdown, render_step_summary
from farm.report.text import chance, markdown, share, signed, span, unmarked, visible
from farm.stats.evalrun import EvalRun
from tests.report.trials import runs

HEAD = "| Rank | Model | Mean | 95% CI | Win rate | Tasks | ECE | Brier |"


@pytest.fixture(scope="module")
def envelope():
    return build_envelope(runs())


def test_the_table_has_the_published_columns_and_the_figures(envelope):
    """ECE and Brier by hand for gamma: six at 0.9 right, six at 0.6 wrong."""
    text = render_markdown(envelope)
    assert text.splitlines()[0] == HEAD
    assert "| 2 | gamma | 0.500 | [0.254, 0.746] | 0.500 | 12 | 0.350 | 0.185 |" in text


def test_every_table_row_has_the_columns_of_its_head(envelope):
    """A pipe or line break in a name must not make a column or a row."""
    width = 0
    for line in render_markdown(envelope).splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        assert cells == width, line


def test_names_are_cut_in_the_table_and_given_in_full_below(envelope):
    text = render_markdown(envelope)
    assert "beta\\|&#64;team &lt;b&gt;bold |" not in text
    assert "is beta\\|&#64;team &lt;b&gt;bold&lt;/b&gt; of some length." in text


def test_intervals_without_width_are_not_shown_as_certain():
    """0.9 and 0.2 on all of four tasks; one of two right in each of three clusters."""
    flat = [
        EvalRun(model_id=model, task_id=f"t{place}", score=score)
        for model, score in (("a", 0.9), ("b", 0.2))
        for place in range(4)
    ]
    text = render_markdown(build_envelope(flat))
    assert "| [+0.700, +0.700] (no spread) | sign exact | 0.125 | tied |" in text
    assert "(no spread) All differences are equal" in text
    assert (
        "- a: all tasks have the same mean; the interval has no width, which is not certainty."
        in text
    )
    halves = [EvalRun(model_id="a", task_id=f"t{place}", score=place % 2) for place in range(6)]
    clusters = {f"t{place}": f"g{place // 2}" for place in range(6)}
    text = render_step_summary(build_envelope(halves, clusters=clusters))
    assert "| [0.500, 0.500] |" in text
    assert "- a: all clusters have the same mean; the interval has no width" in text


def test_pairs_say_who_is_ahead_or_tied(envelope):
    assert "| tied |" in render_markdown(envelope)
    clear = [
        EvalRun(model_id=model, task_id=f"t{i}", score=float(model == "good"))
        for model in ("bad", "good")
        for i in range(20)
    ]
    assert "| second ahead |" in render_markdown(build_envelope(clear))


def test_missing_tasks_are_told(envelope):
    """6 of 12 are right, and the one that failed could be."""
    text = render_markdown(envelope)
    said = "of some length: 1 of 12 cases without a score (error 1); over all of them its accuracy"
    assert f"{said} lies between 0.500 and 0.583.\n" in text
    assert "of some length: 1 task without a score; ranked below any complete model.\n" in text


def test_what_became_of_missing_tasks_is_told():
    """Two that failed and one that is not scored are not the same as three not asked."""
    ends = ["correct", "error", "error", "unscorable"]
    rows = [
        EvalRun(model_id="m", task_id=f"t{at}", score=float(not at), outcome=end)
        for at, end in enumerate(ends)
    ]
    text = render_markdown(build_envelope(rows))
    assert "- m: 3 of 4 cases without a score (error 2, unscorable 1).\n" in text
    assert "- m: 3 tasks without a score; ranked below any complete model.\n" in text


def test_samples_without_a_score_are_told_also_where_no_task_is_missing():
    """Each of two tasks was asked four times; a was right once and failed thrice, b was wrong."""
    ends = {"a": ["correct", "error", "error", "error"], "b": ["wrong"] * 4}
    rows = [
        EvalRun(
            model_id="m",
            task_id=task,
            sample=sample,
            score=None if end == "error" else float(end == "correct"),
            correct=None if end == "error" else end == "correct",
            outcome=end,
        )
        for task, own in ends.items()
        for sample, end in enumerate(own)
    ]
    made = build_envelope(rows)
    assert made.leaderboard[0].n_missing == 0
    said = (
        "- m: 3 of 8 cases without a score (error 3); over all of them its accuracy lies between "
        "0.125 and 0.500.\n"
    )
    assert said in render_markdown(made)
    assert said in render_step_summary(made)
    assert "|n:2|missing:0|unscored:3|ci:" in made.signature.lines["m"]


def test_a_failed_report_says_so_first(envelope):
    text = render_markdown(failed(envelope, code="ranking", detail="a | b"))
    assert text.startswith("**Failed: ranking.** a \\| b\n")


def test_the_step_summary_has_a_headline_and_stays_small(envelope):
    text = render_step_summary(envelope, title="Nightly @everyone")
    assert text.startswith("## Nightly &#64;everyone\n\n**alpha**: mean 0.917, 95% CI")
    long = [EvalRun(model_id=f"m{i}" + "x" * 6000, task_id="t", score=1.0) for i in range(60)]
    assert len(render_step_summary(build_envelope(long, resamples=1)).encode()) < 1_048_576


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rule_based", "rule_based"),
        ("_x_", "\\_x\\_"),
        ("1. foo", "1\\. foo"),
        ("12) foo", "12\\) foo"),
        ("1.5 B", "1.5 B"),
        ("    code", "&#32;&#32;&#32;&#32;code"),
        ("a|b", "a\\|b"),
        ("@user #12 http://x www.y", "&#64;user &#35;12 http&#58;//x www&#46;y"),
        ("a\r\nb\nc", "a b c"),
        ("<!-- x -->", "&lt;!-- x --&gt;"),
        ("[a](b) `c` *d* ~e~", "\\[a\\](b) \\`c\\` \\*d\\* \\~e\\~"),
        (
            "\u202eevil\u200b\x00",
            "[U+202E]evil[U+200B][U+0000]".replace("[", "\\[").replace("]", "\\]"),
        ),
    ],
)
def test_foreign_text_is_shown_and_does_nothing(text, shown):
    assert markdown(text) == shown


@given(st.text())
def test_no_text_keeps_a_character_that_breaks_lines_or_hides(text):
    assert not re.search(
        "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", visible(text)
    )
    assert len(visible(text).splitlines()) <= 1


@given(st.text())
def test_what_markdown_escapes_reads_as_it_was(text):
    assert unmarked(markdown(text)) == visible(text)


def test_figures_are_never_rounded_onto_a_bound_they_have_not_reached():
    assert share(0.99999) == "0.999"
    assert share(1.0) == "1.000"
    assert share(0.0001) == "<0.001"
    assert share(0.0) == "0.000"
    assert share(None) == "\u2013"
    assert span(0.2, None) == "\u2013"
    assert signed(-0.0001) == "0.000"
    assert signed(0.25) == "+0.250"
    assert chance(1e-9) == "<0.001"


def test_an_unnamed_metric_is_called_so():
    one = replace(runs()[0], metric_name="", metadata={})
    assert "metric:unnamed" in render_markdown(build_envelope([one]))
