"""`farm sandbox` from the shell: JSON on standard output, an exit code that means something."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from farm.cli.again import way_on
from farm.cli.sandbox import sandbox
from farm.errors import SpecError


def test_probe_prints_what_held() -> None:
    """The level and every attack behind it."""
    done = CliRunner().invoke(sandbox, ["probe"])
    told = json.loads(done.output)
    assert done.exit_code == 0
    assert told["level"] in ("os-enforced", "os-enforced+ns", "partial")
    assert told["facts"]["network_refused"] is True


@pytest.mark.parametrize(
    ("assertion", "exit_code", "outcome"),
    [("add(1, 2) == 3", 0, "pass"), ("add(1, 2) == 4", 1, "assertion_fail")],
)
def test_run_judges_a_file(assertion: str, exit_code: int, outcome: str, tmp_path: Path) -> None:
    """Exit 0 only for a pass; the isolation stands beside the verdict."""
    program = tmp_path / "program.py"
    program.write_text("def add(a, b): return a + b\n")
    done = CliRunner().invoke(sandbox, ["run", str(program), "--assert", assertion])
    told = json.loads(done.output)
    assert (done.exit_code, told["outcome"], told["total"]) == (exit_code, outcome, 1)
    assert told["isolation"]["grading"] == "split"


def test_run_reads_standard_input() -> None:
    """A dash is standard input, as everywhere in farm."""
    command = ["run", "-", "--assert", "f() == 1", "--assert", "f() + 1 == 2"]
    done = CliRunner().invoke(sandbox, command, input="def f(): return 1")
    assert json.loads(done.output)["passed"] == 2


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """An error with the place, not a traceback; `main` turns it into one line."""
    program = tmp_path / "program.py"
    program.write_bytes(b"x = '\xff'")
    done = CliRunner().invoke(sandbox, ["run", str(program), "--assert", "assert True"])
    assert isinstance(done.exception, SpecError)
    assert "byte 6 does not fit" in str(done.exception)


@pytest.mark.parametrize("seconds", ["31", "0", "-1", "nan", "inf"])
def test_a_time_outside_the_range_is_a_wrong_command_line(seconds: str, tmp_path: Path) -> None:
    """Exit 2, as for any option that cannot be; 1 is for a program that does not pass."""
    program = tmp_path / "program.py"
    program.write_text("")
    command = ["run", str(program), "--assert", "f()", "--timeout-s", seconds]
    done = CliRunner().invoke(sandbox, command)
    assert done.exit_code == 2
    assert "is not above 0 and up to 30" in done.output


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("sandbox", "nothing was changed, start again with: farm"),
        ("events", "nothing was changed, start again with: farm"),
        ("worker", "everything finished is kept, continue with: farm"),
    ],
)
def test_an_interrupted_command_says_what_is_kept(command: str, left: str) -> None:
    """Of a store everything that was finished; what makes nothing has nothing to keep."""
    ctx = click.Context(click.Group())
    ctx.invoked_subcommand = command
    assert way_on(ctx).startswith(left)
