"""Stand-ins for the program's objects: what can be done with one, and what it refuses.

What a stand-in must never do is let the program decide how it compares with data of the tests:
an object is not equal to plain data whatever its `__eq__` says, and does not turn arithmetic
with plain data into plain data. A stand-in has exactly the special methods that the object's
class has, so `callable`, `len` and iteration answer as they would for the object itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from farm.sandbox.described import CONTAINERS
from farm.sandbox.known import steers_a_library
from farm.sandbox.raised import RaisedByProgram
from farm.sandbox.values import RECKONED


class Asker(Protocol):
    """What a stand-in needs of the conversation it belongs to; `remote.Session` has it."""

    trust: set[str]

    def operate(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the candidate apply one of its operations."""

    def plain(self, value: Remote) -> Any:
        """Fetch the contents of an object whose class extends a plain container."""

    def compare(self, operation: str, left: Remote, right: Remote) -> bool:
        """Compare two objects by the program's own operator."""

    def contains(self, holder: Remote, value: Any) -> bool | None:
        """Ask an object what it contains; None when it is not to be asked."""

    def arithmetic(self, operation: str, *operands: Any) -> Any:
        """Apply an operator of the program's."""

    def is_instance(self, value: object, kind: Remote) -> bool:
        """Answer `isinstance` with a class of the program."""

    def is_subclass(self, kind: type, parent: Remote) -> bool:
        """Answer `issubclass` with a class of the program."""

    def class_has(self, number: int, name: str) -> bool:
        """Say whether objects of a class have a method."""


