"""The door through which task files come in: bytes of a file to numbered lines.

The rules are in farm.core.task; this module only opens, bounds each line before it is held
in memory, and translates what the system says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

from farm.core.task import MAX_LINE_BYTES, TaskCheck, validate_lines
from farm.errors import SpecError

_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # gzip, zstd: neither begins a text
_MAGIC = 4


def validate_file(path: str | os.PathLike[str]) -> TaskCheck:
    """Check every line of a task file.

    A bad line never stops the check. Raises SpecError only where there are no lines to
    check: the file is missing, a directory, unreadable or compressed, or holds no task line at all.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            if stream.peek(_MAGIC).startswith(_PACKED):
                raise SpecError(f"{shown!r}: is compressed; unpack it, a task file is plain text")
            check = validate_lines(_numbered_lines(stream))
    except FileNotFoundError as error:
        raise SpecError(f"{shown!r}: there is no such file; give a JSON Lines file") from error
    except IsADirectoryError as error:
        raise SpecError(f"{shown!r}: is a directory; give a JSON Lines file") from error
    except ValueError as error:  # a NUL in the name
        raise SpecError(f"{shown!r}: is not a file name; give a JSON Lines file") from error
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise SpecError(f"{shown!r}: {reason.lower()}; make the file readable") from error
    if not check.tasks and not check.errors:
        raise SpecError(f"{shown!r}: holds no task; give one JSON object a line")
    return check


def _numbered_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers; of an overlong line only its too long beginning."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        yield number, line
        while not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
            if not line:
                break
