"""`farm sandbox`: what isolation this machine grants, and one program judged by hand."""

from __future__ import annotations

import json
import sys
from typing import BinaryIO

import click
import msgspec

from farm.cli import options
from farm.core.isolation import LEVELS
from farm.errors import SpecError
from farm.sandbox.limits import LONGEST_TIMEOUT_S
from farm.sandbox.runner import Sandbox, Settings, checked_work


@click.group()
def sandbox() -> None:
    """Run programs a model wrote, apart from what judges them."""


@sandbox.command()
@options.always_quiet
def probe() -> None:
    """Attack the isolation this machine grants and print what held."""
    with Sandbox(Settings(allow_unisolated=True), slots=1) as runner:
        found = runner.probe()
    _print(found)


def _print(value: object) -> None:
    options.write_out(json.dumps(value, indent=2).encode() + b"\n", last=True)


def _in_range(ctx: click.Context, option: click.Parameter, value: float) -> float:
    """Refuse what no program is given, a number that is none included."""
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise click.BadParameter(f"{value:g} is not above 0 and up to {LONGEST_TIMEOUT_S:g}.")
    return value


@sandbox.command()
@click.argument("file", type=click.File("rb"))
@click.option("--assert", "assertions", multiple=True, required=True, help="Repeat for more.")
@click.option("--timeout-s", type=float, default=3.0, show_default=True, callback=_in_range)
@click.option("--entry-point", help="The function under test, if it is named like a builtin.")
@click.option("--imports", type=click.Choice(["deny", "allow"]), default="deny", show_default=True)
@click.option("--require-isolation", type=click.Choice(LEVELS))
@click.option("--allow-unisolated", is_flag=True, help="Accept running without any isolation.")
@options.always_quiet
def run(
    file: BinaryIO,
    assertions: tuple[str, ...],
    timeout_s: float,
    entry_point: str | None,
    imports: str,
    require_isolation: str | None,
    allow_unisolated: bool,
) -> None:
    """Judge the program in FILE ('-' for standard input); exit 1 unless it passes."""
    try:
        code = file.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{file.name!r} is not UTF-8 text: byte {error.start + 1} does not fit"
        ) from error
    work = checked_work(code, assertions, timeout_s=timeout_s, entry_point=entry_point)
    settings = Settings(
        imports="allow" if imports == "allow" else "deny",
        require_isolation=require_isolation,
        allow_unisolated=allow_unisolated,
    )
    with Sandbox(settings, slots=1) as runner:
        result = runner.run(work)
    _print(msgspec.to_builtins(result))
    sys.exit(0 if result.outcome == "pass" else 1)


command = sandbox
