"""One conversation with one candidate, as the tester leads it.

Turns what the tests do with the program's objects into requests, has what the program asks back
answered (see `loans`), and keeps the record of what a verdict took the program's word for.
"""

from __future__ import annotations

import _thread
import builtins
import importlib
import os
import sys
import types
from typing import Any

from farm.sandbox.described import TOLD
from farm.sandbox.frames import Line, Message, PeerBroke, PeerGone, Severed, TooMuch
from farm.sandbox.known import NO_NAME_OF_ITS_OWN, is_pure, module_meant
from farm.sandbox.loans import Loans
from farm.sandbox.plain import Json, Traffic
from farm.sandbox.raised import Ancestries, RaisedByProgram, rebuilt
from farm.sandbox.standins import Remote, stand_in
from farm.sandbox.values import PLAIN, Reference, is_of_the_program, number_of, value_class

_DECOYS = 3
_LONGEST_NAME = 200
_MOST_CLASSES = 10_000
# What Python asks in the middle of comparing containers, which must not change under its hands.
_QUIET = frozenset(("plain", "hash", "isinstance", "issubclass", "type"))
# What a message that is not one makes the reading of it raise.
_MALFORMED = (
    TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


class NotReady(Exception):
    """The candidate process was not set up; nothing of the program has run."""


class Session:
    """One conversation with one candidate; every method may raise `PeerGone` or `PeerBroke`."""

    def __init__(self, source: int, target: int) -> None:
        self._line = Line(source, target)
        self._traffic = Traffic(0, export=self._export, adopt=self._adopt)
        self._turn = _thread.RLock()
        self._loans = Loans(self._traffic, self._export)
        self._classes: list[tuple[str, frozenset[str], type]] = []
        self._objects: dict[int, Remote] = {}
        self._value_classes: dict[tuple[int, type], type] = {}
        self._values: dict[int, Any] = {}  # values of plain subclasses, kept for identity
        self._ancestries = Ancestries(self, self._loans.error_class)
        self._promised: dict[str, Json] = {}
        self.trust: set[str] = set()
        self.borrowed = False  # whether a name of the program became a thing of this process
        self.severed: Severed | None = None  # what ended the conversation, caught or not
        self.expects_stop = False  # whether the assertions name StopIteration
        self.named_classes: set[int] = set()
        self._stdout = sys.stdout  # tests that put another in its place want what is printed

    # --- requests

    def request(self, message: Message) -> Json:
        """Send one request, answer what the program asks meanwhile, return the reply."""
        quiet = message["do"] in _QUIET
        try:
            self._send(message)
            while True:
                reply = self.receive(quiet=quiet)
                if "ask" not in reply:
                    break
                self._send(self._loans.answer(reply))
            if "much" in reply:
                raise TooMuch(str(reply["much"])[:200])
        except Severed as error:
            self.severed = error
            raise
        return reply

    def _send(self, message: Message) -> None:
        if sys.stdout is not self._stdout:
            message["capture"] = True
        self._line.send(self._traffic.seal(message, forget=True))

    def receive(self, *, quiet: bool = False) -> Json:
        """Wait for one message and take in what it says about classes and containers.

        A `quiet` one may not ask or change anything.
        """
        message: Json = self._line.receive()
        if quiet and ("ask" in message or message.get("changed")):
            raise PeerBroke("it changes or asks something while its values are compared")
        try:
            for told in message.get("classes", ()):
                if len(self._classes) == _MOST_CLASSES:
                    raise PeerBroke("it has objects of too many classes")
                # what is no method's name is nothing to keep
                has = frozenset(told["has"]) & TOLD
                self._classes.append((str(told["name"])[:_LONGEST_NAME], has, stand_in(has)))
            self._traffic.unseal(message)
        except _MALFORMED as error:
            raise PeerBroke(f"a message is malformed: {error}") from error
        if type(message.get("printed")) is str and sys.stdout is not self._stdout:
            sys.stdout.write(message["printed"])
        for name in message.get("broken", ()):
            self._promised.pop(name, None)
        return message

    def start(self, code: str, *, imports: str) -> None:
        """Ask for a program to be compiled and run, without waiting for the answers."""
        try:
            self._send({"do": "read", "code": code, "imports": imports})
            self._send({"do": "execute"})
        except PeerGone as error:
            raise NotReady(str(error)) from error

    def finish_start(self) -> Json:
        """Wait for the answers to `start`: a refusal to compile, or how running it ended."""
        try:
            ready = self.receive().get("ready") is True
        except Severed as error:
            raise NotReady(str(error)) from error
        if not ready:
            raise NotReady("the candidate's first word is not that it is ready")
        refusal = self.receive()
        if "syntax" in refusal or "denied" in refusal:
            return refusal
        reply = self.receive()
        names = reply.get("names")
        if type(names) is dict:
            self._promised = names
        return reply

    def begin(self, *, expects_stop: bool) -> None:
        """Begin another assertion, which may name StopIteration."""
        self._loans.failed, self.expects_stop = None, expects_stop

    @property
    def failed(self) -> BaseException | None:
        """An assertion of the tests' own that failed in what the program called."""
        return self._loans.failed

    def value_of(self, reply: Json, *, may_stop: bool = False) -> Any:
        """Return the value in a reply, or raise what the program raised.

        `StopIteration` only where iteration was asked for, or the assertions name it: `map` or
        `all` around a call would take it for an end of the tests' own data.
        """
        try:
            if "raised" in reply:
                raised = self._exception(reply)
            else:
                return self._traffic.unpack(reply["v"])
        except _MALFORMED as error:
            self.severed = PeerBroke(f"a reply is malformed: {error}")
            raise self.severed from error
        except Severed as error:
            self.severed = error
            raise
        if isinstance(raised, StopIteration) and not (may_stop or self.expects_stop):
            raise RuntimeError("the program raised StopIteration") from raised
        raise raised

    def operate(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the candidate apply one of its `OPERATIONS`; threads of the tests take turns."""
        with self._turn:
            pack = self._traffic.pack
            message: Message = {"do": operation, "a": [pack(part) for part in arguments]}
            if named:
                message["k"] = {key: pack(part) for key, part in named.items()}
            return self.value_of(self.request(message), may_stop=operation in ("next", "anext"))

    def plain(self, value: Remote) -> Any:
        """Fetch the contents of an object whose class extends a plain container."""
        return self.operate("plain", value)

    def compare(self, operation: str, left: Remote, right: Remote) -> bool:
        """Compare two objects by the program's own operator, and say so in `trust`."""
        self.trust.add("remote_eq" if operation == "eq" else "remote_order")
        return bool(self.operate(operation, left, right))

    def contains(self, holder: Any, value: Any) -> bool | None:
        """Ask an object whose class the assertions name and has its own answer; None for others.

        It is asked for values of another kind that nobody put in as well, in no order it could
        know: one that claims to hold those raises `TypeError`, whatever it would iterate over.
        """
        has = self._classes[holder._farm_class][1]
        if "__contains__" not in has or "inherits __contains__" in has:
            return None
        if holder._farm_class not in self.named_classes:
            return None
        # not of the value's own kind: an interval, or a language, may well hold any of those
        decoys = [os.urandom(8).hex() for _ in range(_DECOYS)]
        asked = [int(one, 16) if isinstance(value, str) else one for one in decoys]
        turn = int.from_bytes(os.urandom(1), "big") % (_DECOYS + 1)
        asked.insert(turn, value)
        answers = [self._claims(holder, one, believe=one is value) for one in asked]
        answer = answers.pop(turn)
        if any(answers):
            raise TypeError("an object that claims to contain anything is no container")
        self.trust.add("remote_contains")
        return answer

    def _claims(self, holder: Any, value: Any, *, believe: bool) -> bool:
        """Ask for one value; of one that it cannot even be asked for it claims nothing."""
        try:
            return bool(self.operate("contains", holder, value))
        except Exception:
            if believe:
                raise
            return False

    def arithmetic(self, operation: str, *operands: Any) -> Any:
        """Apply an operator; with plain operands only for classes the assertion names.

        The result then stays an object: plain data out of it would be data the tests handed
        over, returned.
        """
        remote = [part for part in operands if isinstance(part, Remote)]
        mixed = len(remote) < len(operands) or any(part._farm_mixed for part in remote)
        if mixed and not any(part._farm_class in self.named_classes for part in remote):
            raise TypeError("an object of the program has no arithmetic with plain data")
        self.trust.add("remote_arithmetic")
        result = self.operate(operation, *operands)
        if mixed:
            if not isinstance(result, Remote):
                raise TypeError(
                    "arithmetic of the program's object with plain data gave plain data"
                )
            object.__setattr__(result, "_farm_mixed", True)
        return result

    def is_instance(self, value: object, kind: Remote) -> bool:
        """Answer `isinstance` with a class of the program."""
        if is_of_the_program(value):
            return self._judged_by(kind, "isinstance", value)
        return False

    def is_subclass(self, kind: type, parent: Remote) -> bool:
        """Answer `issubclass` with a class of the program."""
        return self._judged_by(parent, "issubclass", kind)

    def _judged_by(self, kind: Remote, operation: str, value: object) -> bool:
        """Ask about a class, and say so in `trust` if its metaclass has a word in it."""
        if "judges instances" in self._classes[kind._farm_class][1]:
            self.trust.add("remote_instance")
        return bool(self.operate(operation, value, kind))

    def kind_of(self, value: Any) -> Any:
        """Answer `type(value)`: the program's class where the value is the program's."""
        if is_of_the_program(value):
            return self.operate("type", value)
        return type(value)

    def class_has(self, number: int, name: str) -> bool:
        """Say whether objects of a class have a method."""
        return name in self._classes[number][1]

    # --- references

    def _export(self, value: Any) -> Json:
        if type(value) is Reference:
            return {"t": "object", "v": value.number}
        if is_of_the_program(value):
            return {"t": "object", "v": number_of(value)}
        if isinstance(value, type) and "_program_class" in vars(value):
            return {"t": "class", "v": vars(value)["_program_class"]}
        name = getattr(value, "__name__", "")
        if type(name) is str and vars(builtins).get(name) is value:
            return {"t": "builtin", "v": name}
        if isinstance(value, types.ModuleType):
            return {"t": "module", "v": name}
        return self._loans.lend(value)

    def _adopt(self, reference: Json) -> Any:
        tag, body = reference.get("t"), reference.get("v")
        if type(body) is int and body >= 0:
            if tag == "own":
                return self._loans.thing(body)
            if tag == "remade":
                return self._loans.remade(body, self._traffic.unpack(reference["base"]))
            if tag == "object":
                return self._stand_in_for(body, reference)
        if tag == "builtin" and type(body) is str and is_pure(body):
            self.borrowed = True
            return vars(builtins)[body]
        raise PeerBroke(f"a reference to {str(tag)[:20]!r} is not one a program can make")

    def _stand_in_for(self, number: int, reference: Json) -> Any:
        if number in self._objects:
            return self._objects[number]
        if number in self._values:
            return self._values[number]
        if "error" in reference:
            error = self._values[number] = self._exception(reference["error"])
            return error
        if "raises" in reference:
            return self._ancestries.find(reference["raises"])
        kind = reference["c"]
        _, has, made_of = self._classes[kind]
        if "base" in reference:
            value = self._subclass_value(number, kind, self._traffic.unpack(reference["base"]))
            self._values[number] = value
            return value
        if "coroutine" in has:
            return self._coroutine(number)
        made: Remote = made_of(self, number, kind, holds="holds" in reference)
        self._objects[number] = made
        return made

    def look_up(self, name: str) -> Any:
        """Return a global of the program; raises `KeyError` when it has none of that name.

        A class found this way counts as named by the assertions.
        """
        with self._turn:
            return self._looked_up(name)

    def _looked_up(self, name: str) -> Any:
        packed = self._promised.get(name)
        if packed is None:
            reply = self.request({"do": "name", "name": name})
            if "missing" in reply:
                raise KeyError(name)
            value, packed = self.value_of(reply), reply["v"]
        else:
            value = self._traffic.unpack(packed)
        if isinstance(value, Remote) and type(packed.get("class")) is int:
            self.named_classes.add(packed["class"])
        meant = module_meant(name)
        sent = packed.get("module") if type(packed) is dict else None
        if meant and sent != meant:
            if name in NO_NAME_OF_ITS_OWN:  # what the tests take for Python's is the program's
                self.trust.add("remote_helper")
        elif meant:
            # the assertions' own word says which module, the program only that it has it
            self.borrowed = True
            return importlib.import_module(meant)
        return value

    async def _coroutine(self, number: int) -> Any:
        return self.operate("await", Reference(number))

    def _subclass_value(self, number: int, kind: int, value: Any) -> Any:
        """Make a value of a subclass; see `values` for what it is in tests."""
        base = type(value)
        if base not in PLAIN:
            raise PeerBroke("a value of a subclass carries no plain value")
        if (kind, base) not in self._value_classes:
            name, has, _ = self._classes[kind]
            self._value_classes[kind, base] = value_class(self, name, base, has, kind=kind)
        made = self._value_classes[kind, base](value)
        object.__setattr__(made, "_farm_number", number)
        return made

    # --- exceptions

    def _exception(self, reply: Json) -> BaseException:
        own = reply.get("own")
        if type(own) is int and isinstance(self._loans.thing(own), BaseException):
            returned: BaseException = self._loans.thing(own)
            return returned
        raised = rebuilt(self._ancestries.find(reply["raised"]), reply, self._traffic.unpack)
        if isinstance(raised, RaisedByProgram):
            raised._session = self
            raised._object = reply["object"] if type(reply["object"]) is int else -1
            raised._says = reply["says"] if type(reply.get("says")) is str else None
            raised._shows = reply["shows"] if type(reply.get("shows")) is str else None
        for note in reply.get("notes", ()):
            raised.add_note(note)
        for key in ("cause", "context"):
            if type(reply.get(key)) is dict:
                other = self._exception({**reply[key], "cause": None, "context": None})
                setattr(raised, f"__{key}__", other)
        return raised
