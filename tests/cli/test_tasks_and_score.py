"""The commands that need no store: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli.score import score
from farm.cli.tasks import tasks
from farm.errors import SpecError

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def test_a_good_task_file_is_counted_and_ends_well() -> None:
    ran = CliRunner().invoke(tasks, ["check", str(SAMPLES / "tasks.jsonl")])
    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == {"validated": 10, "errors": []}


def test_a_bad_task_file_gives_its_records_and_exit_code_1() -> None:
    ran = CliRunner().invoke(tasks, ["check", str(SAMPLES / "tasks_bad.jsonl")])
    told = json.loads(ran.stdout)
    assert (ran.exit_code, told["validated"], len(told["errors"])) == (1, 0, 10)
    assert told["errors"][1] == {
        "line_number": 2,
        "task_id": "bad_02",
        "rule": "missing_required",
        "field": "targets",
        "detail": "'targets' is required",
    }


def test_a_missing_file_is_left_to_the_fence_of_the_command_line() -> None:
    ran = CliRunner().invoke(tasks, ["check", "nowhere.jsonl"])
    assert isinstance(ran.exception, SpecError)


def test_an_unscorable_pair_still_shows_the_score_its_definition_gives() -> None:
    """Equal texts without tokens have an f1 of 1.0, though no case may count on it."""
    ran = CliRunner().invoke(score, ["--metric", "f1", "--prediction", "", "--target", ""])
    told = json.loads(ran.stdout)
    assert (told["score"], told["correct"], told["outcome"]) == (1.0, False, "unscorable")
    pair = ["--metric", "f1", "--prediction", "!!!", "--target", "!!!", "--explain"]
    rule = json.loads(CliRunner().invoke(score, pair).stdout)["rule"]
    assert rule == (
        "no target is one that f1 can judge; "
        "the score is what its definition gives, and counts nowhere"
    )


def test_one_pair_is_scored() -> None:
    ran = CliRunner().invoke(
        score, ["--metric", "number", "--prediction", "-5", "--target", "4", "--target", "-5.0"]
    )
    assert json.loads(ran.stdout) == {
        "metric": "number",
        "version": "2",
        "post_process": "none",
        "score": 1.0,
        "correct": True,
        "outcome": "correct",
    }


def test_reasons_are_shown_on_demand() -> None:
    ran = CliRunner().invoke(
        score,
        ["--metric", "accuracy", "--prediction", "So **B**\n\nAnswer: B", "--target", "B",
         "--post-process", "extract_letter", "--explain"],
    )  # fmt: skip
    told = json.loads(ran.stdout)
    assert told["extracted"] == {
        "text": "B", "start": 18, "end": 19, "rule": "behind 'Answer'", "found": True,
    }  # fmt: skip
    assert told["prediction_steps"] == [{"step": "strip white space", "text": "B"}]
    assert told["rule"] == "target 1 is equal after the last step"


@pytest.mark.parametrize("text", ["\udc80", "\x00", "\u2028", "\U0001f44d"])
def test_what_is_printed_is_utf8_whatever_was_given(text: str) -> None:
    ran = CliRunner().invoke(
        score, ["--metric", "f1", "--prediction", text, "--target", "x", "--explain"]
    )
    assert ran.exit_code == 0
    json.loads(ran.stdout_bytes.decode("utf-8"))
