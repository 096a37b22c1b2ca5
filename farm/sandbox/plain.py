"""Plain values in transit: what crosses between candidate and tester, and stays shared.

Numbers, text and other immutable values cross by value. A mutable container crosses once and
from then on has a number on both sides: every message carries what has changed in the shared
containers since the last one, so that sorting an argument in place, returning the argument
itself, and lists inside lists inside themselves behave as they would in one process.

Containers travel as a flat table of contents, never nested, so depth costs no recursion.
Everything else (objects, functions, modules) is left to the side that owns it: `export` turns
it into a tagged reference, `adopt` turns a foreign reference into a stand-in.
"""

from __future__ import annotations

import base64
import collections
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

from farm.sandbox import rare, same
from farm.sandbox.frames import Message, PeerBroke

Json = Any  # what json.loads gives: checked where it is used

_KINDS: dict[str, Callable[[], Any]] = {
    "list": list,
    "dict": dict,
    "set": set,
    "bytearray": bytearray,
    "deque": collections.deque,
    "Counter": collections.Counter,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": collections.defaultdict,
}
_NAMES: dict[type, str] = {kind: name for name, kind in _KINDS.items() if isinstance(kind, type)}
SHARED = (collections.defaultdict, collections.OrderedDict, collections.Counter, *map(type, (
    [], {}, set(), bytearray(), collections.deque(),
)))  # fmt: skip
_IN_PAIRS = frozenset({"dict", "Counter", "OrderedDict", "defaultdict"})
_EXACT_IN_JSON = 1 << 53
_LONG = 16
_SAME_IN_JSON = frozenset({bool, str, type(None)})
_PLAIN_JSON = frozenset({bool, str, int, float, type(None)})
# In one message; a longer table would only keep both sides busy until the time is over.
_MOST_CONTAINERS = 100_000
# Python itself compares no deeper than its recursion limit, a thousand by default.
_DEEPEST = 2000


def contents(kind: str, container: Any) -> list[Any]:
    """Return what a container holds, one level deep; keys and values in turn for mappings."""
    if kind in _IN_PAIRS:
        return [part for pair in container.items() for part in pair]
    if kind == "bytearray":
        return [bytes(container)]
    return list(container)


def fill(kind: str, container: Any, parts: list[Any], kept: int = 0) -> None:
    """Make a container hold exactly `parts`, behind its first `kept`, keeping the object itself."""
    if kept and kind != "list":
        raise PeerBroke("only a list is told by its end")
    if kind in ("list", "bytearray"):
        container[kept:] = parts if kind == "list" else parts[0]
    elif kind in _IN_PAIRS:
        container.clear()
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            container[key] = value
    else:
        container.clear()
        if kind == "set":
            container.update(parts)
        else:
            container.extend(parts)


