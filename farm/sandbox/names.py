"""The global names of the assertions: their own, then Python's, then the program's.

What a name means is decided here, each time it is looked up; what is made of it is for `tester`.
"""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

from farm.sandbox import assertions
from farm.sandbox.assertions import Assertion, BadAssertion
from farm.sandbox.remote import Session
from farm.sandbox.standins import Remote
from farm.sandbox.values import is_of_the_program
from farm.sandbox.wishes import TESTS
from farm.scoring.blocks import RAN, Waiting

_PYTHONS_OWN = vars(builtins)


class Names(dict[str, Any]):
    """The assertions' global names: their own, then Python's, then the program's, live.

    `overridden` names builtins that are meant as the program's; for each assertion its own.
    """

    def __init__(self, session: Session, program: Program, every: Sequence[str] = ()) -> None:
        super().__init__(__name__=TESTS, __builtins__=_Last(self))
        self[assertions.KIND_OF] = session.kind_of
        self.ran: set[str] = set()  # tests that have begun in this assertion
        self[RAN] = self.ran.add
        self.noted: list[BaseException] = []  # failures that a runner kept to itself
        self.texts: list[str] = []  # of this assertion and those before
        self.stopping: set[str] = set()  # what they define that names StopIteration
        self.session = session
        self._program = program
        self._every = every  # all assertions of the job
        self.overridden: frozenset[str] = frozenset()
        self.kept: dict[str, Any] = {}  # objects of the program met in this assertion

    def __missing__(self, name: str) -> object:
        if name in self.kept:
            return self.kept[name]
        if name in _PYTHONS_OWN and name not in self.overridden:
            return _PYTHONS_OWN[name]
        try:
            value = self.session.look_up(name)
        except KeyError:
            if name in _PYTHONS_OWN and name != self._program.entry:
                return _PYTHONS_OWN[name]
            raise  # the function under test is missing, whatever Python has of its name
        if isinstance(value, Remote):  # plain values may change with every call: never kept
            self.kept[name] = value
        return value

    def own_functions(self) -> dict[str, str]:
        """Names of functions and classes of the assertions' own, and by which they are defined."""
        return {
            name: str(getattr(value, "__name__", ""))
            for name, value in self.items()
            if not is_of_the_program(value) and getattr(value, "__module__", "") == TESTS
        }

    def settle(self, text: str, one: Assertion, left: Waiting) -> None:
        """Find out which builtins mean the program's in one assertion.

        None does where a check waits to be given the function under test: that is what it judges.
        """
        entry = self._program.entry
        self.overridden = frozenset((entry,)) if entry else frozenset()
        mentioned = one.block.mentions & _PYTHONS_OWN.keys()
        if entry or left.check or not mentioned:
            return
        defined = frozenset(name for name in mentioned if self._defines(name))
        if defined:
            others = [part for part in self._every if part is not text]
            self.overridden = assertions.meant(text, frozenset(self), defined, others)

    def _defines(self, name: str) -> bool:
        """Say whether the program has a global of its own that is named like a builtin."""
        pattern = rf"\b(?:def|class|as|import)\s+{name}\b|^{name}\b(?!\s*\()"
        if re.search(pattern, self._program.code, re.MULTILINE) is None:
            return False  # to ask takes a round trip, for each builtin the tests use
        try:
            self.session.look_up(name)
        except KeyError:
            return False
        return True

    def under_test(self) -> object:
        """Return the function under test; raises `BadAssertion` when nothing says which it is."""
        name = self._program.entry
        if not name:
            listed = self._program.functions
            if len(listed) != 1:
                raise BadAssertion(assertions.no_one_function(len(listed)))
            name = listed[0]
        return self.session.look_up(name)


class Module(types.ModuleType):
    """What the classes of the assertions name as theirs: dataclasses look there for types."""

    def __init__(self, names: Names) -> None:
        super().__init__(TESTS)
        self._names = names

    @property
    def __dict__(self) -> Names:  # type: ignore[override]  # a module's own cannot be replaced
        return self._names

    def __getattr__(self, name: str) -> object:
        if name not in vars(self):
            raise AttributeError(name)
        return vars(self)[name]


class _Last(dict[str, object]):
    """Python's own names, where a class body ends up that found a name nowhere.

    Of the assertions' global names it reads, as `exec` and `eval` inside a function do, only
    what is in the dictionary, and never asks for what is missing; here it always asks.
    """

    def __init__(self, names: Names) -> None:
        super().__init__(_PYTHONS_OWN)
        self._names = names

    def __getitem__(self, name: str) -> object:
        return self._names.__missing__(name)


class Program(NamedTuple):
    """What is known of the program: its text, the function under test, those it defines."""

    code: str
    entry: str | None
    functions: tuple[str, ...]
