"""The report page as text: self-contained, deterministic, foreign text inert, colours readable."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import farm.report
from farm.report.casepages import BLOCK, CaseRow, pack_cases
from farm.report.charts import common_scale, interval_bar, outcome_bar, outcome_class
from farm.report.envelope import build_envelope, failed
from farm.report.html import Page, headline_of, page_of, render_html
from farm.stats.evalrun import EvalRun
from tests.report.trials import cases, runs

CSS = (Path(farm.report.__file__).parent / "page" / "page.css").read_text("utf-8")
HOSTILE = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("<>&\"'\u202e\u2028\x00{}")),
    max_size=30,
)


class Outline(HTMLParser):
    """What a browser would make of the page: elements, attributes and which are still open."""

    VOID = frozenset({"meta", "input", "br", "hr", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(page: Page) -> Outline:
    made = Outline()
    made.feed("".join(render_html(page)))
    made.close()
    assert made.open == []
    return made


@pytest.fixture(scope="module")
def envelope():
    return build_envelope(runs())


def page(envelope) -> Page:
    return page_of(envelope, title="November", cases=cases())


def test_equal_pages_give_equal_bytes(envelope):
    assert list(render_html(page(envelope))) == list(render_html(page(envelope)))


def test_the_page_refers_to_nothing_outside_itself(envelope):
    """No element loads anything, no address occurs: it opens from a disk without a network."""
    made = outline(page(envelope))
    assert not {tag for tag, _ in made.elements} & {"link", "img", "iframe", "object", "base"}
    for tag, attributes in made.elements:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#")
    text = "".join(render_html(page(envelope)))
    assert "://" not in re.sub(r"[A-Za-z0-9+/=]{200,}", "", text)


def test_the_policy_allows_the_one_script_and_the_one_sheet(envelope):
    text = "".join(render_html(page(envelope)))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


@example("<b>bold</b>")
@example('"><i>x')
@example("'><i>x")
@example("</title></style></script></textarea><u>")
@given(HOSTILE)
@settings(max_examples=40, deadline=None)
def test_no_foreign_text_adds_an_element(text):
    """Any text in every foreign place gives the same elements as harmless text there."""

    def tags(word: str) -> list[str]:
        plain = [
            replace(run, model_id=word + run.model_id, category=word + run.category)
            for run in runs()
        ]
        made = build_envelope(plain, resamples=1, identity={word + "k": word})
        rows = [replace(case, id=word, model=word, prompt=word, response=word) for case in cases()]
        shown = page_of(made, title=word + "t", subtitle=word, cases=rows)
        return [tag for tag, _ in outline(shown).elements]

    assert tags(text) == tags("x")


def test_every_header_cell_has_a_scope_and_every_drawing_a_text(envelope):
    made = outline(page(envelope))
    for tag, attributes in made.elements:
        if tag == "th":
            assert attributes.get("scope") in {"col", "row"}
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
        if tag == "section":
            assert attributes.get("aria-labelledby")


def test_an_empty_part_is_left_out_and_an_empty_page_stands():
    text = "".join(render_html(Page(title="nothing")))
    assert 'id="leaderboard"' not in text
    assert 'id="cases"' in text
    outline(Page(title="nothing"))


def test_one_model_has_no_matrix_and_one_category_no_table(envelope):
    alone = [replace(run, category="") for run in runs() if run.model_id == "alpha"]
    text = "".join(render_html(page_of(build_envelope(alone), title="one")))
    assert 'id="pairwise"' not in text
    assert 'id="categories"' not in text
    assert "11 of 12" in text


def test_only_the_first_twelve_models_are_in_the_matrix():
    many = [
        replace(run, model_id=f"m{i:02}")
        for i in range(14)
        for run in runs()
        if run.model_id == "alpha"
    ]
    text = "".join(render_html(page_of(build_envelope(many, resamples=1), title="many")))
    assert "The first 12 of 14 models are shown." in text
    assert text.count('class="self"') == 12


def test_best_counts_who_is_behind_it_and_not_who_is_ahead():
    """The second has 20 tasks less right. Some has but 30 tasks, so it stands last, and is right
    on all of them where the first is wrong."""

    def trials(model: str, letters: str) -> list[EvalRun]:
        return [
            EvalRun(model_id=model, task_id=f"t{place:02}", score=float(letter == "c"))
            for place, letter in enumerate(letters)
        ]

    rows = [*trials("first", "w" * 30 + "c" * 30), *trials("second", "w" * 50 + "c" * 10)]
    figures = {one.label: one for one in headline_of(build_envelope(rows))}
    assert figures["Best, and separated"].value == "1 of 1"
    rows = [*trials("first", "w" * 30 + "c" * 30), *trials("some", "c" * 30)]
    figures = {one.label: one for one in headline_of(build_envelope(rows))}
    separated = figures["Best, and separated"]
    assert separated.value == "0 of 1"
    assert separated.note.endswith("beyond chance (Holm over all pairs); 1 model ahead of it")


def test_a_pair_without_spread_is_marked_in_the_matrix():
    rows = [
        EvalRun(model_id=model, task_id=f"t{place}", score=score)
        for model, score in (("a", 0.2), ("b", 0.9))
        for place in range(4)
    ]
    text = "".join(render_html(page_of(build_envelope(rows), title="t")))
    assert "<small>[-0.700, -0.700] (no spread)</small><small>tied, p 0.125</small>" in text
    assert "[-0.700, -0.700] (no spread), sign exact, p 0.125" in text
    assert "detectable \u2013 (with n = 4 no difference reaches p &lt; 0.05)" in text
    assert "the interval has no width, which is not certainty" in text


def test_a_page_says_how_many_reliability_diagrams_it_leaves_out():
    """Fourteen models, all with confidences, and twelve drawings; of twelve nothing is said."""

    def section(models: int) -> str:
        many = [replace(run, model_id=f"m{number:02}") for number in range(models)
                for run in runs()[:12]]  # fmt: skip
        html = "".join(render_html(page_of(build_envelope(many), title="many")))
        return html[html.index('id="calibration"') :]

    assert "The first 12 of 14 models are shown." in section(14)
    assert "of 12 models are shown." not in section(12)


def test_a_failure_stands_among_the_warnings(envelope):
    shown = page_of(failed(envelope, code="ranking", detail="wrong way round"), title="t")
    assert shown.warnings[0] == "ranking: wrong way round"


def test_cases_are_taken_one_block_at_a_time():
    """Memory of a page of any size is one block and the index."""
    taken = 0

    def stream() -> Iterator[CaseRow]:
        nonlocal taken
        for number in range(3 * BLOCK):
            taken += 1
            yield replace(cases()[0], id=f"case-{number}")

    pieces = pack_cases(stream())
    next(pieces)
    assert taken == BLOCK
    assert len(list(pieces)) == 3  # two more blocks and the index


def test_packed_cases_come_back_as_they_were():
    """A lone surrogate, which no UTF-8 file can hold, comes back too."""
    one = replace(cases()[0], response="</script>\ud800\u2028", score=None, outcome="error")
    block, index = (
        json.loads(zlib.decompress(base64.b64decode(re.sub("<[^>]*>", "", piece))))
        for piece in pack_cases([one])
    )
    assert block == [
        [one.prompt, "42", "</script>\ud800\u2028", "42", one.rule, list(one.steps), "maths"]
    ]
    assert index == {
        "size": BLOCK, "models": ["alpha"], "outcomes": ["error"], "classes": ["o-error"],
        "model": [0], "outcome": [0], "id": [one.id], "score": [None],
        "rank": [0],
    }  # fmt: skip


def test_the_index_ranks_cases_as_a_reader_counts_them():
    """case-9 before case-10, one case of two models side by side, in whatever order they come."""
    rows = [
        replace(cases()[0], id=identity, model=model)
        for model in ("a", "b")
        for identity in ("case-10", "case-9", "9", "x")
    ]
    *_, index = (
        json.loads(zlib.decompress(base64.b64decode(re.sub("<[^>]*>", "", piece))))
        for piece in pack_cases(rows)
    )
    order = sorted(range(8), key=lambda at: index["rank"][at])
    assert [(rows[at].id, rows[at].model) for at in order] == [
        ("9", "a"), ("9", "b"), ("case-9", "a"), ("case-9", "b"), ("case-10", "a"),
        ("case-10", "b"), ("x", "a"), ("x", "b"),
    ]  # fmt: skip


def test_an_outcome_cannot_choose_its_own_class():
    assert outcome_class("correct") == "o-correct"
    assert outcome_class('x" onload="') == "o-other"


def test_drawings_place_what_they_show():
    """0.5 on a scale from 0 to 1 lies in the middle of 230 units; a quarter of 1000 is 250."""
    assert 'cx="115.0"' in interval_bar(0.5, 0.4, 0.6, scale=(0.0, 1.0))
    assert 'width="250.00"' in outcome_bar({"correct": 1, "wrong": 3})
    assert interval_bar(None, None, None, scale=(0.0, 1.0)) == ""
    assert common_scale([0.42, 0.77]) == (0.4, 0.8)
    assert common_scale([0.5, 0.5]) == (0.0, 1.0)
    assert common_scale([]) == (0.0, 1.0)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark-auto", "dark-chosen"])
@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        ("ink", "paper"), ("ink", "card"), ("soft", "card"), ("soft", "paper"), ("soft", "zebra"),
        ("accent", "card"), ("accent", "zebra"), ("accent", "paper"), ("ink", "accent-soft"),
        ("ahead-ink", "ahead"), ("behind-ink", "behind"), ("wrong", "card"),
    ],
)  # fmt: skip
def test_text_has_the_contrast_people_need(theme, ink, paper):
    """WCAG 2.2, 1.4.3: at least 4.5 to 1 for text."""
    block = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", CSS)[theme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_rows_of_cases_are_values():
    with pytest.raises(AttributeError):
        cases()[0].id = "x"  # type: ignore[misc]
    assert isinstance(cases()[0], CaseRow)
