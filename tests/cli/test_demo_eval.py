"""`farm demo eval`: the table on a clean run, and what makes a run not clean."""

from __future__ import annotations

import subprocess
import sys
import time

import msgspec
import pytest

from farm.cli.demo_eval import MODELS, faults_of
from farm.report.envelope import Envelope, build_envelope
from farm.stats.evalrun import EvalRun


def test_the_demo_prints_the_table_and_ends_well() -> None:
    """Three mocks over ten tasks through worker processes, in under ten seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-m", "farm", "demo", "eval"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 10
    lines = done.stdout.splitlines()
    assert lines[0] == "| Rank | Model | Mean | 95% CI | Win rate | Tasks | ECE | Brier |"
    assert [line.split(" | ")[1] for line in lines[2:5]] == ["rule_based", "biased", "noisy"]


def envelope(**scores: list[float | None]) -> Envelope:
    return build_envelope(
        EvalRun(
            model_id=model,
            task_id=f"t{number}",
            score=score,
            correct=None if score is None else score == 1.0,
            outcome="error" if score is None else "",
            confidence=0.9,
        )
        for model, own in scores.items()
        for number, score in enumerate(own)
    )


CLEAN = envelope(rule_based=[1.0, 1.0], noisy=[0.0, 1.0], biased=[0.0, 0.0])


def test_a_clean_report_has_no_fault() -> None:
    assert faults_of(CLEAN, tasks=2) == []


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        (envelope(rule_based=[1.0, 1.0], noisy=[1.0, 1.0], biased=[0.0, 0.0]), "strictly above"),
        (envelope(rule_based=[1.0, None], noisy=[0.0, 1.0], biased=[0.0, 0.0]), "rule_based: not"),
        (envelope(rule_based=[1.0], noisy=[0.0], biased=[0.0]), "1 of 2 tasks were asked"),
        (msgspec.structs.replace(CLEAN, calibration={}), "calibration was not aggregated"),
    ],
)
def test_what_is_not_clean_is_named(report: Envelope, fault: str) -> None:
    assert any(fault in line for line in faults_of(report, tasks=2))


def test_the_models_are_the_three_mocks() -> None:
    assert MODELS == ("rule_based", "noisy", "biased")
