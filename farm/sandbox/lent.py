"""What the tests lend the program: their functions, and objects of their own classes."""

from __future__ import annotations

import collections
import types
from typing import Any, Protocol

LENT = "_farm_number"  # on an exception of the tests that passes through the program
_ONE_BY_ONE, MOST_AHEAD = 64, 1024
LENT_CLASS = "_farm_class"


class Asker(Protocol):
    """What a lent thing needs of the candidate it was lent to."""

    def ask(self, request: dict[str, Any]) -> Any:
        """Ask the tester for something only it has, in terms of values."""


class Callback:
    """What of the tests can be called: a class, a method, a function of Python's."""

    __slots__ = ("_about", "_home", "_number")
    __doc__ = property(lambda self: self._said()["__doc__"])

    def __init__(self, home: Asker, number: int) -> None:
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_about", None)

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        return self._home.ask({"ask": "call", "n": self._number, "a": arguments, "k": named})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            return self._home.ask({"ask": "get", "n": self._number, "name": name})
        if name not in SAID_OF_FUNCTIONS or name not in (said := self._said()):
            raise AttributeError(name)
        return said[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._home.ask({"ask": "set", "n": self._number, "name": name, "v": value})

    def __instancecheck__(self, value: object) -> bool:
        return bool(self._home.ask({"ask": "is", "n": self._number, "v": value}))

    def _said(self) -> dict[str, Any]:
        """Ask once what it says of itself."""
        if self._about is None:
            told = self._home.ask({"ask": "about", "n": self._number})
            object.__setattr__(self, "_about", _in_words_of_functions(*told))
        about: dict[str, Any] = self._about
        return about


class Function(Callback):
    """A function of the tests, which becomes a method where a class has it."""

    __slots__ = ()
    __doc__ = vars(Callback)["__doc__"]  # theirs, not the line above

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)


SAID_OF_FUNCTIONS = (
    "__name__", "__qualname__", "__doc__", "__signature__", "__annotations__", "__defaults__",
    "__kwdefaults__", "__code__",
)  # fmt: skip


def _in_words_of_functions(
    name: str | None, qualified: str | None, doc: str | None, parameters: Any
) -> dict[str, Any]:
    said = {"__name__": name, "__qualname__": qualified}
    about: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
    about["__doc__"] = doc
    if parameters is None:
        return about
    from inspect import Parameter, Signature  # only for programs that look at what they are given

    found = []
    places = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY")
    kinds = [getattr(Parameter, place) for place in (*places, "VAR_KEYWORD")]
    for one, kind, default, has_default, annotation, has_annotation in parameters:
        given = {"default": default} if has_default else {}
        noted = {"annotation": annotation} if has_annotation else {}
        found.append(Parameter(one, kinds[kind], **given, **noted))
    about["__signature__"] = Signature(found)
    about["__annotations__"] = {one[0]: one[4] for one in parameters if one[5]}
    by_place = [one for one in parameters if one[1] < 2]
    by_name = [one for one in parameters if one[1] == 3]
    about["__defaults__"] = tuple(one[2] for one in by_place if one[3]) or None
    about["__kwdefaults__"] = {one[0]: one[2] for one in by_name if one[3]} or None
    about["__code__"] = types.SimpleNamespace(
        co_argcount=len(by_place),
        co_posonlyargcount=sum(one[1] == 0 for one in parameters),
        co_kwonlyargcount=len(by_name),
        co_varnames=tuple(one[0] for one in by_place + by_name),
        co_name=name,
    )
    return about


class Foreign:
    """An object of a class the tests define: its public attributes can be read and set."""

    __slots__ = ("_home", "_number")

    def __init__(self, home: Asker, number: int) -> None:
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        return self._home.ask({"ask": "get", "n": self._number, "name": name})

    def __setattr__(self, name: str, value: Any) -> None:
        self._home.ask({"ask": "set", "n": self._number, "name": name, "v": value})


# What the class of an object of the tests may define for the program to use.
SPECIAL = (
    "__len__", "__iter__", "__next__", "__reversed__", "__getitem__", "__setitem__", "__delitem__",
    "__contains__", "__bool__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__",
    "__str__", "__repr__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__",
    "__truediv__", "__neg__", "__abs__", "__int__", "__float__", "__index__", "__call__",
    "__enter__",
)  # fmt: skip
_FOREIGN: dict[frozenset[str], type[Foreign]] = {frozenset(): Foreign}


def foreign_class(has: frozenset[str]) -> type[Foreign]:
    """Return the class of objects of the tests that have these special methods."""
    if has not in _FOREIGN:
        members: dict[str, Any] = {name: _special(name) for name in has if name in SPECIAL}
        if "__eq__" in has and "__hash__" not in has:
            members["__hash__"] = None
        if "__call__" in has:
            members["__call__"] = Callback.__call__
        if "__enter__" in has:
            members["__exit__"] = _leave
        members["__slots__"] = ()
        _FOREIGN[has] = type("Foreign", (Foreign,), members)
    return _FOREIGN[has]


def _special(name: str) -> Any:
    def method(self: Foreign, *arguments: Any) -> Any:
        asked = {"ask": "special", "n": self._number, "name": name, "a": arguments}
        return self._home.ask(asked)

    return method


def _leave(self: Foreign, kind: object, error: BaseException | None, trace: object) -> Any:
    asked = {"ask": "special", "n": self._number, "name": "__exit__", "a": [error]}
    return self._home.ask(asked)


class Stream:
    """An iterator of the tests, which may have no end.

    The first parts are fetched one by one, as the program needs them; later ones ahead of that.
    """

    __slots__ = ("_early", "_had", "_home", "_number")

    def __init__(self, home: Asker, number: int) -> None:
        self._home = home
        self._number = number
        self._early: collections.deque[Any] = collections.deque()
        self._had = 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        if not self._early:
            many = 1 if self._had < _ONE_BY_ONE else min(self._had, MOST_AHEAD)
            self._early.extend(self._home.ask({"ask": "more", "n": self._number, "many": many}))
        if not self._early:
            raise StopIteration
        self._had += 1
        return self._early.popleft()


class Likeness:
    """Mixed into twins of the tests' classes that extend a plain type: the rest is asked for."""

    _farm_home: Asker

    def __getattr__(self, name: str) -> Any:
        number = vars(self).get(LENT)
        if number is None or name.startswith("_"):
            raise AttributeError(name)
        return self._farm_home.ask({"ask": "get", "n": number, "name": name})


def likeness(home: Asker, number: int, name: str, base: type, fields: list[str] | None) -> type:
    """Make the twin of a class of the tests that extends `base`, a plain type."""
    plain = base if fields is None else collections.namedtuple(name, fields, rename=True)
    return type(name, (Likeness, plain), {LENT_CLASS: number, "_farm_home": home})


def error_class(home: Asker, number: int, name: str, bases: tuple[type, ...]) -> type:
    """Make the twin of an exception class of the tests; what one has besides, they are asked."""

    def attribute(self: BaseException, wanted: str) -> Any:
        own = vars(self).get(LENT)
        if own is None or wanted.startswith("_"):
            raise AttributeError(wanted)
        return home.ask({"ask": "get", "n": own, "name": wanted})

    return type(name, bases, {LENT_CLASS: number, "__getattr__": attribute})


THINGS = (Callback, Foreign, Likeness, Stream)
