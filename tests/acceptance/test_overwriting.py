"""No command writes a result or a log over what it reads, by whatever name it is given."""

from __future__ import annotations

import os
import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from farm.cli.overview import COMMANDS
from farm.errors import UsageError
from tests.acceptance.shell import SAMPLE, farm, fingerprint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, another of the same cases, a saved report, and links of both kinds into a store."""
    folder = tmp_path_factory.mktemp("overwriting")
    done = farm("run", "--store", str(folder / "st"), "--input", SAMPLE, "--quiet")
    assert done.code == 0, done.err
    shutil.copytree(folder / "st", folder / "other")
    (folder / "saved.json").write_bytes(farm("report", "--store", str(folder / "st")).out)
    (folder / "in.json").write_bytes(Path(SAMPLE).read_bytes())
    (folder / "link").symlink_to(folder / "st" / "plan.json")
    (folder / "door").symlink_to(folder / "st")
    os.link(folder / "st" / "cases.jsonl", folder / "hard")
    os.link(folder / "saved.json", folder / "saved-too.json")
    return folder


def call(name: str, *words: str) -> None:
    """Run a command in this process, which is quicker; its failures are raised."""
    command = import_module(COMMANDS[name][0]).command
    assert not command.main(words, prog_name=f"farm {name}", standalone_mode=False)


REPORT = ("report", "--store", "other", "--store", "st", "--output")
COMPARE = ("compare", "saved.json", "st", "--output")
GATE = ("gate", "--store", "st", "--baseline", "saved.json", "--output")
RUN = ("run", "--store", "st", "--input", "in.json", "--log-file")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*REPORT, "st/plan.json"), "--output 'st/plan.json' is inside of the store 'st'"),
        ((*REPORT, "st/new.html"), "is inside of the store 'st'"),
        ((*REPORT, "st"), "is inside of the store 'st'"),
        ((*REPORT, "other/../st/ledger.json"), "is inside of the store 'st'"),
        ((*REPORT, "door/receipts/x.json"), "is inside of the store 'st'"),
        ((*REPORT, "link"), "is inside of the store 'st'"),
        ((*REPORT, "hard"), "is a file of the store 'st'"),
        ((*COMPARE, "st/cases.jsonl"), "is inside of the store 'st'"),
        ((*COMPARE, "saved-too.json"), "is the file of A"),
        (("compare", "saved.json", "st@st", "--output", "st/plan.json"), "of the store 'st'"),
        (("compare", "st", "saved.json", "--output", "saved.json"), "is the file of B"),
        ((*GATE, "st/ledger.json"), "is inside of the store 'st'"),
        ((*GATE, "./saved.json"), "is the file of --baseline"),
        (("gate", "--store", "st", "--baseline", "other", "--output", "other/x"), "'other'"),
        ((*RUN, "st/ledger.json"), "--log-file 'st/ledger.json' is inside of the store 'st'"),
        ((*RUN, "in.json"), "--log-file 'in.json' is the file of --input"),
        (("init", "--store", "st", "--input", "in.json", "--log-file", "in.json"), "of --input"),
        (("init", "--store", "new", "--input", "in.json", "--log-file", "new/log"), "'new'"),
        (("eval", "--store", "st", "--tasks", "in.json", "--log-file", "in.json"), "of --tasks"),
        (("eval", "--store", "st", "--log-file", "st/ledger.json"), "inside of the store 'st'"),
        (("eval", "--store", "st", "--stream", "st/ledger.json"), "inside of the store 'st'"),
        (("eval", "--store", "st", "--stream", "l", "--log-file", "l"), "is the file of --log-f"),
        (
            ("rescore", "--store", "st", "--scorer", "f1", "--into", "st/f1"),
            "of the store 'st': give a directory outside of it",
        ),
        (("rescore", "--store", "st", "--scorer", "f1", "--into", "door"), "of the store 'st'"),
        (
            ("qualify", "run", "in.json", "--lease", "l", "--output", "q", "--log-file", "in.json"),
            "is the file of CONFIG",
        ),
        (
            ("qualify", "run", "in.json", "--lease", "l", "--output", "q", "--log-file", "q/l"),
            "is inside of the store 'q'",
        ),
    ],
)
def test_what_is_read_is_not_written_over(
    folder: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong usage, said before anything is read or written: every byte stays as it was."""
    monkeypatch.chdir(folder)
    before = fingerprint(folder)
    with pytest.raises(UsageError, match=re.escape(message)):
        call(*words)
    assert fingerprint(folder) == before


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (RUN[:-1], {"FARM_LOG_DIR": "st/receipts"}, "FARM_LOG_DIR: 'st/receipts/st.jsonl' is in"),
        (
            ("report", "--store", "st", "--step-summary"),
            {"GITHUB_STEP_SUMMARY": "st/plan.json"},
            "GITHUB_STEP_SUMMARY 'st/plan.json' is inside of the store 'st'",
        ),
        (
            (*GATE[:-1], "--step-summary"),
            {"GITHUB_STEP_SUMMARY": "saved.json"},
            "GITHUB_STEP_SUMMARY 'saved.json' is the file of --baseline",
        ),
    ],
)
def test_nor_by_a_place_that_the_environment_names(
    folder: Path,
    words: tuple[str, ...],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = fingerprint(folder)
    with pytest.raises(UsageError, match=re.escape(message)):
        call(*words)
    assert fingerprint(folder) == before


def test_it_is_wrong_usage(folder: Path) -> None:
    done = farm(*REPORT, "st/plan.json", cwd=folder)
    assert (done.code, done.out) == (2, b"")
    assert done.failures == [
        "farm: --output 'st/plan.json' is inside of the store 'st': give a file outside of it"
    ]


def test_any_other_file_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that an earlier report was written to; a device, too."""
    monkeypatch.chdir(folder)
    for place in ("mine.json", "mine.json", "/dev/null"):
        call("report", "--store", "st", "--output", place)
    assert (folder / "mine.json").read_bytes() == (folder / "saved.json").read_bytes()
