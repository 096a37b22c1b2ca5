"""What the tests lend the program, on their side: a number for each thing, and what it may ask.

The program sees of a function that it can be called, of an object its public attributes, of an
exception's class its name and ancestors. What it asks for runs the tests' own code, with data of
the program's, and nothing else: `lent` is the other side.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from farm.sandbox.frames import Message, PeerBroke
from farm.sandbox.plain import Json, Traffic
from farm.sandbox.raised import RaisedByProgram, said
from farm.sandbox.standins import is_a_verdict

TESTS = "tests"  # the module that the assertions' own classes and functions are of
_FORMAT, _FORMAT_MAP = str.format, str.format_map


class Loans:
    """The book of what is lent in one conversation; `export` is the conversation's own."""

    def __init__(self, traffic: Traffic, export: Callable[[Any], Json]) -> None:
        self._traffic = traffic
        self._export = export
        self._things: list[Any] = []  # kept alive, so that a number means one thing
        self._numbers: dict[object, int] = {}
        self._returned: Any = None
        self.failed: BaseException | None = None  # an assertion of the tests' own, told the program

    def number_of(self, value: Any) -> int:
        """Return the number of a thing, the same as long as the conversation lasts."""
        key: object = id(value)
        if type(value) is types.MethodType:  # made anew each time it is asked for
            key = (id(value.__self__), id(value.__func__))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._things)
            self._things.append(value)
        return number

    def thing(self, number: int) -> Any:
        """Return what a number stands for; raises `LookupError`."""
        return self._things[number]

    def error_class(self, number: Json) -> type[BaseException]:
        """Return the exception class that a number stands for; raises what is malformed."""
        found = self._things[number]
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise PeerBroke("what the program raised is none of the tests' exceptions")
        return found

    # --- lending

    def lend(self, value: Any) -> Json:
        """Return the reference by which the program gets a thing that is not plain data."""
        if isinstance(value, type) and issubclass(value, BaseException):
            return self._lent_class(value)
        if isinstance(value, BaseException):
            return self._lent_error(value)
        if is_of_the_tests(value):
            return {"t": "foreign", "v": self.number_of(value)}
        if value is _FORMAT or value is _FORMAT_MAP:
            # called here, it would read attributes of the tests' own objects for the program
            return {"t": "template", "v": value.__name__}
        if callable(value):
            return {"t": "callback", "v": self.number_of(value)}
        return {"t": "iterator", "v": [self._traffic.pack(part) for part in value]}

    def _lent_class(self, kind: type[BaseException]) -> Json:
        """Lend a class that the program is to catch: a library's as that, the tests' by a twin."""
        if _is_of_python(kind):
            return {"t": "library", "v": kind.__module__, "name": kind.__name__}
        parents = [self._export(one) for one in kind.__bases__ if issubclass(one, BaseException)]
        number = self.number_of(kind)
        return {"t": "error class", "v": number, "name": kind.__name__, "bases": parents}

    def _lent_error(self, error: BaseException) -> Json:
        """Name the program's own object, or the class with the arguments."""
        if isinstance(error, RaisedByProgram) and error._object >= 0:
            return {"t": "object", "v": error._object}
        kind = type(error)
        if not is_of_the_tests(error):
            kind = next(one for one in kind.__mro__ if _is_of_python(one))
        packed = self._traffic.pack(error.args)
        return {"t": "raised", "v": self.number_of(error), "kind": self._export(kind), "a": packed}

    # --- what the program asks

    def answer(self, asked: Json) -> Message:
        """Do what the program asks of a thing it was lent, and say what came of it."""
        try:
            owned = self._things[asked["n"]]
            if asked["ask"] == "call":
                arguments = [self._traffic.unpack(part) for part in asked["a"]]
                named = {key: self._traffic.unpack(part) for key, part in asked["k"].items()}
                value = owned(*arguments, **named)
            else:
                value = self._attribute(owned, asked)
            self._returned = value  # held until the next message, or the book would drop it
            return {"do": "return", "v": self._traffic.pack(value)}
        except Exception as error:  # noqa: BLE001  # a test's function may raise anything
            self._returned = error
            if is_a_verdict(error):
                self.failed = error
            return {
                "do": "return",
                "raised": self._export(error),
                "own": self.number_of(error),
                "text": said(error),
            }

    def _attribute(self, owner: Any, asked: Json) -> Any:
        """Read or set a public attribute of an object of the tests' own classes, only."""
        name = asked["name"]
        if type(name) is not str or name.startswith("_") or not is_of_the_tests(owner):
            raise AttributeError("not an attribute the program may see")
        if asked["ask"] == "set":
            setattr(owner, name, self._traffic.unpack(asked["v"]))
            return None
        return getattr(owner, name)


def _is_of_python(kind: type) -> bool:
    """Say whether a class is to be had in the program's process by name."""
    module = sys.modules.get(kind.__module__)
    ours = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return ours and getattr(module, kind.__name__, None) is kind


def is_of_the_tests(value: Any) -> bool:
    """Say whether a value is an object of a class that the assertions themselves define."""
    return type(value).__module__ == TESTS and not isinstance(value, type)
