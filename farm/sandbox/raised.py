"""Exceptions that came from the program, rebuilt so that the tests can catch them.

Python's own exceptions arrive as themselves. Classes of the program become classes here, with
the same ancestry, so that `except ValueError` and `except TheirError` both work. AssertionError
alone is marked: raised by the program it is an error, not a failed assertion.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from farm.sandbox.frames import PeerBroke
from farm.sandbox.known import error_of
from farm.sandbox.plain import Json
from farm.sandbox.values import Reference


class Asker(Protocol):
    """What such an exception needs of its conversation."""

    def operate(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the candidate apply one of its operations."""


class RaisedByProgram:
    """Mixed into exceptions of classes the program defines; asks it for their attributes."""

    _session: Asker
    _object = -1
    _says: str | None = None  # what its class makes of it, where that has a `__str__`

    def __str__(self) -> str:
        return super().__str__() if self._says is None else self._says

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._object < 0:
            raise AttributeError(name)
        return self._session.operate("getattr", Reference(self._object), name)


class ProgramAssertion(RaisedByProgram, AssertionError):
    """An AssertionError of the program's own, which is an error and not a failed assertion."""


class Ancestries:
    """The exception classes of one program, by its numbers for them."""

    def __init__(self) -> None:
        self._classes: dict[int, type] = {}

    def find(self, line: Json) -> type:
        """Build, or find, the class for a line of ancestors, nearest first.

        An ancestor is the name of one of Python's, or a number, a name and the module it is of.
        """
        family: type | None = None
        for ancestor in reversed(line):
            if type(ancestor) is str:
                known = vars(builtins).get(ancestor)
                if isinstance(known, type) and issubclass(known, BaseException):
                    family = ProgramAssertion if known is AssertionError else known
                continue
            number, name, home = ancestor
            if (type(number), type(name), type(home)) != (int, str, str):
                raise PeerBroke("an exception's ancestry is malformed")
            if number not in self._classes:
                self._classes[number] = _derive(
                    number, name, error_of(home, name) or family or Exception
                )
            family = self._classes[number]
        return family or Exception


def _derive(number: int, name: str, parent: type) -> type:
    bases = (parent,) if issubclass(parent, RaisedByProgram) else (RaisedByProgram, parent)
    return type(name.replace("\0", "") or "error", bases, {"_program_class": number})


def rebuilt(kind: type, reply: Json, unpack: Callable[[Json], Any]) -> BaseException:
    """Make an exception of its arguments; one that takes no such keeps its text."""
    try:
        arguments = tuple(unpack(reply["args"]))
    except Exception:  # noqa: BLE001  # whatever a hostile argument leads to
        arguments = (str(reply.get("text")),)
    for make in (kind, partial(kind.__new__, kind)):  # without the class's own `__init__`
        with contextlib.suppress(Exception):
            made = make(*arguments)
            if isinstance(made, BaseException):
                return made
    return RuntimeError(str(reply.get("text")))


def said(error: BaseException) -> str:
    """Return what an exception of the tests says of itself, as far as it can."""
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001  # a test's class may raise here, too
        return type(error).__name__
