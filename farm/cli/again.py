"""The command that continues: what was given, without what the store knows by now.

One rule for all commands that a person may have to give twice, whether the run ended as pending,
was interrupted, or was left before it began.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Final

import click
from click.core import ParameterSource

_META: Final = "farm.again"  # of a click context, which its parents share
_NOTHING_KEPT: Final = "farm.nothing_kept"
# What a store says of itself, as do its cases or tasks.
_KNOWN: Final = {
    "run": frozenset(
        {
            "input", "shards", "scorer", "name", "mapping", "ignore_extra", "auto_id", "coerce",
            "max_text_bytes",
        }
    ),
    "eval": frozenset({"tasks", "samples", "limit", "categories", "shards", "allow_bad_tasks"}),
}  # fmt: skip
_ONLY_LOOK: Final = frozenset(
    {
        "status", "verify", "events", "report", "compare", "gate", "tasks", "score", "sandbox",
        "schema",
    }
)  # fmt: skip
# What was meant for this once: a clock that stands still never sees a lease expire.
_ONCE: Final = frozenset({"now_ms", "crash_after_claim"})


def command_line(ctx: click.Context) -> str:
    """Give the command that continues this one, quoted for a shell.

    It has every option of the command line, but for what the store knows, once there is one, and
    for what was meant for one time only.
    """
    command = ctx.info_name or ""
    left_out = _ONCE | _KNOWN.get(command, frozenset()) if _made(ctx) else _ONCE
    parts = ["farm", command]
    for option in ctx.command.get_params(ctx):
        name = option.name or ""
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in left_out and isinstance(option, click.Option):
            parts += _written(option, ctx.params[name])
    return shlex.join(parts)


def _made(ctx: click.Context) -> bool:
    """Tell whether there is the store that a command makes or goes on with."""
    from farm.store.directory import PLAN_FILE  # here: the store's doors cost every command time

    return os.path.exists(os.path.join(ctx.params.get("into", ctx.params["store"]), PLAN_FILE))


def _written(option: click.Option, value: object) -> list[str]:
    if option.is_flag:
        return [option.opts[0] if value else option.secondary_opts[0]]
    values = value if option.multiple and isinstance(value, tuple) else (value,)
    return [part for one in values for part in (option.opts[0], str(one))]


def remember(ctx: click.Context) -> None:
    """Have `way_on` say how this command is continued, from now on."""
    ctx.meta[_META] = ctx


def keep_nothing(ctx: click.Context) -> None:
    """Have `way_on` say that what this command makes is gone with it."""
    ctx.meta[_NOTHING_KEPT] = True


def way_on(ctx: click.Context) -> str:
    """Say what is left of a command that was called and cut short, and how it is continued.

    By the command as it was given, where nobody said how.
    """
    line = shlex.join(["farm", *sys.argv[1:]])
    if ctx.invoked_subcommand in _ONLY_LOOK:
        return f"nothing was changed, start again with: {line}"
    if ctx.meta.get(_NOTHING_KEPT):
        return f"nothing of it is kept, start again with: {line}"
    remembered = ctx.meta.get(_META)
    if isinstance(remembered, click.Context):
        line = command_line(remembered)
        if not _made(remembered):
            # of a pipe's content nothing is left: a new call would read what comes behind it
            same = " the same standard input" if remembered.params.get("input") == "-" else ""
            return f"nothing was made yet, start again with{same}: {line}"
    return f"everything finished is kept, continue with: {line}"
