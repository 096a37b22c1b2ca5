"""Values of classes that extend a plain one: what of the class such a value keeps.

A value is plain in every operator with plain data, whatever its class says, since that is how
tests compare. What the class writes of itself (`repr`, `str`) or says of one value alone (`len`,
iteration, `abs`) tells the program nothing, and an operator between two of the program's own gets
nothing of the tests: these are the class's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from farm.sandbox.known import steers_a_library

PLAIN = (int, float, str, tuple, bytes, complex, frozenset)
_WRITTEN = {"__repr__": "repr", "__str__": "str", "__format__": "format"}
_COMPARED = {f"__{name}__": name for name in ("eq", "ne", "lt", "le", "gt", "ge")}
RECKONED = {
    f"__{name}__": name + "_" if name in ("and", "or") else name
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul",
        "lshift", "rshift", "divmod",
    )
}  # fmt: skip
# What is asked of one value alone, or of it and a place in it: no answer can depend on what the
# tests compare it with.
_ALONE = {
    f"__{name}__": name
    for name in (
        "call", "len", "iter", "reversed", "getitem", "bool", "int", "float", "round", "abs",
        "neg", "pos", "invert",
    )
}  # fmt: skip
ASKED_FOR = (*_WRITTEN, *_COMPARED, *RECKONED, *_ALONE, "__contains__")


class Reference:
    """An object of the program, named by its number, on the way out."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Asker(Protocol):
    """What a value needs of its conversation."""

    trust: set[str]

    def operate(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the candidate apply one of its operations."""

    def contains(self, holder: Any, value: Any) -> bool | None:
        """Ask an object what it contains; None when it is not to be asked."""


def is_of_the_program(value: object) -> bool:
    """Say whether a value is one of the program's objects, whatever it says of itself."""
    return hasattr(type(value), "_farm_number")  # not the object, which may claim anything


def number_of(value: object) -> int:
    """Return the program's number for one of its objects."""
    return int(object.__getattribute__(value, "_farm_number"))


def value_class(session: Asker, name: str, base: type, has: frozenset[str], *, kind: int) -> type:
    """Make the class of the values of the program's class number `kind`; number each of them."""

    def attribute(self: Any, wanted: str) -> Any:
        if steers_a_library(wanted):
            raise AttributeError(wanted)
        return session.operate("getattr", Reference(number_of(self)), wanted)

    members: dict[str, Any] = {"__getattr__": attribute, "_farm_number": -1, "_farm_class": kind}
    for method, operation in _WRITTEN.items():
        if f"own {method}" in has:
            members[method] = _written(session, operation)
    for known, mark in ((_COMPARED, "remote_order"), (RECKONED, "remote_arithmetic")):
        for method, operation in known.items():
            if f"own {method}" in has:
                said = "remote_eq" if operation in ("eq", "ne") else mark
                members[method] = _between(session, operation, method, base, said)
    for method, operation in _ALONE.items():
        if f"own {method}" in has:
            members[method] = _asked(session, operation)
    if "own __contains__" in has:
        members["__contains__"] = _holds(session, base)
    if "__eq__" in members:
        members["__hash__"] = base.__hash__
    return type(name.replace("\0", "") or "value", (base,), members)


def _written(session: Asker, operation: str) -> Callable[..., str]:
    def method(self: Any, *style: str) -> str:
        return str(session.operate(operation, Reference(number_of(self)), *style))

    return method


def _asked(session: Asker, operation: str) -> Callable[..., Any]:
    def method(self: Any, /, *arguments: Any, **named: Any) -> Any:
        return session.operate(operation, Reference(number_of(self)), *arguments, **named)

    return method


def _holds(session: Asker, base: type) -> Callable[..., bool]:
    """Ask a value of a class that the tests name what it holds, else look what is in it."""
    plain = getattr(base, "__contains__", None)

    def method(self: Any, value: Any) -> bool:
        answer = session.contains(self, value)
        if answer is None and plain is None:
            raise TypeError("an object of a class that the tests do not name holds nothing")
        return bool(plain(self, value)) if answer is None and plain is not None else bool(answer)

    return method


def _between(
    session: Asker, operation: str, name: str, base: type, mark: str
) -> Callable[..., Any]:
    """Apply the class's operator between two of the program's objects, else the plain one."""
    plain = getattr(base, name, None)

    def method(self: Any, other: Any) -> Any:
        if is_of_the_program(other):
            session.trust.add(mark)
            return session.operate(operation, self, other)
        return NotImplemented if plain is None else plain(self, other)

    return method
