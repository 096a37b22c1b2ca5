"""What the tests lend the program, on their side: a number for each thing, and what it may ask.

The program sees of a function that it can be called, of an object its public attributes, of an
exception's class its name and ancestors. What it asks for runs the tests' own code, with data of
the program's, and nothing else: `lent` is the other side.
"""

from __future__ import annotations

import builtins
import io
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from farm.sandbox import rare
from farm.sandbox.described import plain_part
from farm.sandbox.frames import Message, PeerBroke
from farm.sandbox.lent import MOST_AHEAD, SPECIAL
from farm.sandbox.plain import SHARED, Json, Traffic
from farm.sandbox.raised import RaisedByProgram, said
from farm.sandbox.standins import is_a_verdict
from farm.sandbox.values import PLAIN, is_of_the_program

TESTS = "tests"  # the module that the assertions' own classes and functions are of
_FILES = (io.StringIO, io.BytesIO)
_MARKS = "pytestmark"  # says whether a test is one
_FORMAT, _FORMAT_MAP = str.format, str.format_map


class Loans:
    """The book of what is lent in one conversation; `export` is the conversation's own."""

    def __init__(self, traffic: Traffic, export: Callable[[Any], Json]) -> None:
        self._traffic = traffic
        self._export = export
        self._things: list[Any] = []  # kept alive, so that a number means one thing
        self._numbers: dict[object, int] = {}
        self._returned: Any = None
        self._raised: dict[int, BaseException] = {}  # by iterators, not yet told
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
            return self._lent_object(value)
        if value is _FORMAT or value is _FORMAT_MAP:
            # called here, it would read attributes of the tests' own objects for the program
            return {"t": "template", "v": value.__name__}
        if type(value) is types.FunctionType:
            return {"t": "function", "v": self.number_of(value)}
        if _is_open(value):  # a mock, or a file in memory
            return self._told_of(value)
        if callable(value):
            return {"t": "callback", "v": self.number_of(value)}
        if type(value) is re.Pattern:
            return {"t": "pattern", "v": self._traffic.pack(value.pattern), "flags": value.flags}
        if rare.is_a_path(type(value)):
            return rare.packed_path(value)
        if hasattr(type(value), "__next__") and _length(value) is None:
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
        if has := _special_methods(type(value)):
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
            value = self._done(owned, asked)
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

    def _done(self, owned: Any, asked: Json) -> Any:
        wish = asked["ask"]
        if wish == "call":
            arguments = [self._traffic.unpack(part) for part in asked["a"]]
            named = {key: self._traffic.unpack(part) for key, part in asked["k"].items()}
            return owned(*arguments, **named)
        if wish == "about":
            return _about(owned)
        if wish == "more":
            return self._more(owned, asked["n"], asked["many"])
        if wish == "is":
            return isinstance(owned, type) and isinstance(self._traffic.unpack(asked["v"]), owned)
        if wish != "special":
            return self._attribute(owned, asked)
        arguments = [self._traffic.unpack(part) for part in asked["a"]]
        return _apply(owned, asked["name"], arguments)

    def _more(self, stream: Any, number: int, many: int) -> tuple[Any, ...]:
        """Return what comes next of an iterator, nothing at its end; what it raises, in its turn."""
        if number in self._raised:
            raise self._raised.pop(number)
        found: list[Any] = []
        while len(found) < min(many, MOST_AHEAD):
            try:
                found.append(next(stream))
            except StopIteration:
                break
            except Exception as error:  # whatever a generator of the tests may raise
                if not found:
                    raise
                self._raised[number] = error
                break
        return tuple(found)

    def _attribute(self, owner: Any, asked: Json) -> Any:
        """Read or set a public attribute of an object of the tests' own classes, only."""
        name = asked["name"]
        mine = _is_open(owner) or _is_a_function_of_the_tests(owner)
        if isinstance(owner, type):
            mine = owner.__module__ == TESTS and asked["ask"] == "get"
        if type(name) is not str or name.startswith("_") or name == _MARKS or not mine:
            raise AttributeError("not an attribute the program may see")
        if is_a_mock(owner) and (hasattr(type(owner), name) or name == "method_calls"):
            raise AttributeError("not for the program: what a mock is asked by the tests")
        if asked["ask"] == "set":
            if type(owner) is types.FunctionType and name in vars(owner):
                raise AttributeError("not an attribute the program may change")
            value = self._traffic.unpack(asked["v"])
            if is_a_mock(owner) and is_of_the_program(value):
                raise AttributeError("what the tests ask of a mock is not the program's to give")
            setattr(owner, name, value)
            return None
        return getattr(owner, name)


