"""What the tests lend the program: their functions, and objects of their own classes."""

from __future__ import annotations

from typing import Any, Protocol

from farm.sandbox.frames import Message
from farm.sandbox.plain import Json

LENT = "_farm_number"  # on an exception of the tests that passes through the program
LENT_CLASS = "_farm_class"


class Asker(Protocol):
    """What a lent thing needs of the candidate it was lent to."""

    def ask(self, request: Message) -> Any:
        """Ask the tester for something only it has."""

    def pack(self, value: Any) -> Json:
        """Pack a value for a request."""


class Callback:
    """A function of the tests that was handed to the program."""

    __slots__ = ("_home", "_number")

    def __init__(self, home: Asker, number: int) -> None:
        self._home = home
        self._number = number

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        home = self._home
        packed = [home.pack(part) for part in arguments]
        also = {key: home.pack(part) for key, part in named.items()}
        return home.ask({"ask": "call", "n": self._number, "a": packed, "k": also})


class Foreign:
    """An object of a class the tests define: its public attributes can be read and set."""

    __slots__ = ("_home", "_number")

    def __init__(self, home: Asker, number: int) -> None:
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        return self._home.ask({"ask": "get", "n": self._number, "name": name})

    def __setattr__(self, name: str, value: Any) -> None:
        home = self._home
        home.ask({"ask": "set", "n": self._number, "name": name, "v": home.pack(value)})

    def __eq__(self, other: object) -> bool:
        return type(other) is Foreign and other._number == self._number

    def __hash__(self) -> int:
        return hash(self._number)


def error_class(home: Asker, number: int, name: str, bases: tuple[type, ...]) -> type:
    """Make the twin of an exception class of the tests; what one has besides, they are asked."""

    def attribute(self: BaseException, wanted: str) -> Any:
        own = vars(self).get(LENT)
        if own is None or wanted.startswith("_"):
            raise AttributeError(wanted)
        return home.ask({"ask": "get", "n": own, "name": wanted})

    return type(name, bases, {LENT_CLASS: number, "__getattr__": attribute})
