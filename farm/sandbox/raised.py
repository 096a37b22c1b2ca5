"""Exceptions that came from the program, rebuilt so that the tests can catch them.

Python's own exceptions arrive as themselves. Classes of the program become classes here, with
the same ancestry, so that `except ValueError` and `except TheirError` both work; called, such a
class has its exception made by the program. AssertionError
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

_BESIDE_ARGUMENTS: tuple[tuple[type[BaseException], tuple[str, ...]], ...] = (
    (OSError, ("filename", "filename2")),
    (ImportError, ("name", "path")),
    (NameError, ("name",)),
    (AttributeError, ("name",)),
)


class Asker(Protocol):
    """What such an exception needs of its conversation."""

    def operate(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the candidate apply one of its operations."""


class ProgramClass(type):
    """The class of the program's exception classes: what they make is made by the program."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """Make one there; of a class of the tests that extends one, here."""
        if "_program_class" not in vars(cls):
            return super().__call__(*arguments, **named)
        return cls._asker().operate("call", cls, *arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls._asker().operate("getattr", cls._nearest(), name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_") or "_program_class" not in vars(cls):
            super().__setattr__(name, value)
        else:
            cls._asker().operate("setattr", cls, name, value)

    def _nearest(cls) -> type:
        return next(one for one in cls.__mro__ if "_program_class" in vars(one))

    def _asker(cls) -> Asker:
        session: Asker = vars(cls._nearest())["_session"]
        return session


class RaisedByProgram:
    """Mixed into exceptions of classes the program defines; asks it for their attributes."""

    _session: Asker
    _object = -1
    _says: str | None = None  # what its class makes of it, where that has a `__str__`
    _shows: str | None = None  # likewise by `__repr__`

    def __str__(self) -> str:
        return super().__str__() if self._says is None else self._says

    def __repr__(self) -> str:
        return super().__repr__() if self._shows is None else self._shows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._object < 0:
            raise AttributeError(name)
        return self._session.operate("getattr", Reference(self._object), name)


class ProgramAssertion(RaisedByProgram, AssertionError):
    """An AssertionError of the program's own, which is an error and not a failed assertion."""


class Ancestries:
    """The exception classes of one program, by its numbers for them."""

    def __init__(self, session: Asker, of_the_tests: Callable[[Json], type]) -> None:
        self._session = session
        self._of_the_tests = of_the_tests
        self._classes: dict[int, tuple[type, type]] = {}  # with the parent it was made for

    def find(self, line: Json) -> type:
        """Build, or find, the class for a line of ancestors, nearest first.

        An ancestor is the name of one of Python's, or a number, a name and the module it is of,
        or alone in a list the number of a class of the tests that was lent.
        """
        family: type = Exception
        for ancestor in reversed(line):
            if type(ancestor) is str:
                known = vars(builtins).get(ancestor)
                if isinstance(known, type) and issubclass(known, BaseException):
                    family = ProgramAssertion if known is AssertionError else known
                continue
            if len(ancestor) == 1:
                family = self._of_the_tests(ancestor[0])
                continue
            number, name, home = ancestor
            if (type(number), type(name), type(home)) != (int, str, str):
                raise PeerBroke("an exception's ancestry is malformed")
            # another one once the tests have imported the module that it is of
            parent = error_of(home, name) or family
            family, made_for = self._classes.get(number, (parent, None))
            if made_for is not parent:
                family = self._derive(number, name, parent)
                self._classes[number] = family, parent
        return family

    def _derive(self, number: int, name: str, parent: type) -> type:
        bases = (parent,) if issubclass(parent, RaisedByProgram) else (RaisedByProgram, parent)
        members = {"_program_class": number, "_session": self._session}
        return ProgramClass(name.replace("\0", "") or "error", bases, members)


def rebuilt(kind: type, reply: Json, unpack: Callable[[Json], Any]) -> BaseException:
    """Make an exception of its arguments; one that takes no such keeps its text."""
    try:
        arguments = tuple(unpack(reply["args"]))
    except Exception:  # noqa: BLE001  # whatever a hostile argument leads to
        arguments = (str(reply.get("text")),)
    # the class itself would have it made by the program; then without its own `__init__`
    for make in (partial(type.__call__, kind), partial(kind.__new__, kind)):
        with contextlib.suppress(Exception):
            made = make(*arguments)
            if isinstance(made, BaseException):
                _tell(made, reply.get("more"))
                return made
    return RuntimeError(str(reply.get("text")))


def more_of(error: BaseException) -> dict[str, str]:
    """Return what one of Python's exceptions knows besides its arguments, as far as it is text."""
    found = {}
    for kind, names in _BESIDE_ARGUMENTS:
        if isinstance(error, kind):
            for name in names:
                value = vars(kind)[name].__get__(error)
                if type(value) is str:
                    found[name] = value
    return found


def _tell(error: BaseException, more: Json) -> None:
    """Give an exception back what `more_of` found."""
    if type(more) is not dict:
        return
    for kind, names in _BESIDE_ARGUMENTS:
        if isinstance(error, kind):
            for name in names:
                if type(more.get(name)) is str:
                    vars(kind)[name].__set__(error, more[name])


def said(error: BaseException) -> str:
    """Return what an exception of the tests says of itself, as far as it can."""
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001  # a test's class may raise here, too
        return type(error).__name__
