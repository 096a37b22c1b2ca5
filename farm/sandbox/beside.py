"""Judges assertions beside the program, for tasks that ask for it (`grading="in_process"`).

By the same rules as the tester where they are about the tests: what names nothing of the program,
or runs nothing that can fail, judges nothing. What the program can do to its verdict here is
everything, so the verdict says where it was made.
"""

from __future__ import annotations

from typing import Any

from farm.sandbox import assertions
from farm.sandbox.assertions import Assertion, BadAssertion, Helpers
from farm.sandbox.collected import call_listed, is_failure, noted_failures, why_nothing
from farm.sandbox.plain import Json
from farm.scoring.blocks import CHECK, RAN


class Beside:
    """Judges one assertion after another in the global names of the program."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._scope = scope
        self._texts: list[str] = []
        self._ran: set[str] = set()
        self._noted: list[BaseException] | None = None

    def judge(self, asked: Json) -> list[str]:
        """Return the result of one assertion and why it is not a pass.

        `asked` has its `text` and what of it waits to be called: `tests`, `check` and the
        function to give it, `entry`, and `beyond`, which only pytest can call; `judges` says
        whether it judges without them.
        """
        try:
            return self._judge(asked)
        except AssertionError as error:
            return ["assertion_fail", str(error)]
        except BadAssertion as error:
            return ["error", str(error)]
        except BaseException as error:  # noqa: BLE001  # whatever an assertion may meet
            return [
                "assertion_fail" if is_failure(error) else "error",
                f"{type(error).__name__}: {error}",
            ]

    def _judge(self, asked: Json) -> list[str]:
        text, entry = str(asked["text"]), asked["entry"]
        if entry in assertions.BUILTINS and entry not in self._scope:
            raise NameError(f"name {entry!r} is not defined")  # Python's own is not under test
        one = assertions.read(text, marked=True)
        self._texts.append(text)
        if one.names_nothing(assertions.BUILTINS & self._scope.keys()):
            raise BadAssertion(assertions.NAMES_NOTHING)
        self._ran.clear()
        self._scope.setdefault(assertions.KIND_OF, type)
        self._scope[RAN] = self._ran.add
        if self._noted is None and "unittest" in text:
            self._noted = noted_failures()
        value = eval(one.code, self._scope)  # noqa: S307
        self._raise_noted()
        helpers = Helpers(self._texts, {})
        if one.is_expression:
            if value or (value is None and helpers.judge_by_raising(text)):
                return ["pass", ""]
            return ["assertion_fail", "the expression is false"]
        judged = self._call_waiting(asked, one) or asked["judges"]
        self._raise_noted()
        if not judged and not any(map(helpers.can_fail, one.calls & helpers.defined)):
            raise BadAssertion(why_nothing(one.block))
        return ["pass", ""]

    def _raise_noted(self) -> None:
        if self._noted:
            first = self._noted[0]
            self._noted.clear()
            raise first

    def _call_waiting(self, asked: Json, one: Assertion) -> bool:
        for name in asked["beyond"]:
            if name not in self._ran and name not in one.calls:
                raise BadAssertion(assertions.needs_pytest(name))
        count = call_listed(asked["tests"], self._scope, self._ran)
        if asked["check"] and CHECK not in self._ran:
            if asked["entry"] not in self._scope:
                raise BadAssertion(assertions.no_one_function(asked["functions"]))
            self._scope[CHECK](self._scope[asked["entry"]])
        return bool(count) or bool(asked["check"])