class Traffic:
    """One side's book of shared containers, and the packing and unpacking of values.

    `first` is 0 on one side and 1 on the other, so that numbers given by both never meet.
    """

    def __init__(
        self, first: int, *, export: Callable[[Any], Json], adopt: Callable[[Json], Any]
    ) -> None:
        self._next = first
        self._export = export
        self._adopt = adopt
        self._shared: dict[int, Any] = {}
        self._kind: dict[int, str] = {}
        self._last: dict[int, list[Any]] = {}
        self._number: dict[int, int] = {}
        self._fresh: list[tuple[int, int]] = []  # number, levels below the value itself
        self._level = 0
        self._shared[-1] = []
        self._unused_count = sys.getrefcount(self._shared[-1])
        del self._shared[-1]

    # --- going out

    def pack(self, value: Any) -> Json:
        """Turn a value into JSON; containers become references to the book."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return (
                value if -_EXACT_IN_JSON < value < _EXACT_IN_JSON else rare.tagged("i", hex(value))
            )
        if kind is float:
            return value if value - value == 0 else rare.tagged("f", repr(value))
        if kind in _NAMES:
            return rare.tagged("r", self._share(value, _NAMES[kind]))
        if kind is tuple or kind is frozenset:
            return rare.tagged(kind.__name__, [self.pack(part) for part in value])
        if kind is bytes:
            return rare.tagged("bytes", base64.b64encode(value).decode("ascii"))
        if kind is complex:
            return rare.tagged("complex", [repr(value.real), repr(value.imag)])
        if kind is range or kind is slice:
            ends = (value.start, value.stop, value.step)
            return rare.tagged(kind.__name__, [self.pack(end) for end in ends])
        seldom = rare.pack(value, self.pack)
        return self._export(value) if seldom is None else seldom

    def share(self, container: Any, kind: type) -> Json:
        """Pack a container of a class that extends one of `SHARED` as that."""
        return rare.tagged("r", self._share(container, _NAMES[kind]))

    def _pack_all(self, parts: list[Any]) -> list[Json]:
        """Pack the contents of a container; long ones of plain JSON go as they are."""
        if len(parts) > _LONG:
            kinds = set(map(type, parts))
            if kinds <= _SAME_IN_JSON:
                return parts
            if kinds == {int} and min(parts) > -_EXACT_IN_JSON and max(parts) < _EXACT_IN_JSON:
                return parts
        return [self.pack(part) for part in parts]

    def _unpack_all(self, parts: Json) -> list[Any]:
        if len(parts) > _LONG and set(map(type, parts)) <= _PLAIN_JSON:
            return list(parts)
        return [self.unpack(part) for part in parts]

    def _share(self, container: Any, kind: str) -> int:
        number = self._number.get(id(container))
        if number is None:
            number = self._next
            self._next += 2
            self._enter(number, kind, container)
            self._fresh.append((number, self._level))
        return number

    def _enter(self, number: int, kind: str, container: Any) -> None:
        self._shared[number] = container
        self._kind[number] = kind
        self._number[id(container)] = number

    def seal(self, message: Message, *, forget: bool) -> Message:
        """Add to a packed message what its reader must know about containers.

        With `forget`, containers nobody on this side holds any more leave both books, after
        their last changes were told. The caller keeps what the message itself refers to.
        """
        changed = [entry for number in list(self._last) if (entry := self._change_of(number))]
        if forget and self._last:
            message["drop"] = self._drop_unused()
        fresh: list[Json] = []
        while self._fresh:  # packing one container may find others inside
            number, level = self._fresh.pop()
            if len(fresh) >= _MOST_CONTAINERS or level > _DEEPEST:
                self._fresh.clear()
                self._level = 0
                raise PeerBroke(
                    f"a value holds more than {_MOST_CONTAINERS} containers "
                    f"or more than {_DEEPEST} of them inside each other"
                )
            self._level = level + 1
            container = self._shared[number]
            kind = self._kind[number]
            now = self._last[number] = contents(kind, container)
            fresh.append([number, kind, self._extra(kind, container), self._pack_all(now)])
        self._level = 0
        if changed:
            message["changed"] = changed
        if fresh:
            message["fresh"] = fresh
        return message

    def _extra(self, kind: str, container: Any) -> Json:
        """Return what a container has besides contents: the longest a deque gets, a factory."""
        if kind == "deque":
            return container.maxlen
        return self.pack(container.default_factory) if kind == "defaultdict" else None

    def _change_of(self, number: int) -> list[Json] | None:
        """Return what a container's change is told by: the parts behind the first it keeps."""
        kind, before = self._kind[number], self._last[number]
        if kind == "list":
            mine: list[Any] = self._shared[number]
            kept = same.leading(mine, before)
            if kept == len(mine) == len(before):
                return None
            del before[kept:]
            before += mine[kept:]
            return [number, self._pack_all(before[kept:]), kept]
        now = contents(kind, self._shared[number])
        if kind == "bytearray":
            unchanged = now == before
        else:  # parts are immutable or numbered themselves: identity tells
            unchanged = len(now) == len(before) and all(map(operator.is_, now, before))
        self._last[number] = now
        return None if unchanged else [number, self._pack_all(now), 0]

    def _drop_unused(self) -> list[int]:
        dropped: list[int] = []
        for number in list(self._last):  # containers being told of have no entry there yet
            if sys.getrefcount(self._shared[number]) <= self._unused_count:
                dropped.append(number)
                self.forget(number)
        return dropped

    def forget(self, number: int) -> None:
        """Strike a container from this side's book; the tester decides when."""
        container = self._shared.pop(number, None)
        self._number.pop(id(container), None)
        self._kind.pop(number, None)
        self._last.pop(number, None)

    # --- coming in

    def unseal(self, message: Message) -> None:
        """Bring this side's containers up to date; a malformed table raises `PeerBroke`."""
        fresh = _listed(message.get("fresh"))
        filled: list[tuple[int, Json, int]] = []
        for number, kind, extra, parts in fresh:
            mine = type(number) is not int or number % 2 == self._next % 2
            if mine or number in self._shared or kind not in _KINDS:
                raise PeerBroke("a container's number is not the peer's to give, or its kind odd")
            made: Any = collections.deque(maxlen=extra) if kind == "deque" else _KINDS[kind]()
            if kind == "defaultdict":
                made.default_factory = self.unpack(extra)
            self._enter(number, kind, made)
            filled.append((number, parts, 0))
        for number, parts, kept in _listed(message.get("changed")):
            if type(kept) is not int or kept < 0:
                raise PeerBroke("a change keeps no such part of a container")
            filled.append((number, parts, kept))
        for number, parts, kept in filled:
            fill(self._kind[number], self._shared[number], self._unpack_all(parts), kept)
        for number, _, kept in filled:
            # taken after all are filled: from here on changes are this side's own
            now = self._shared[number]
            if kept and number in self._last:
                self._last[number][kept:] = now[kept:]
            else:
                self._last[number] = contents(self._kind[number], now)

    def unpack(self, packed: Json) -> Any:
        """Turn JSON back into a value; what is no value's form raises."""
        if packed is None or type(packed) in (bool, str, int, float):
            return packed
        if type(packed) is not dict:
            raise PeerBroke("a value is of no known form")
        tag: Any = packed.get("t")
        body: Any = packed.get("v")
        if tag == "r":
            return self._shared[body]
        if tag == "i":
            return int(body, 16)
        if tag == "f":
            return float(body)
        if tag == "tuple":
            return tuple([self.unpack(part) for part in body])
        if tag == "frozenset":
            return frozenset([self.unpack(part) for part in body])
        if tag == "bytes":
            return base64.b64decode(body)
        if tag == "complex":
            return complex(float(body[0]), float(body[1]))
        if tag == "range":
            return range(*[self.unpack(end) for end in body])
        if tag == "slice":
            return slice(*[self.unpack(end) for end in body])
        if tag in rare.MAKERS:
            return rare.MAKERS[tag](*[self.unpack(part) for part in body])
        return self._adopt(packed)


def _listed(table: object) -> Iterable[Any]:
    if table is None:
        return ()
    if type(table) is not list:
        raise PeerBroke("a table is not a list")
    return table