def is_a_mock(value: Any) -> bool:
    """Say whether a value is one of unittest's mocks."""
    mock = sys.modules.get("unittest.mock")  # who has not imported it has none
    return mock is not None and isinstance(value, mock.NonCallableMock)


def _is_open(value: Any) -> bool:
    """Say whether the program may use public attributes and special methods of a value."""
    return is_of_the_tests(value) or isinstance(value, _FILES) or is_a_mock(value)


def _length(iterator: Any) -> int | None:
    """Return how much is left of an iterator that knows, None for others."""
    try:
        return iterator.__length_hint__()  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        return None


def _is_a_function_of_the_tests(value: Any) -> bool:
    """Say whether a value is a function that the assertions themselves define."""
    return type(value) is types.FunctionType and value.__module__ == TESTS


def _has_methods(kind: type) -> bool:
    """Say whether a class defines more than its name, words and way of being made."""
    return any(
        not name.startswith("__") or name in SPECIAL or name == "__missing__" for name in vars(kind)
    )


def _special_methods(kind: type) -> list[str]:
    """List the special methods that the program may use on objects of a class of the tests."""
    family = type.mro(kind)[:-1]
    return [
        name
        for name in SPECIAL
        if any(vars(one).get(name) is not None for one in family)
        # how Python shows an object is no word of the tests
        and (name not in ("__str__", "__repr__") or _defines(family, name))
    ]


def _defines(family: list[type], name: str) -> bool:
    return any(name in vars(one) and one.__module__ == TESTS for one in family)


def _apply(owner: Any, name: Json, arguments: list[Any]) -> Any:
    """Apply a special method that the program was told an object of the tests has."""
    kind = type(owner)
    if not _is_open(owner):
        raise AttributeError("not a method the program may use")
    if name == "__exit__" and len(arguments) == 1:
        error = arguments[0]
        return kind.__exit__(owner, None if error is None else type(error), error, None)
    if name not in _special_methods(kind):
        raise AttributeError("not a method the program may use")
    return getattr(kind, name)(owner, *arguments)


def _about(function: Any) -> tuple[Any, ...]:
    """Return name, qualified name, documentation and parameters, None for what there is not."""
    import inspect  # only for programs that look at what they are given

    words = [getattr(function, name, None) for name in ("__name__", "__qualname__", "__doc__")]
    said = [word if type(word) is str else None for word in words]
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (*said, None)
    parameters = []
    for one in found:
        default = None if one.default is one.empty else one.default
        noted = one.annotation if vars(builtins).get(_name_of(one.annotation)) else None
        parameters.append(
            (
                one.name,
                int(one.kind),
                default,
                one.default is not one.empty,
                noted,
                noted is not None,
            )
        )
    return (*said, tuple(parameters))


def _name_of(value: object) -> str:
    name = getattr(value, "__name__", "")
    return name if type(name) is str else ""


def _is_of_python(kind: type) -> bool:
    """Say whether a class is to be had in the program's process by name."""
    module = sys.modules.get(kind.__module__)
    ours = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return ours and getattr(module, kind.__name__, None) is kind


def is_of_the_tests(value: Any) -> bool:
    """Say whether a value is an object of a class that the assertions themselves define."""
    return type(value).__module__ == TESTS and not isinstance(value, type)
