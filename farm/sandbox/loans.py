"""What the tests lend the program, on their side: a number for each thing, and what it may ask.

The program sees of a function that it can be called, of an object its public attributes, of an
exception's class its name and ancestors. What it asks for (see `wishes`) runs the tests' own code,
with data of the program's, and nothing else: `lent` and `borrowed` are the other side.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from typing import Any

from farm.sandbox import rare
from farm.sandbox.described import plain_part
from farm.sandbox.frames import Message, PeerBroke
from farm.sandbox.lent import SPECIAL
from farm.sandbox.plain import SHARED, Json, Traffic
from farm.sandbox.raised import RaisedByProgram, said
from farm.sandbox.standins import is_a_verdict
from farm.sandbox.values import PLAIN
from farm.sandbox.wishes import TESTS, Wishes, is_of_the_tests, is_open, special_methods

_FORMAT, _FORMAT_MAP = str.format, str.format_map


class Loans:
    """The book of what is lent in one conversation; `export` is the conversation's own."""

    def __init__(self, traffic: Traffic, export: Callable[[Any], Json]) -> None:
        self._traffic = traffic
        self._export = export
        self._things: list[Any] = []  # kept alive, so that a number means one thing
        self._numbers: dict[object, int] = {}
        self._returned: Any = None
        self._wishes = Wishes(traffic)
        self.failed: BaseException | None = None  # an assertion of the tests' own, told the program

    def number_of(self, value: Any) -> int:
        """Return the number of a thing, the same as long as the conversation lasts."""
        key: object = id(value)
        if type(value) is types.MethodType:  # made anew each time it is asked for
            key = (id(value.__self__), id(value.__func__))
        elif type(value) is types.BuiltinMethodType:  # likewise
            key = (id(value.__self__), value.__name__)
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
            return self._lent_object(value)
        if value is _FORMAT or value is _FORMAT_MAP:
            # called here, it would read attributes of the tests' own objects for the program
            return {"t": "template", "v": value.__name__}
        if type(value) is types.FunctionType:
            return {"t": "function", "v": self.number_of(value)}
        if is_open(value):  # a mock, or a file in memory
            return self._told_of(value)
        if callable(value):
            return {"t": "callback", "v": self.number_of(value)}
        if type(value) is re.Pattern:
            return {"t": "pattern", "v": self._traffic.pack(value.pattern), "flags": value.flags}
        if rare.is_a_path(type(value)):
            return rare.packed_path(value)
        if hasattr(type(value), "__next__"):
            return {"t": "stream", "v": self.number_of(value)}
        return {"t": "iterator", "v": [self._traffic.pack(part) for part in value]}

    def _lent_object(self, value: Any) -> Json:
        """Lend an object of a class of the tests: as what it extends, if that is plain data."""
        kind = type(value)
        own = [one for one in type.mro(kind) if one.__module__ == TESTS]
        if issubclass(kind, SHARED) and not any(map(_has_methods, own)):
            return self._traffic.share(value, next(one for one in SHARED if issubclass(kind, one)))
        if issubclass(kind, PLAIN) and not issubclass(kind, frozenset):
            fields = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
            plain = self._traffic.pack(plain_part(value))
            told = {
                "t": "like",
                "v": self.number_of(value),
                "kind": self.number_of(kind),
                "base": plain,
            }
            return told | {"name": kind.__name__, "fields": fields and list(fields)}
        return self._told_of(value)

    def _told_of(self, value: Any) -> Json:
        told: Json = {"t": "foreign", "v": self.number_of(value)}
        if has := special_methods(type(value)):
            told["has"] = has
        return told

    def remade(self, number: int, plain: Any) -> Any:
        """Return a named tuple that the program made of one of the tests'; raises what is odd.

        Nothing of the class runs.
        """
        kind = self._things[number]
        if type(kind) is not type or kind.__module__ != TESTS or not hasattr(kind, "_fields"):
            raise PeerBroke("what the program made is no named tuple of the tests")
        if type(plain) is not tuple or len(plain) != len(kind._fields):
            raise PeerBroke("a named tuple has other parts than its class says")
        return tuple.__new__(kind, plain)

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
            value = self._wishes.grant(owned, asked)
            self._returned = value  # held until the next message, or the book would drop it
            return {"do": "return", "v": self._traffic.pack(value)}
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # noqa: BLE001
            # a test's function may raise anything, also what ends a process
            self._returned = error
            if is_a_verdict(error):
                self.failed = error
            return {
                "do": "return",
                "raised": self._export(error),
                "own": self.number_of(error),
                "text": said(error),
            }


def _has_methods(kind: type) -> bool:
    """Say whether a class defines more than its name, words and way of being made."""
    return any(
        not name.startswith("__") or name in SPECIAL or name == "__missing__" for name in vars(kind)
    )


def _is_of_python(kind: type) -> bool:
    """Say whether a class is to be had in the program's process by name."""
    module = sys.modules.get(kind.__module__)
    ours = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return ours and getattr(module, kind.__name__, None) is kind
