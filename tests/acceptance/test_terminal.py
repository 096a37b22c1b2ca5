"""What a person sees: colours, a progress line, and no control character of foreign origin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.shell import SAMPLE, farm, strict_json
from tests.acceptance.terminal import on_terminal

# clears the screen, sets the title, CSI as one character, DEL, right-to-left override, BEL
HOSTILE = "\x1b[2J\x1b]0;pwned\x07\x9b31m\x7f\u202e\x85"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A finished run whose case ids, texts and model output are hostile to a terminal."""
    folder = tmp_path_factory.mktemp("hostile")
    given = folder / "in.json"
    case = {"id": HOSTILE, "prompt": HOSTILE, "expected": HOSTILE, "response": HOSTILE + "!"}
    given.write_text(json.dumps([case, {**case, "id": "plain"}]), "utf-8")
    store = str(folder / "store")
    assert farm("run", "--store", store, "--input", str(given), "--shards", "2").code == 0
    return store


@pytest.mark.parametrize("command", ["status", "run", "events", "verify"])
def test_hostile_text_reaches_no_terminal_raw(hostile: str, command: str) -> None:
    """The JSON is the same value; what is not printable in it is escaped."""
    code, shown, _ = on_terminal(command, "--store", hostile, "--quiet")
    assert code == 0
    text = shown.decode("utf-8")
    assert _CONTROLS.findall(text) == []
    if command in {"status", "run"}:
        ids = [name for shard in strict_json(shown)["shards"] for name in shard["case_ids"]]
        assert HOSTILE in ids


def test_hostile_text_in_failures_reaches_no_terminal_raw(tmp_path: Path) -> None:
    """File names, members, ids, options: in messages of farm and of the option parser."""
    given = tmp_path / f"{HOSTILE}.jsonl"
    given.write_text(json.dumps({"id": HOSTILE, HOSTILE: 1}) + "\n" + "{" + HOSTILE, "utf-8")
    for arguments in (
        ("init", "--store", str(tmp_path / "s"), "--input", str(given)),
        ("init", "--store", str(tmp_path / "s"), "--input", str(tmp_path / f"x{HOSTILE}")),
        ("status", "--store", HOSTILE),
        ("run", "--store", str(tmp_path / "s"), "--scorer", HOSTILE),
        ("run", "--store", str(tmp_path / "s"), "--shards", HOSTILE),
        ("run", f"--{HOSTILE}"),
        (HOSTILE,),
        ("worker", "--store", str(tmp_path / "s"), "--worker-id", HOSTILE),
    ):
        code, shown, _ = on_terminal(*arguments)
        assert code in {1, 2}, arguments
        assert _CONTROLS.findall(shown.decode("utf-8")) == [], arguments
        assert b"Traceback" not in shown


def test_hostile_text_in_scores_and_tasks_reaches_no_terminal_raw(tmp_path: Path) -> None:
    """What a model answered is shown with its reasons; a task file is quoted where it is wrong."""
    given = tmp_path / "tasks.jsonl"
    given.write_text(json.dumps({"id": HOSTILE, HOSTILE: HOSTILE}) + "\n", "utf-8")
    for arguments in (
        ("score", "--metric", "f1", "--prediction", HOSTILE, "--target", HOSTILE, "--explain"),
        ("tasks", "check", str(given)),
    ):
        code, shown, _ = on_terminal(*arguments)
        assert code in {0, 1}
        assert _CONTROLS.findall(shown.decode("utf-8")) == []
        strict_json(shown)


@pytest.mark.parametrize("log_format", ["auto", "console", "json"])
def test_the_log_of_a_hostile_run_is_harmless(tmp_path: Path, log_format: str) -> None:
    """The name of the model reaches no event; the folder's name reaches `run.failed` alone."""
    given = tmp_path / "in.json"
    given.write_text(json.dumps([{"id": HOSTILE, "prompt": "", "expected": "e", "response": ""}]))
    store = str(tmp_path / HOSTILE.replace("/", ""))
    made = farm("init", "--store", store, "--input", str(given), "--quiet")
    assert made.code == 0
    cases = Path(store) / "cases.jsonl"
    cases.write_bytes(cases.read_bytes()[:-20])
    code, shown, _ = on_terminal("run", "--store", store, "--log-format", log_format, out=False)
    assert code == 1
    text = _COLOUR.sub(b"", shown).decode("utf-8")
    # what is left besides text are the moves of the progress line
    moves = re.sub(r"\x1b\[(\?25[lh]|2K|1A)|\r", "", text)
    assert _CONTROLS.findall(moves) == []
    assert "cases.jsonl" in text
    assert b"]0;pwned\x07" not in shown


def test_a_terminal_sees_lines_for_people_and_one_progress_line(tmp_path: Path) -> None:
    """Shards done, cases a second, time left; nothing of it stays, and stdout is only JSON."""
    store = str(tmp_path / "store")
    code, shown, piped = on_terminal("run", "--store", store, "--input", SAMPLE, out=False)
    assert code == 0
    assert strict_json(piped)["correct"] == 3
    text = _COLOUR.sub(b"", shown).decode("utf-8")
    assert re.search(r"shards ━.* [0-4]/4 \S+ cases/s \d:\d\d:\d\d", text)
    assert "[info     ] run.completed" in text
    assert text.count("shard.completed") == 4
    assert '{"ts"' not in text
    assert _COLOUR.search(shown)
    assert shown.endswith((b"\x1b[2K", b"\x1b[1A\x1b[2K")), "the progress line is taken away"


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_where_they_are_not_wanted(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    """NO_COLOR: no colours; a dumb terminal: no control sequence at all."""
    store = str(tmp_path / "store")
    code, shown, _ = on_terminal(
        "run", "--store", store, "--input", SAMPLE, out=False, variables=variables
    )
    assert code == 0
    assert _COLOUR.findall(shown) == []
    assert b"run.completed" in shown
    if "TERM" in variables:
        assert b"\x1b" not in shown


def test_quiet_shows_a_terminal_nothing_but_the_result(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    code, shown, piped = on_terminal(
        "run", "--store", store, "--input", SAMPLE, "--quiet", out=False
    )
    assert (code, shown) == (0, b"")
    assert strict_json(piped)["complete"] is True


def test_a_report_is_spread_out_on_a_terminal_and_one_line_in_a_pipe(hostile: str) -> None:
    _, shown, _ = on_terminal("status", "--store", hostile)
    assert shown.startswith(b'{\n  "schema_version": 1,\n')
    piped = farm("status", "--store", hostile)
    assert piped.out.count(b"\n") == 1
    assert strict_json(shown) == piped.json
