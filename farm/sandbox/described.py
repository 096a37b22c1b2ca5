"""What a tester is told of a program's classes, and the plain part of what extends a plain type."""

from __future__ import annotations

import types
from typing import Any

from farm.sandbox import rare, values
from farm.sandbox.plain import Json

# Methods a stand-in has only if the object's class has them, so that `callable`, `len` and
# iteration answer for the tester as they would for the object itself.
ASKED_FOR = (
    "__call__", "__len__", "__iter__", "__next__", "__getitem__", "__setitem__", "__delitem__",
    "__contains__", "__bool__", "__hash__", "__int__", "__float__", "__index__", "__abs__",
    "__round__", "__reversed__", "__neg__", "__pos__", "__invert__", "__await__", "__aiter__",
    "__anext__", "__enter__", "__aenter__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__",
    "__divmod__", "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__",
    "__pow__", "__and__", "__or__", "__xor__", "__matmul__", "__lshift__", "__rshift__",
    "__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rfloordiv__", "__rmod__", "__rpow__",
    "__rand__", "__ror__", "__rxor__", "__iadd__", "__isub__", "__imul__", "__itruediv__",
    "__ifloordiv__", "__imod__", "__ipow__", "__iand__", "__ior__", "__ixor__",
)  # fmt: skip
CONTAINERS = (list, dict, set, bytearray)
# All that is ever told of a class.
TOLD = frozenset(
    (
        *ASKED_FOR,
        "unhashable",
        "coroutine",
        "judges instances",
        *(f"holds {base.__name__}" for base in CONTAINERS),
        *(f"inherits {name}" for name in ASKED_FOR),
        *(f"own {name}" for name in values.ASKED_FOR),
    )
)


def _describe(kind: type) -> Json:
    family = [vars(parent) for parent in type.mro(kind)[:-1]]
    has = [name for name in ASKED_FOR if any(name in names for names in family)]
    if any("__hash__" in names and names["__hash__"] is None for names in family[:1]):
        has.append("unhashable")
    if kind is types.CoroutineType:
        has.append("coroutine")
    if issubclass(kind, type) and judges_instances(kind):
        has.append("judges instances")
    for base in CONTAINERS:
        if issubclass(kind, base):
            has.append(f"holds {base.__name__}")
            has += [f"inherits {name}" for name in has if is_inherited(kind, name)]
    if issubclass(kind, values.PLAIN):
        defined = [name for name in values.ASKED_FOR if any(name in names for names in family)]
        has += [f"own {name}" for name in defined if not is_inherited(kind, name)]
    return {"name": kind.__name__, "has": has}


def judges_instances(kind: type) -> bool:
    """Say whether a metaclass has a word of its own on what is an instance, or is a subclass."""
    return any(
        name in vars(parent) and parent.__module__ not in ("builtins", "abc", "typing", "enum")
        for parent in type.mro(kind)
        for name in ("__instancecheck__", "__subclasscheck__")
    )


def is_instance(value: object, kind: Any) -> bool:
    """Answer `isinstance` by an object's own class, whatever class it claims to be of."""
    if not isinstance(value, kind):
        return False
    return value.__class__ is type(value) or issubclass(type(value), kind)


def is_inherited(kind: type, name: str) -> bool:
    """Say whether a method of a class that extends one of Python's is Python's own."""
    first = next((parent for parent in type.mro(kind) if name in vars(parent)), None)
    return first is not None and first.__module__ == "builtins"


# What nearly every program has objects of is described before the fork.
_DESCRIBED: dict[type, Json] = {
    kind: _describe(kind)
    for kind in (
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType, type,
    )
}  # fmt: skip


def of(kind: type) -> Json:
    """Return what a tester needs to know of a class to stand in for its objects."""
    return _DESCRIBED.get(kind) or _describe(kind)


class Subscriptable(type):
    """Stands, in what a tester is told, for the class of classes that take a subscript."""

    def __getitem__(cls, part: object) -> object:  # only that there is one is told
        raise NotImplementedError


def plain_part(value: Any) -> Any:
    """Return the value a subclass of a plain type carries, without anything the subclass says."""
    for base in (*values.PLAIN, *CONTAINERS):
        if issubclass(type(value), base):
            if base in (tuple, list, set, frozenset):
                return base(base.__iter__(value))
            if base is dict:
                return dict(dict.items(value))
            if base is str:
                return str.__str__(value)
            if base is int:
                return int.__add__(value, 0)
            if base is float:
                return float.__mul__(value, 1.0)  # keeps the sign of zero
            return base(value)
    return rare.pure_path(value) if rare.is_a_path(type(value)) else None
