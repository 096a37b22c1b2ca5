"""What lines and accounts add up to; how a job ended can take a pass away, never give one."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import isolation
from farm.sandbox import probe
from farm.sandbox.verdict import LEVELS, Account, Isolation, decide, printable

ISOLATION = Isolation(level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False)


def lines(*results: str, load: str = "ok", end: bool = True) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"load": load, "why": "because"}]
    found += [{"i": n, "r": r, "why": "", "trust": []} for n, r in enumerate(results)]
    return found + ([{"end": True}] if end else [])


@pytest.mark.parametrize(
    ("said", "account", "outcome", "passed"),
    [
        (lines("pass", "pass"), Account(), "pass", 2),
        (lines("pass", "assertion_fail"), Account(), "assertion_fail", 1),
        # an error outweighs a failed assertion, wherever it stands
        (lines("assertion_fail", "error"), Account(), "error", 0),
        (lines(load="syntax_error"), Account(), "syntax_error", 0),
        (lines(load="error"), Account(), "error", 0),
        # out of time after the first: it keeps what it passed, the rest count as failed
        (lines("pass", end=False), Account(timeout=True), "timeout", 1),
        (lines("pass", "error"), Account(signal=signal.SIGXCPU), "timeout", 1),
        (lines("pass", "pass"), Account(over_output=True), "error", 2),
        (lines("pass", "pass"), Account(over_quota=True), "error", 2),
        # a tester that fell silent has passed nothing it did not say
        (lines("pass", "pass", end=False), Account(), "error", 2),
        ([], Account(), "error", 0),
    ],
)
def test_outcomes(said: list, account: Account, outcome: str, passed: int) -> None:
    """The outcome rules of the sandbox, one row each."""
    result = decide(said, account, total=2, isolation=ISOLATION)
    assert (result.outcome, result.passed, result.total) == (outcome, passed, 2)
    assert result.score == passed / 2
    assert len(result.assertions) == 2


@given(
    st.lists(st.sampled_from(["pass", "assertion_fail", "error"]), max_size=4),
    st.booleans(),
    st.builds(Account, timeout=st.booleans(), over_output=st.booleans(), over_quota=st.booleans()),
)
def test_only_a_full_account_passes(results: list[str], end: bool, account: Account) -> None:
    """Law: "pass" needs every assertion passed, the end said, and nothing over its limit."""
    total = max(1, len(results))
    result = decide(lines(*results, end=end), account, total=total, isolation=ISOLATION)
    clean = end and account == Account()
    assert (result.outcome == "pass") == (clean and results == ["pass"] * total)
    assert 0.0 <= result.score <= 1.0


def test_levels_are_ordered() -> None:
    """What may be demanded is what is in force, or anything weaker."""
    assert [level for level in LEVELS if ISOLATION.reaches(level)] == list(LEVELS[:4])


@given(st.text() | st.characters(categories=["Cs", "Cc"]))
def test_details_are_printable(text: str) -> None:
    """Law: whatever a program raises, its text can be written anywhere, and moves no terminal."""
    safe = printable(text)
    safe.encode("utf-8")
    assert all(letter.isprintable() or letter == "\n" for letter in safe)


def test_everybody_who_writes_the_levels_writes_the_same() -> None:
    """Three tables, since a zygote and a sandbox start without what the core is made of."""
    assert isolation.LEVELS == LEVELS == probe.LEVELS


def test_a_verdict_says_its_isolation_to_the_core() -> None:
    """Field by field, so that none is lost on the way into a receipt."""
    found = Isolation(
        level="partial", landlock_abi=3, seccomp=True, namespaces=False,
        grading="in_process", trust=("in_process",),
    )  # fmt: skip
    assert isolation.isolation_of(found) == isolation.Isolation(
        level="partial", landlock_abi=3, seccomp=True, namespaces=False,
        grading="in_process", trust=("in_process",),
    )  # fmt: skip
