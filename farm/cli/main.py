"""The `farm` command: which commands there are, and how every failure ends.

Commands are loaded when they are called, so that `farm --help` costs little more than the
interpreter and click.
"""

from __future__ import annotations

import atexit
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import click

from farm.cli.overview import COMMANDS, overview
from farm.core.printable import printable
from farm.errors import FarmError, StorageError
from farm.version import VERSION

_NO_THREAD = "can't start new thread"  # what the interpreter makes of EAGAIN
# what a disk says that takes no more. The store's files have doors that say whose it was, and what
# stderr says of itself ends in `_say`: left is what click prints on stdout, as help
_NOT_TAKEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_PATIENCE_S = 2.0  # with a stderr whose reader takes nothing


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM came outside of a run; what was begun cleans up behind itself.

    A KeyboardInterrupt, which event loops let pass where they would swallow others.
    """

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        super().__init__(number.name)


class CutShort(FarmError):
    """A command was interrupted outside of a run; its exit code is that of the signal."""

    def __init__(self, number: signal.Signals, *, way_on: str) -> None:
        self.exit_code = 128 + number
        super().__init__(f"interrupted by {number.name}; {way_on}")


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of a run's life."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and give a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        _heed(_interrupt)  # from here on something may be begun that must be cleaned up
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; says how it was interrupted, before click makes something else of it."""
        try:
            return super().invoke(ctx)
        except Interrupted as error:
            from farm.cli.again import way_on  # here: most commands end by themselves

            raise CutShort(error.number, way_on=way_on(ctx)) from error

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        formatter.write(overview())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest name for one that does not exist."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches  # 5 ms that only a typing error needs

            near = get_close_matches(args[0], COMMANDS)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"farm, version {VERSION}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def farm() -> None:
    """LLM evaluation runs that survive anything."""


def main() -> None:
    """Run a command; end with its exit code and never with a traceback."""
    open_closed_streams()
    sys.unraisablehook = _pass_over_half_made_loops
    try:
        code = _run()
    except Interrupted as again:  # while the failure before it was told
        code = 128 + again.number
    _end(code)


def conclude() -> None:
    """Have no signal change how this command ends: what it was called for is done and told.

    What is left to do must be short, since nothing but SIGKILL ends it before its time.
    """
    if signal.getsignal(signal.SIGINT) is _interrupt:
        _heed(_pass_over)


def _end(code: int) -> NoReturn:
    """End with an exit code that no signal changes any more."""
    _heed(lambda number, frame: os._exit(code))
    # the last hook that is registered is the first to be called. Behind the hooks the interpreter
    # takes handlers away, and a signal would end it in its own way; what is ignored stays ignored
    atexit.register(_heed, signal.SIG_IGN)
    sys.exit(code)


def _run() -> int:
    try:
        code: Any = farm.main(prog_name="farm", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except FarmError as error:
        fail(str(error))
        return error.exit_code
    except BrokenPipeError:
        # the reader of our output went away, as `| head` does; what was done is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        return _refused_by_the_system(error)
    except RecursionError:
        fail("the input is nested too deeply")
        return 1
    except MemoryError:
        fail("out of memory: give the machine more, or split the input")
        return 1
    except Exception as error:  # noqa: BLE001  the last fence: a person gets one line, always
        return _last_words(error)
    return int(code or 0)


def _refused_by_the_system(error: OSError) -> int:
    """Say what an error was about that no door has translated, and give the exit code."""
    reason = os.strerror(error.errno or 0).lower()
    if error.filename:
        fail(f"{error.filename}: {reason}")
        return 1
    if error.errno in _NOT_TAKEN:
        from farm.files.stream import silence  # here as in `_say`

        silence(1)  # the interpreter must not fail again when it flushes at exit
        unwritten = StorageError(path="standard output", reason=reason)
        fail(str(unwritten))
        return unwritten.exit_code
    try:
        os.getcwd()
    except FileNotFoundError:
        reason = "the working directory is gone: change to one that exists"
    fail(reason)
    return 1


def _pass_over_half_made_loops(unraisable: sys.UnraisableHookArgs) -> None:
    """Keep still about an event loop that was not made for want of descriptors.

    The error itself is told; what the interpreter adds when it takes the rest away is a traceback.
    """
    if getattr(unraisable.object, "__qualname__", "") != "BaseEventLoop.__del__":
        sys.__unraisablehook__(unraisable)


def fail(message: str) -> None:
    """Say on stderr why the command failed, control characters made harmless."""
    _say("".join(f"farm: {printable(line)}\n" for line in message.splitlines()))


def _say(text: str) -> None:
    """Write on stderr; a reader that has stalled must not keep the command from ending."""
    # here and not at the top: most commands have nothing to say
    from farm.files.stream import STDERR, silence, write_in_time

    try:
        sys.stderr.flush()
        write_in_time(STDERR, text.encode(errors="backslashreplace"), timeout_s=_PATIENCE_S)
    except OSError:
        silence(STDERR)  # nobody listens; the interpreter must not fail again at exit


def _last_words(error: BaseException) -> int:
    """Say what went wrong and give the exit code; of a group, what its first error says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FarmError):
        fail(str(error))
        return error.exit_code
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        fail("the system gives no more threads: end other programs, or raise `ulimit -u`")
        return 1
    fail(f"unexpected {type(error).__name__}: {error}; this is a fault of farm, please report it")
    return 1


def _show(error: click.ClickException) -> None:
    """Print what click has to say, the command line that it quotes made harmless."""
    text = io.StringIO()
    error.show(file=text)
    lines = [printable(line.expandtabs(4)) for line in text.getvalue().splitlines()]
    _say("".join(f"{line}\n" for line in lines))


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted(signal.Signals(number))


def _pass_over(number: int, frame: object) -> None:
    """Heed a signal by doing nothing; one that is ignored would be so in child processes too."""


def _heed(handler: Callable[[int, Any], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def open_closed_streams() -> None:
    """Give a standard stream that the caller closed a place to read or write nothing.

    Else the next file that is opened gets its number, and with it what is meant for the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            stream = open(number, "w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)  # for the life of the process
