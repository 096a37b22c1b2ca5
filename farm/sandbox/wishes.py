"""What a program may ask of a thing the tests lent it, on their side.

Public attributes of objects of the tests' own classes, the special methods they define, what a
function says of itself, the next parts of an iterator. A method of the tests stays theirs, and so
does what a mock says of its use: neither can be set.
"""

from __future__ import annotations

import builtins
import io
import sys
import types
from typing import Any

from farm.sandbox.lent import MOST_AHEAD, SPECIAL
from farm.sandbox.plain import Json, Traffic

TESTS = "tests"  # the module that the assertions' own classes and functions are of
_FILES = (io.StringIO, io.BytesIO)
_MARKS = "pytestmark"  # says whether a test is one


class Wishes:
    """Grants what one program asks of what it was lent."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._raised: dict[int, BaseException] = {}  # by iterators, not yet told

    def grant(self, owned: Any, asked: Json) -> Any:
        """Do what is asked of one thing; raises what the tests' own code raises, or a refusal."""
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
        """Return what comes next of an iterator, nothing at its end; raise in its turn."""
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
        mine = is_open(owner) or _is_a_function_of_the_tests(owner)
        if isinstance(owner, type):
            mine = owner.__module__ == TESTS and asked["ask"] == "get"
        if type(name) is not str or name.startswith("_") or name == _MARKS or not mine:
            raise AttributeError("not an attribute the program may see")
        if _is_a_test_case(type(owner)) and hasattr(_test_case(), name):
            raise AttributeError("how a test case judges is not the program's to ask or set")
        if is_a_mock(owner) and (hasattr(type(owner), name) or name == "method_calls"):
            raise AttributeError("not for the program: what a mock is asked by the tests")
        if asked["ask"] == "set":
            if callable(getattr(type(owner), name, None)):
                raise AttributeError("a method of the tests is theirs")
            if type(owner) is types.FunctionType and name in vars(owner):
                raise AttributeError("not an attribute the program may change")
            value = self._traffic.unpack(asked["v"])
            if is_a_mock(owner) and not _is_data(value):
                raise AttributeError("what the tests ask of a mock is not the program's to give")
            setattr(owner, name, value)
            return None
        return getattr(owner, name)


def is_a_mock(value: Any) -> bool:
    """Say whether a value is one of unittest's mocks."""
    mock = sys.modules.get("unittest.mock")  # who has not imported it has none
    return mock is not None and isinstance(value, mock.NonCallableMock)


def _is_data(value: Any) -> bool:
    """Say whether a value is plain data to its last part, of which nothing can be asked."""
    if type(value) is dict:
        return all(_is_data(part) for pair in value.items() for part in pair)
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_data, value))
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _test_case() -> type:
    unittest = sys.modules.get("unittest")  # who has not imported it has no test case
    return type(None) if unittest is None else unittest.TestCase


def _is_a_test_case(kind: type) -> bool:
    return issubclass(kind, _test_case())


def is_open(value: Any) -> bool:
    """Say whether the program may use public attributes and special methods of a value."""
    return is_of_the_tests(value) or isinstance(value, _FILES) or is_a_mock(value)


def _is_a_function_of_the_tests(value: Any) -> bool:
    """Say whether a value is a function that the assertions themselves define."""
    return type(value) is types.FunctionType and value.__module__ == TESTS


def special_methods(kind: type) -> list[str]:
    """List the special methods that the program may use on objects of a class of the tests."""
    family = type.mro(kind)[:-1]
    return [
        name
        for name in SPECIAL
        if any(vars(one).get(name) is not None for one in family)
        # how Python shows an object, or runs a test case, is no word of the tests
        and (
            (name not in ("__str__", "__repr__") and not _is_a_test_case(kind))
            or _defines(family, name)
        )
    ]


def _defines(family: list[type], name: str) -> bool:
    return any(name in vars(one) and one.__module__ == TESTS for one in family)


def _apply(owner: Any, name: Json, arguments: list[Any]) -> Any:
    """Apply a special method that the program was told an object of the tests has."""
    kind = type(owner)
    if not is_open(owner):
        raise AttributeError("not a method the program may use")
    if name == "__exit__" and len(arguments) == 1:
        error = arguments[0]
        return kind.__exit__(owner, None if error is None else type(error), error, None)
    if name not in special_methods(kind):
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


def is_of_the_tests(value: Any) -> bool:
    """Say whether a value is an object of a class that the assertions themselves define."""
    return type(value).__module__ == TESTS and not isinstance(value, type)
