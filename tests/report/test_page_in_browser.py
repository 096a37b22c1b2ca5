"""The report page in a real browser: what a reader does with it, and what hostile text cannot."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from farm.report.casepages import CaseRow
from farm.report.envelope import build_envelope
from farm.report.html import Page, page_of, render_html
from tests.report.browser import chromium, pixels
from tests.report.trials import cases, runs

HOSTILE = (
    '</script><script>window.ran=1</script><img src=x onerror="window.ran=2">'
    "<svg onload=window.ran=3>\u202egnp.exe\u2066 {{x}} ${x} &lt;b&gt; javascript:window.ran=4"
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def write(page: Page, path: Path) -> Path:
    path.write_text("".join(render_html(page)), "utf-8")
    return path


def visit(browser: webdriver.Chrome, path: Path) -> None:
    browser.get(path.as_uri())
    wait(browser, "return document.getElementById('case-rows').dataset.ready === 'yes'")


def wait(browser: webdriver.Chrome, script: str, seconds: float = 20.0) -> None:
    """Wait until the page answers true; a limit, not a pause."""
    WebDriverWait(browser, seconds, poll_frequency=0.02).until(lambda b: b.execute_script(script))


def shown(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.ID, "case-status").text


def buttons(browser: webdriver.Chrome):
    return browser.find_elements(By.CSS_SELECTOR, ".open-case")


@pytest.fixture
def opened(browser, tmp_path):
    visit(browser, write(page_of(build_envelope(runs()), title="November", cases=cases()),
                         tmp_path / "page.html"))  # fmt: skip
    return browser


def test_the_page_opens_from_disk_without_a_network_or_a_complaint(opened):
    """Nothing fetched, nothing logged: also the policy found nothing to refuse."""
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert opened.get_log("browser") == []
    assert opened.title == "November"
    assert shown(opened) == "36 of 36 cases"


def test_a_case_opens_to_everything_that_decided_it(opened):
    buttons(opened)[0].click()
    wait(opened, "return document.querySelector('.detail') !== null")
    text = opened.find_element(By.CSS_SELECTOR, ".detail").text
    for part in ("how much is t00", "42", "the answer is 42", "first line", "exact_match:"):
        assert part in text
    assert buttons(opened)[0].get_attribute("aria-expanded") == "true"


def test_outcomes_filter_and_search_reaches_into_the_texts(opened):
    """Right answers say "the answer is 42", 11 + 6 + 6 of them; two t06 among them."""
    opened.find_element(By.CSS_SELECTOR, "#outcome-filter input[value=correct]").click()
    wait(opened, "return document.getElementById('case-status').textContent === '23 of 36 cases'")
    opened.find_element(By.ID, "search").send_keys("HOW MUCH IS T06")
    wait(opened, "return document.getElementById('case-status').textContent === '2 of 36 cases'")
    buttons(opened)[0].click()
    wait(opened, "return document.querySelector('.detail mark') !== null")
    assert opened.find_element(By.CSS_SELECTOR, ".detail mark").text == "how much is t06"


def test_columns_sort_and_say_so(opened):
    opened.find_element(By.CSS_SELECTOR, ".sort[data-by=score]").click()
    wait(opened, "return document.querySelector('th[aria-sort=ascending]') !== null")
    cells = [row.text for row in opened.find_elements(By.CSS_SELECTOR, "tr.case td:last-child")]
    assert cells == ["\u2013"] + ["0"] * 12 + ["1"] * 23


def test_the_cases_can_be_read_by_keyboard_alone(opened):
    """Slash, words, Tab to the first case, Enter, down, Enter, Escape."""
    body = opened.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    active = opened.switch_to.active_element
    assert active.get_attribute("id") == "search"
    active.send_keys("alpha")
    wait(opened, "return document.getElementById('case-status').textContent === '12 of 36 cases'")
    for _ in range(30):
        opened.switch_to.active_element.send_keys(Keys.TAB)
        if "open-case" in (opened.switch_to.active_element.get_attribute("class") or ""):
            break
    opened.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert opened.switch_to.active_element.text.endswith("t01|0")
    opened.switch_to.active_element.send_keys(Keys.ENTER)
    wait(opened, "return document.querySelector('.detail') !== null")
    assert opened.switch_to.active_element.text.endswith("t01|0")
    opened.switch_to.active_element.send_keys(Keys.ESCAPE)
    wait(opened, "return document.querySelector('.detail') === null")


def test_escape_in_the_search_box_empties_it_and_shows_all_again(opened):
    """Also with a case open, and whoever is typing stays where they are."""
    box = opened.find_element(By.ID, "search")
    box.send_keys("alpha")
    wait(opened, "return document.getElementById('case-status').textContent === '12 of 36 cases'")
    buttons(opened)[0].click()
    wait(opened, "return document.querySelector('.detail') !== null")
    box.send_keys(Keys.ESCAPE)
    wait(opened, "return document.getElementById('case-status').textContent === '36 of 36 cases'")
    assert box.get_attribute("value") == ""
    assert opened.switch_to.active_element == box
    buttons(opened)[0].click()
    wait(opened, "return document.querySelector('.detail') !== null")
    box.send_keys(Keys.ESCAPE)  # nothing to empty: the case closes
    wait(opened, "return document.querySelector('.detail') === null")
    assert opened.switch_to.active_element == box


def test_of_two_cases_opened_at_once_the_later_is_open(opened):
    """The block of both is unpacked before, so all is done when the next script runs."""
    buttons(opened)[2].click()
    wait(opened, "return document.querySelector('.detail') !== null")
    buttons(opened)[2].click()
    wait(opened, "return document.querySelector('.detail') === null")
    opened.execute_script(
        "const all = document.querySelectorAll('.open-case'); all[0].click(); all[1].click();"
    )
    told = "return [...document.querySelectorAll('.open-case')].map(one => one.ariaExpanded)"
    assert opened.execute_script(told)[:3] == ["false", "true", "false"]
    assert len(opened.find_elements(By.CSS_SELECTOR, ".detail")) == 1


def test_hostile_text_never_runs_and_stays_where_it_is(browser, tmp_path):
    """In every foreign place: names, categories, ids, prompts, answers, rules, title, identity."""
    bad = [
        replace(run, model_id=HOSTILE + run.model_id, category=HOSTILE + run.category)
        for run in runs()
    ]
    rows = [
        CaseRow(
            model=HOSTILE, id=HOSTILE + case.id, prompt=HOSTILE, expected=HOSTILE,
            response=HOSTILE + "\ud83d", extracted=HOSTILE, rule=HOSTILE, steps=(HOSTILE,),
            category=HOSTILE, outcome=case.outcome, score=case.score,
        )
        for case in cases()
    ]  # fmt: skip
    envelope = build_envelope(bad, identity={HOSTILE: HOSTILE})
    page = page_of(envelope, title=HOSTILE, subtitle=HOSTILE, cases=rows)
    visit(browser, write(page, tmp_path / "hostile.html"))
    browser.execute_script("document.querySelector('.open-case').click()")
    wait(browser, "return document.querySelector('.detail') !== null")
    assert browser.execute_script("return window.ran === undefined")
    assert browser.find_elements(By.CSS_SELECTOR, "img") == []
    response = browser.find_elements(By.CSS_SELECTOR, ".detail pre")[2].text
    assert "</script><script>window.ran=1</script>" in response
    assert "U+202E" in response
    assert response.endswith("U+D83D")  # half a character is named too
    # the direction override is named, and none is left to reorder anything
    assert not browser.execute_script("return /[\\u202e\\u2066]/.test(document.body.innerText)")


def test_the_policy_stops_markup_even_if_some_slipped_through(opened):
    """Defence in depth: an inline handler put into the page by hand does not run."""
    opened.execute_script(
        "document.body.insertAdjacentHTML('beforeend',"
        '\'<img src="data:image/png;base64,AA" onerror="window.ran=1">\')'
    )
    wait(opened, "return document.querySelector('img').complete")
    assert opened.execute_script("return window.ran === undefined")


def test_the_screenshot_shows_the_figures_in_their_proportions(opened):
    """alpha: 11 of 12 correct; the painted bar is green for 11/12 of its width, within 1 %."""
    bar = opened.find_element(By.CSS_SELECTOR, "#outcomes svg.bars")
    image = pixels(bar.screenshot_as_png)
    middle = image[image.shape[0] // 2]
    green = np.abs(middle - np.array([0x2F, 0x7D, 0x4F])).max(axis=1) < 6
    assert green.mean() == pytest.approx(11 / 12, abs=0.01)
    row = pixels(opened.find_element(By.CSS_SELECTOR, "#leaderboard tbody svg").screenshot_as_png)
    dot = np.abs(row - np.array([0x24, 0x57, 0xC5])).max(axis=2) < 6
    # alpha's mean 11/12 on the scale from 0.2 to 1, on 216 of 230 units, 7 from the edge
    assert np.flatnonzero(dot.any(axis=0)).mean() == pytest.approx(
        7 + 216 * (11 / 12 - 0.2) / 0.8, abs=1.5
    )
    figure = pixels(opened.find_element(By.CSS_SELECTOR, ".figure").screenshot_as_png)
    assert len(np.unique(figure.reshape(-1, 3), axis=0)) > 30  # words, not a blank card


def test_nothing_runs_over_its_card_at_any_width(opened):
    """A phone, a tablet, a desk: no part is wider than the window."""
    for width in (500, 800, 1280):
        opened.set_window_size(width, 900)
        wide = opened.execute_script(
            "const w = document.documentElement.clientWidth;"
            "return [...document.querySelectorAll('section, .figure, header')]"
            ".filter(e => e.getBoundingClientRect().right > w + 1).map(e => e.id || e.className)"
        )
        assert wide == [], width
        assert opened.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    opened.set_window_size(1280, 1000)


def test_dark_and_light_follow_the_reader_and_the_button(tmp_path):
    path = write(page_of(build_envelope(runs()), title="dark", cases=cases()), tmp_path / "d.html")
    paper = "return getComputedStyle(document.body).backgroundColor"
    with chromium(dark=True) as browser:
        visit(browser, path)
        assert browser.execute_script(paper) == "rgb(18, 21, 28)"
        strip = browser.find_element(By.CSS_SELECTOR, "nav.jump").screenshot_as_png
        assert pixels(strip)[0, 0].tolist() == [18, 21, 28]
        browser.find_element(By.ID, "theme").click()  # light
        assert browser.execute_script(paper) == "rgb(251, 250, 247)"
        browser.find_element(By.ID, "theme").click()  # dark
        assert browser.execute_script(paper) == "rgb(18, 21, 28)"


# collects what the status says, and sorts by model when it first tells of a search
SORT_WHILE_IT_SEARCHES = """
window.told = [];
const status = document.getElementById("case-status");
new MutationObserver(() => {
  window.told.push(status.textContent);
  if (window.told.length === 1) document.querySelector("#cases .sort[data-by=model]").click();
}).observe(status, { childList: true, characterData: true, subtree: true });
"""


def test_a_hundred_thousand_cases_open_in_under_two_seconds(browser, tmp_path):
    """From the start of the visit to the first fifty cases on the screen; the best of three."""
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
             for _ in range(4000)]  # fmt: skip

    few = cases()

    def stream() -> Iterator[CaseRow]:
        for number in range(100_000):
            text = " ".join(rng.choices(words, k=40))
            yield replace(
                few[number % 12],
                id=f"case-{number:06}",
                prompt=text,
                response=text[:90] + (" needle" if number == 99_998 else ""),
            )

    page = page_of(build_envelope(runs()), title="large", cases=stream())
    path = write(page, tmp_path / "large.html")
    spent = []
    for _ in range(3):
        start = time.monotonic()
        visit(browser, path)
        spent.append(time.monotonic() - start)
    assert shown(browser) == "100,000 of 100,000 cases"
    assert min(spent) < 2.0, spent
    browser.execute_script(SORT_WHILE_IT_SEARCHES)
    browser.find_element(By.ID, "search").send_keys("needle")
    done = "return document.getElementById('case-status').textContent === '1 of 100,000 cases'"
    wait(browser, done, 60)
    assert buttons(browser)[0].text == "case-099998"
    told = browser.execute_script("return window.told")
    assert [text for text in told if not text.startswith("Searching: ")] == ["1 of 100,000 cases"]
    assert len(told) > 2
