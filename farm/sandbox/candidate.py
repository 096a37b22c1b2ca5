"""The candidate: owns the program, answers calls, is never believed.

From the moment `execute` is asked for, everything in this process may be the program's doing.
What is here keeps honest programs working as they would in one process with their tests; none
of it guards the verdict, which the tester alone gives.
"""

from __future__ import annotations

import _thread
import ast
import builtins
import contextlib
import copy
import io
import operator
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from farm.sandbox import described, imports, lent, rare, values
from farm.sandbox.beside import Beside
from farm.sandbox.borrowed import LENDING, Borrowed
from farm.sandbox.frames import Line, Message, PeerBroke
from farm.sandbox.known import is_pure
from farm.sandbox.lent import LENT, LENT_CLASS
from farm.sandbox.plain import Json, Traffic
from farm.sandbox.raised import more_of

NAME = imports.PROGRAM
# Operators a tester may ask for; taken here, before a program can replace its builtins.
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in
       ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "matmul",
        "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
        "lshift", "rshift", "neg", "pos", "invert", "eq", "ne", "lt", "le", "gt", "ge", "contains",
        "getitem", "setitem", "delitem", "index")},
    **{name: getattr(builtins, name) for name in
       ("abs", "bool", "divmod", "float", "format", "getattr", "hash", "int", "issubclass",
        "iter", "len", "next", "repr", "reversed", "round", "setattr", "delattr", "str", "type")},
    "isinstance": described.is_instance,
    "call": lambda function, /, *arguments, **named: function(*arguments, **named),
    "leave": lambda manager, error: type(manager).__exit__(
        manager, type(error), error, error.__traceback__
    ),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "aiter": lambda value: value.__aiter__(),
    "anext": lambda value: value.__anext__(),
}  # fmt: skip
_BUILTIN_OBJECTS = {id(value): name for name, value in vars(builtins).items()}
_TURN_S = 0.0005
_sleep = time.sleep
_MOST_PROMISED = 32
_NAMED = (types.FunctionType, type)


class _Refused(Exception):
    """The program cannot be run; carries the reply that says so."""

    def __init__(self, reply: Message) -> None:
        self.reply = reply


