"""The program's side of what the tests lend: one thing here for each of theirs, and back again.

What a thing is here is in `lent`; `loans` is the tests' side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farm.sandbox import lent
from farm.sandbox.described import plain_part
from farm.sandbox.plain import Json, Traffic

_SIMPLE = {"callback": lent.Callback, "function": lent.Function, "stream": lent.Stream}
LENDING = frozenset((*_SIMPLE, "foreign", "like", "error class", "raised"))


class Borrowed:
    """The book of what one program was lent; `adopt` is for references inside references."""

    def __init__(self, home: lent.Asker, traffic: Traffic, adopt: Callable[[Json], Any]) -> None:
        self._home = home
        self._traffic = traffic
        self._adopt = adopt
        self._things: dict[int, Any] = {}
        self._twins: dict[int, type] = {}  # of the tests' classes that extend plain types

    def take(self, reference: Json) -> Any:
        """Return the thing that a reference of one of the `LENDING` tags stands for."""
        number = reference["v"]
        if number not in self._things:
            self._things[number] = self._made(reference["t"], number, reference)
        return self._things[number]

    def _made(self, tag: str, number: int, reference: Json) -> Any:
        if tag == "error class":
            bases = tuple([self._adopt(one) for one in reference["bases"]])
            return lent.error_class(self._home, number, reference["name"], bases)
        if tag == "raised":
            return self._raised(number, reference)
        if tag == "like":
            return self._likened(number, reference)
        if tag == "foreign":
            return lent.foreign_class(frozenset(reference.get("has", ())))(self._home, number)
        return _SIMPLE[tag](self._home, number)

    def _raised(self, number: int, reference: Json) -> Any:
        kind, arguments = self._adopt(reference["kind"]), self._traffic.unpack(reference["a"])
        try:
            made = kind(*arguments)
        except Exception:  # noqa: BLE001  # it may take other arguments than its parent
            made = kind.__new__(kind, *arguments)
        made.__dict__[lent.LENT] = number
        return made

    def _likened(self, number: int, reference: Json) -> Any:
        """Make the twin of an object of the tests that is plain data of a class of their own."""
        plain: Any = self._traffic.unpack(reference["base"])
        base, of = type(plain), reference["kind"]
        if of not in self._twins:
            name, fields = reference["name"], reference["fields"]
            self._twins[of] = lent.likeness(self._home, of, name, base, fields)
        made: Any = base.__new__(self._twins[of], plain)
        made.__dict__[lent.LENT] = number
        return made

    def give_back(self, value: Any, kind: type) -> Json:
        """Return the reference to a thing of the tests, or to what was made in its likeness."""
        if not issubclass(kind, lent.Likeness):
            return {"t": "own", "v": object.__getattribute__(value, "_number")}
        if lent.LENT in vars(value):
            return {"t": "own", "v": vars(value)[lent.LENT]}
        plain = self._traffic.pack(plain_part(value))
        if hasattr(kind, "_fields"):
            return {"t": "remade", "v": vars(kind)[lent.LENT_CLASS], "base": plain}
        return plain
