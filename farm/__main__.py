"""Where the `farm` command begins: it heeds signals before it loads anything else.

While modules load nothing has been begun, so a signal may end the process at once; raised as an
exception it would come out in the middle of some import, with a traceback.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    try:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
    except KeyboardInterrupt:
        _leave(2)
    if _answered(sys.argv[1:]):
        os._exit(0)  # all is said, nothing is open, and no signal may say otherwise
    from farm.cli.main import main as command

    command()


def _answered(arguments: list[str]) -> bool:
    """Answer what needs no command, before the libraries that a command needs are loaded."""
    if arguments == ["--version"]:
        from farm.version import VERSION

        text = f"farm, version {VERSION}\n"
    elif arguments in (["--help"], ["-h"]):
        from farm.cli.overview import overview

        text = overview()
    else:
        return False
    try:
        os.write(1, text.encode())
    except OSError:  # the long way says what is wrong with stdout
        return False
    return True


def _leave(number: int, frame: object = None) -> None:
    name = "SIGINT" if number == 2 else "SIGTERM"
    try:
        os.write(2, f"farm: interrupted by {name}; nothing was begun\n".encode())
    except OSError:  # nobody listens
        os._exit(128 + number)
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[func-returns-value]