class Candidate:
    """Serves one program over a pair of pipes until the tester is done.

    Made before the fork, where it costs nothing; `serve` comes after it.
    """

    def __init__(self) -> None:
        self._line = Line(-1, -1)
        self._traffic = Traffic(1, export=self._export, adopt=self._adopt)
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._classes: list[type] = []
        self._class_numbers: dict[int, int] = {}
        self._told: list[Json] = []
        self._borrowed = Borrowed(self, self._traffic, self._adopt)
        self._module = types.ModuleType(NAME)
        self._code: types.CodeType | None = None
        self._event_loop: Any = None
        self._beside: Beside | None = None
        self._promised: dict[str, Any] = {}
        self._stdout = sys.stdout
        # Held by the thread that talks with the tester; while it runs the program, nobody does.
        self._line_free = _thread.RLock()
        self._begun = 0  # requests that are being answered, each in the middle of the one before
        # the interpreter's own: what a program puts in their place keeps what it likes
        self._flushes = [stream.flush for stream in (sys.__stdout__, sys.__stderr__) if stream]

    def serve(self, source: int, target: int) -> None:
        """Answer until the pipe closes; always inside a `try` that ends the process."""
        self._line = Line(source, target)
        self._line_free.acquire()
        self._reply({"ready": True})
        self._answer_until_return()

    def _reply(self, message: Message) -> None:
        for flush in self._flushes:  # the process is killed: nothing is flushed at its end
            with contextlib.suppress(OSError, ValueError):  # the program may have closed it
                flush()
        try:
            self._traffic.seal(message, forget=False)
            if broken := self._broken_promises():
                message["broken"] = broken
            if self._told:
                message["classes"], self._told = self._told, []
            self._line.send(message)
        except PeerBroke as error:  # too large to send: the call fails, the program goes on
            self._line.send({"much": str(error)})

    def _answer_until_return(self) -> Message:
        """Answer requests; return at the message that answers a callback of ours."""
        while True:
            message: Json = self._line.receive()
            self._traffic.unseal(message)
            for number in message.get("drop", ()):  # after their last changes were taken in
                self._traffic.forget(number)
            if message["do"] == "return":
                return dict(message)
            printed = self._start_capture() if "capture" in message else None
            try:
                reply = self._perform(message)
            except _Refused as refused:
                reply = refused.reply
            except BaseException as error:  # noqa: BLE001  # a program may raise anything
                reply = self._report(error)
            if printed is not None:
                sys.stdout = self._stdout
                reply["printed"] = printed.getvalue()
            self._reply(reply)

    def _run(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Run the program, whose other threads may meanwhile ask for things of the tests."""
        self._begun += 1
        level = self._begun
        self._line_free.release()
        try:
            return function(*arguments, **named)
        finally:
            self._line_free.acquire()
            while self._begun > level:  # what another thread was asked is answered first
                self._line_free.release()
                _sleep(_TURN_S)
                self._line_free.acquire()
            self._begun -= 1

    def _start_capture(self) -> io.StringIO:
        """Keep what is printed from here on: the tests have put something in place of stdout."""
        self._stdout, sys.stdout = sys.stdout, io.StringIO()
        return sys.stdout

    def _perform(self, message: Json) -> Message:
        do = message["do"]
        if do == "read":
            self._code = self._read(message["code"], allow_all=message["imports"] == "allow")
            return {"v": None}
        if do == "execute":
            sys.modules[NAME] = self._module
            self._run(exec, self._code, vars(self._module))
            return {"v": None, "names": self._promise()}
        if do == "name":
            scope = vars(self._module)
            if message["name"] not in scope:
                return {"missing": True}
            return {"v": self._traffic.pack(scope[message["name"]])}
        if do == "judge":
            self._beside = self._beside or Beside(vars(self._module))
            return {"v": self._run(self._beside.judge, message)}
        arguments = [self._traffic.unpack(part) for part in message["a"]]
        named = {key: self._traffic.unpack(part) for key, part in message.get("k", {}).items()}
        if do == "plain":
            return {"v": self._traffic.pack(described.plain_part(arguments[0]))}
        if do == "await":
            return {"v": self._traffic.pack(self._run(self._wait_for, arguments[0]))}
        return {"v": self._traffic.pack(self._run(OPERATIONS[do], *arguments, **named))}

    def _promise(self) -> Json:
        """Hand over the program's functions and classes by name, before they are asked for.

        The tester is told when one of the names comes to mean something else.
        """
        for name, value in vars(self._module).items():
            mine = isinstance(value, _NAMED) and value.__module__ == NAME
            if mine and len(self._promised) < _MOST_PROMISED:
                self._promised[name] = value
        return {name: self._traffic.pack(value) for name, value in self._promised.items()}

    def _broken_promises(self) -> list[str]:
        scope = vars(self._module)
        broken = [name for name, value in self._promised.items() if scope.get(name) is not value]
        for name in broken:
            del self._promised[name]
        return broken

    def _read(self, text: str, *, allow_all: bool) -> types.CodeType:
        """Compile the program, which is still text; nothing of it has run yet."""
        text = text.removeprefix("\ufeff")
        try:
            code = compile(text, "<candidate>", "exec", dont_inherit=True)
            suspect = not allow_all and imports.may_name_denied(text)
            denied = imports.find_denied(ast.parse(text)) if suspect else None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _Refused({"syntax": str(error) or type(error).__name__}) from error
        if denied is not None:
            raise _Refused({"denied": denied[0], "line": denied[1]})
        if not allow_all:
            imports.deny_at_run_time()
        return code

    def _wait_for(self, awaitable: Any) -> Any:
        import asyncio  # twenty milliseconds that only asynchronous programs pay

        async def wait() -> Any:
            return await awaitable

        if self._event_loop is None:
            self._event_loop = asyncio.new_event_loop()
        return self._event_loop.run_until_complete(wait())

    # --- references

    def _number_of(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _class_number(self, kind: type) -> int:
        number = self._class_numbers.get(id(kind))
        if number is None:
            number = self._class_numbers[id(kind)] = len(self._classes)
            self._classes.append(kind)
            self._told.append(described.of(kind))
        return number

    def _export(self, value: Any) -> Json:
        kind = type(value)
        if issubclass(kind, lent.THINGS):
            return self._borrowed.give_back(value, kind)
        builtin = _BUILTIN_OBJECTS.get(id(value))
        if builtin is not None and is_pure(builtin):
            return {"t": "builtin", "v": builtin}
        reference: Json = {"t": "object", "v": self._number_of(value)}
        if kind is types.ModuleType and value.__name__ != NAME:
            reference["module"] = value.__name__
        if issubclass(kind, type) and hasattr(value, "__class_getitem__"):
            kind = kind if described.judges_instances(kind) else described.Subscriptable
        reference["c"] = self._class_number(kind)
        if issubclass(kind, type):
            if LENT_CLASS in vars(value):
                return {"t": "own", "v": vars(value)[LENT_CLASS]}
            reference["class"] = self._class_number(value)
            if issubclass(value, BaseException):
                reference["raises"] = self._ancestry(value)
        for base in values.PLAIN:
            if issubclass(kind, base):
                reference["base"] = self._traffic.pack(described.plain_part(value))
        if issubclass(kind, described.CONTAINERS) or rare.is_a_path(kind):
            reference["holds"] = True
        if issubclass(kind, BaseException):
            reference["error"] = self._report_alone(value)
        return reference

    def _ancestry(self, kind: type) -> list[Json]:
        """List an exception's classes, nearest first.

        Names for Python's own; a number, a name and a module for the program's; the number
        alone for what the tests have lent.
        """
        line: list[Json] = []
        for parent in type.mro(kind):
            if _BUILTIN_OBJECTS.get(id(parent)) is not None:
                line.append(parent.__name__)
            elif LENT_CLASS in vars(parent):
                line.append([vars(parent)[LENT_CLASS]])
            else:
                line.append([self._class_number(parent), parent.__name__, str(parent.__module__)])
        return line

    def _adopt(self, reference: Json) -> Any:
        tag, body = reference["t"], reference["v"]
        if tag == "object":
            return self._objects[body]
        if tag == "class":
            return self._classes[body]
        if tag in LENDING:
            return self._borrowed.take(reference)
        if tag in ("builtin", "template"):
            return getattr(builtins if tag == "builtin" else str, body)
        if tag == "pattern":
            import re  # as the tests have

            return re.compile(self._traffic.unpack(body), reference["flags"])
        if tag == "library":
            return getattr(__import__(body, fromlist=["_"]), reference["name"])
        if tag == "module":
            return __import__(body, fromlist=["_"])
        return iter([self._traffic.unpack(part) for part in body])

    def _report(self, error: BaseException) -> Message:
        report = self._report_alone(error)
        for key, other in (("cause", error.__cause__), ("context", error.__context__)):
            if isinstance(other, BaseException):
                report[key] = self._report_alone(other)
        return report

    def _report_alone(self, error: BaseException) -> Message:
        try:
            packed = self._traffic.pack(tuple(error.args))
        except Exception:  # noqa: BLE001  # hostile arguments: the text below must do
            packed = None
        try:
            text = str(error)[:2000]
        except BaseException:  # noqa: BLE001  # a hostile __str__ may raise anything
            text = ""
        kind = type(error)
        report: Message = {
            "raised": self._ancestry(kind),
            "args": packed,
            "text": text,
            "object": self._number_of(error),
        }
        if not described.is_inherited(kind, "__str__"):
            report["says"] = text
        if not described.is_inherited(kind, "__repr__"):
            report["shows"] = self._shown(error)
        if more := more_of(error):
            report["more"] = more
        mine = error.__dict__
        if mine.get("__notes__"):
            report["notes"] = [str(note) for note in mine["__notes__"]]
        if LENT in mine:
            report["own"] = mine[LENT]
        return report

    def _shown(self, error: BaseException) -> str:
        try:
            return repr(error)[:2000]
        except BaseException:  # noqa: BLE001  # as above
            return ""

    def ask(self, request: Json) -> Any:
        """Ask the tester for something only it has, in the middle of answering it.

        `a`, `k` and `v` of the request are values. A thread that asks while nothing is being
        answered waits until something is.
        """
        pack = self._traffic.pack
        with self._line_free:
            if "a" in request:
                request["a"] = [pack(part) for part in request["a"]]
            if "k" in request:
                request["k"] = {key: pack(part) for key, part in request["k"].items()}
            if "v" in request:
                request["v"] = pack(request["v"])
            self._reply(request)
            answer: Json = self._answer_until_return()
            if "raised" in answer:
                raise self._raised_there(answer)
            return self._traffic.unpack(answer["v"])

    def _raised_there(self, answer: Json) -> BaseException:
        """Make of what a function of the tests raised what the program can catch."""
        raised = self._traffic.unpack(answer["raised"])
        if isinstance(raised, BaseException):
            raised.__dict__.setdefault(LENT, answer["own"])
            return raised
        return RuntimeError(answer["text"])
