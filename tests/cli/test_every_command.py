"""What holds for every command, found by asking the command line itself for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from farm.cli.main import farm


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(farm))


def test_commands_and_their_parts_are_found() -> None:
    """Else the test below would hold of nothing."""
    assert {"run", "sandbox probe", "qualify audit"} <= COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_be_quiet(name: str) -> None:
    """Also one that logs nothing: scripts give the option to all alike."""
    assert "--quiet" in {text for option in COMMANDS[name].params for text in option.opts}