class Remote:
    """Base of all stand-ins; what else they can do depends on the object's class.

    Its own attributes have names that no program's object has: all others are the object's.
    """

    __slots__ = (
        "__weakref__",
        "_farm_class",
        "_farm_holds",
        "_farm_mixed",
        "_farm_number",
        "_farm_session",
    )
    _farm_class: int
    _farm_holds: bool
    _farm_mixed: bool
    _farm_number: int
    _farm_session: Asker

    def __init__(self, session: Asker, number: int, kind: int, *, holds: bool) -> None:
        set_own = object.__setattr__
        set_own(self, "_farm_session", session)
        set_own(self, "_farm_number", number)
        set_own(self, "_farm_class", kind)
        # of a class that extends a container: its contents can be fetched
        set_own(self, "_farm_holds", holds)
        # came out of arithmetic with data of the tests
        set_own(self, "_farm_mixed", False)

    def __getattr__(self, name: str) -> Any:
        if steers_a_library(name):
            raise AttributeError(name)
        return self._farm_session.operate("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._farm_session.operate("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._farm_session.operate("delattr", self, name)

    def __str__(self) -> str:
        _refuse_mixed(self)
        return str(self._farm_session.operate("str", self))

    def __repr__(self) -> str:
        _refuse_mixed(self)
        return str(self._farm_session.operate("repr", self))

    def __format__(self, style: str) -> str:
        _refuse_mixed(self)
        return str(self._farm_session.operate("format", self, style))

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._farm_session.operate("getattr", self, "__dict__")]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if self._farm_holds and not isinstance(other, Remote):
            _refuse_mixed(self)
            return bool(self._farm_session.plain(self) == other)
        return isinstance(other, Remote) and self._farm_session.compare("eq", self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        _refuse_mixed(self)
        return int(self._farm_session.operate("hash", self))

    def __copy__(self) -> Any:
        return self._farm_session.operate("copy", self)

    def __deepcopy__(self, memo: object) -> Any:
        return self._farm_session.operate("deepcopy", self)

    def __instancecheck__(self, value: object) -> bool:
        return self._farm_session.is_instance(value, self)

    def __subclasscheck__(self, kind: type) -> bool:
        return self._farm_session.is_subclass(kind, self)


def _refuse_mixed(stand_in: Remote) -> None:
    """Give no plain data out of an object that data of the tests has gone into."""
    if stand_in._farm_mixed:
        raise TypeError("an object made by arithmetic with plain data gives no plain data")


def _forward(operation: str) -> Callable[..., Any]:
    def method(self: Remote, /, *arguments: Any, **named: Any) -> Any:
        return self._farm_session.operate(operation, self, *arguments, **named)

    return method


def _forward_iteration(operation: str) -> Callable[..., Any]:
    def method(self: Remote) -> Any:
        _refuse_mixed(self)
        found = self._farm_session.operate(operation, self)
        return found if isinstance(found, Remote) else iter(found)

    return method


def _forward_number(operation: str) -> Callable[..., Any]:
    def method(self: Remote, *arguments: Any) -> Any:
        _refuse_mixed(self)
        return self._farm_session.operate(operation, self, *arguments)

    return method


def _operator(operation: str, *, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Remote, other: Any, *rest: Any) -> Any:
        operands = (other, self) if reflected else (self, other)
        return self._farm_session.arithmetic(operation, *operands, *rest)

    return method


def _own_operator(operation: str, *, reflected: bool = False) -> Callable[..., Any]:
    """Apply, here and to the contents, an operator a subclass of a container has from Python."""
    apply = getattr(operator, operation)

    def method(self: Remote, other: Any) -> Any:
        _refuse_mixed(self)
        theirs = self._farm_session.plain(other) if isinstance(other, Remote) else other
        mine = self._farm_session.plain(self)
        return apply(theirs, mine) if reflected else apply(mine, theirs)

    return method


def _own_change(operation: str) -> Callable[..., Any]:
    """Have a container change itself by an operator that its class has from Python.

    What is in it then is data of the tests, returned by the program.
    """

    def method(self: Remote, other: Any) -> Any:
        self._farm_session.trust.add("remote_arithmetic")
        if self._farm_session.operate(operation, self, other) is not self:
            raise TypeError("an operator that changes an object gave another")
        return self

    return method


def _ask_for(name: str) -> property:
    """Ask for an attribute that every class of ours has too, so that it would not be missed."""
    return property(lambda self: self._farm_session.operate("getattr", self, name))


def _be(kind: type, _: Remote) -> type:
    return kind


def _ordering(operation: str) -> Callable[..., Any]:
    def method(self: Remote, other: Any) -> bool:
        if not isinstance(other, Remote):
            raise TypeError("an object of the program has no order with plain data")
        return self._farm_session.compare(operation, self, other)

    return method


def _contains(self: Remote, value: Any) -> bool:
    _refuse_mixed(self)
    session = self._farm_session
    answer = session.contains(self, value)
    if answer is not None:
        return answer
    if not session.class_has(self._farm_class, "__iter__"):
        raise TypeError("an object of a class that the tests do not name cannot say what it holds")
    return any(part is value or part == value for part in iter(self))


def is_a_verdict(error: BaseException) -> bool:
    """Say whether an error is a failed assertion of the tests' own, which only they may catch."""
    if isinstance(error, RaisedByProgram):
        return False
    return isinstance(error, AssertionError) or type(error).__module__ == "_pytest.outcomes"


def _wait(self: Remote) -> Any:
    yield from ()
    return self._farm_session.operate("await", self)


def _enter(self: Remote) -> Any:
    return self._farm_session.operate("getattr", self, "__enter__")()


def _leave(
    self: Remote, kind: object = None, error: BaseException | None = None, trace: object = None
) -> Any:
    if error is not None:
        swallowed = self._farm_session.operate("leave", self, error)
        if not swallowed or is_a_verdict(error):
            return False
        self._farm_session.trust.add("remote_exit")
        return True
    return self._farm_session.operate("getattr", self, "__exit__")(None, None, None)


async def _enter_async(self: Remote) -> Any:
    return await self._farm_session.operate("getattr", self, "__aenter__")()


async def _leave_async(
    self: Remote, kind: object = None, error: BaseException | None = None, trace: object = None
) -> bool:
    await self._farm_session.operate("getattr", self, "__aexit__")(None, None, None)
    return False  # it is not told of the error, and has none to swallow


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _forward("call"),
    "__len__": _forward_number("len"),
    "__iter__": _forward_iteration("iter"),
    "__reversed__": _forward_iteration("reversed"),
    "__next__": _forward_number("next"),
    "__getitem__": _forward_number("getitem"),
    "__setitem__": _forward("setitem"),
    "__delitem__": _forward("delitem"),
    "__contains__": _contains,
    "__bool__": _forward_number("bool"),
    "__await__": _wait,
    "__aiter__": _forward("aiter"),
    "__anext__": _forward("anext"),
    "__enter__": _enter,
    "__aenter__": _enter_async,
    **{f"__{name}__": _forward_number(name) for name in ("int", "float", "index", "round", "abs")},
    **{f"__{name}__": _forward_number(name) for name in ("neg", "pos", "invert")},
    **{f"__{name}__": _ordering(name) for name in ("lt", "le", "gt", "ge")},
}
for _method, _asked in RECKONED.items():
    _METHODS[_method] = _operator(_asked)
    _METHODS[f"__r{_method.strip('_')}__"] = _operator(_asked, reflected=True)


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
_METHODS |= {f"__i{name}__": _operator("i" + name) for name in _IN_PLACE}
_OWN_OPERATORS = {
    f"__{reflected}{name}__": _own_operator(
        name + "_" if name in ("and", "or") else name, reflected=bool(reflected)
    )
    for name in ("add", "mul", "sub", "and", "or", "xor")
    for reflected in ("", "r")
}
_OWN_OPERATORS |= {f"__i{name}__": _own_change("i" + name) for name in _IN_PLACE}
_ASKED_ALWAYS = {name: _ask_for(name) for name in ("__doc__", "__module__", "__annotations__")}
_CONTAINERS = {kind.__name__: kind for kind in CONTAINERS}


_STAND_INS: dict[frozenset[str], type] = {}
_MOST_STAND_INS = 500  # kept from one program to the next


def stand_in(has: frozenset[str]) -> type:
    """Return the class of stand-ins that have exactly the methods named."""
    if has not in _STAND_INS:
        if len(_STAND_INS) == _MOST_STAND_INS:  # honest programs have a dozen
            _STAND_INS.clear()
        members: dict[str, Any] = {name: _METHODS[name] for name in has if name in _METHODS}
        members |= _ASKED_ALWAYS
        for name, method in _OWN_OPERATORS.items():
            if f"inherits {name}" in has:
                members[name] = method
        for name, kind in _CONTAINERS.items():
            if f"holds {name}" in has:  # isinstance(it, list) holds of the object itself too
                members["__class__"] = property(partial(_be, kind))
        if "__enter__" in has:
            members["__exit__"] = _leave
        if "__aenter__" in has:
            members["__aexit__"] = _leave_async
        if "unhashable" in has:
            members["__hash__"] = None
        members["__slots__"] = ()
        _STAND_INS[has] = type("Remote", (Remote,), members)
    return _STAND_INS[has]
