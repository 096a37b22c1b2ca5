"""JUnit XML: any text gives a document every parser takes, with honest counts."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.report.junit import JunitCase, JunitSuite, render_junit, suites_of
from tests.report.trials import runs

TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


def test_counts_are_those_of_the_outcomes():
    """beta: 6 correct, 5 not right, one error."""
    root = ElementTree.fromstring(render_junit(suites_of(runs())))
    beta = next(suite for suite in root if (suite.get("name") or "").startswith("beta"))
    assert [beta.get(key) for key in ("tests", "failures", "errors", "skipped")] == [
        "12", "5", "1", "0",
    ]  # fmt: skip
    assert len(beta.findall("testcase/failure")) == 5
    assert len(beta.findall("testcase/error")) == 1
    assert beta.findall("testcase")[0].get("time") == "0.250"


def test_an_unscorable_case_is_skipped():
    one = replace(runs()[0], outcome="unscorable", score=None, correct=None)
    root = ElementTree.fromstring(render_junit(suites_of([one])))
    assert root[0].get("skipped") == "1"
    assert root.find("testsuite/testcase/skipped") is not None


@given(TEXT, TEXT, TEXT, TEXT)
def test_any_text_gives_a_document_that_parses(name, message, detail, key):
    case = JunitCase(name=name, classname=name, outcome="wrong", message=message, detail=detail)
    suite = JunitSuite(name=name, cases=[case], properties=((key, message),))
    root = ElementTree.fromstring(render_junit([suite], name=name).encode())
    assert root.find("testsuite/testcase/failure") is not None


def test_illegal_characters_are_replaced_and_markup_is_text():
    case = JunitCase(name="a", classname="b", outcome="failed", detail="\x00\ud800]]><x/>")
    root = ElementTree.fromstring(render_junit([JunitSuite(name="s", cases=[case])]))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.text == "\ufffd\ufffd]]><x/>"
