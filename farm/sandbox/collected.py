"""Calls the test functions and test classes that a block of assertions leaves to be called.

As pytest and unittest would, up to the first that fails; what it raises is the caller's to judge.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from farm.sandbox.values import is_of_the_program
from farm.scoring.blocks import Block

if TYPE_CHECKING:
    from unittest import TestCase, TestResult

_FAILING = ("addError", "addFailure", "addSubTest", "addUnexpectedSuccess")


def noted_failures() -> list[BaseException]:
    """Return the list to which unittest's runners, from now on, add what they do not raise.

    A runner puts failures into words and goes on, so a block that runs its tests by one passes
    whatever they find. Changes this process for good.
    """
    from unittest import TestResult  # ten milliseconds that only tests that name it pay

    noted: list[BaseException] = []
    for name in _FAILING:
        setattr(TestResult, name, _noting(getattr(TestResult, name), noted))
    return noted


def _noting(method: Callable[..., None], noted: list[BaseException]) -> Callable[..., None]:
    @functools.wraps(method)
    def noting(result: TestResult, test: object, *found: Any) -> None:  # noqa: ANN401  # as found
        _note(noted, test, *found)
        method(result, test, *found)

    return noting


def call_listed(listed: Iterable[str], scope: Mapping[str, Any], ran: set[str]) -> int:
    """Call the tests of these names; return how many have been run.

    `scope` has those that are still there: one that is deleted is no test, nor what a class did
    not become. `ran` has the names of tests that have begun, and gets those that do.
    """
    before, count = frozenset(ran), 0
    for name in listed:
        test = scope.get(name)
        if isinstance(test, type) or (test is not None and name.startswith("test")):
            called = call_tests(test, before)
            # a decorator of the program's may never have called it
            count += called if not is_of_the_program(test) or name in ran else 0
    return count


def call_tests(value: object, ran: frozenset[str]) -> int:
    """Call one test function, or every test of one class; return how many have been run.

    Those whose qualified names are in `ran` have been already, and are not called again. A test
    that is skipped, or may fail as it likes, judges nothing and is none of them.
    """
    if isinstance(value, type):
        unittest = sys.modules.get("unittest")  # who has not imported it has no class of it
        if unittest is not None and issubclass(value, unittest.TestCase):
            return _call_cases(value, ran)
        return _call_methods(value, ran)
    if getattr(value, "__qualname__", "") in ran:
        return 1
    return _call(value)


def _call_cases(kind: type[TestCase], ran: frozenset[str]) -> int:
    """Run the tests of a class of unittest's, by its own rules, up to the first that fails."""
    from unittest import TestResult, TestSuite, defaultTestLoader

    noted: list[BaseException] = []
    result = TestResult()
    result.failfast = True  # a part of a test that fails ends the test, too

    def note(test: object, *found: Any) -> None:  # noqa: ANN401  # as found
        _note(noted, test, *found)
        if noted:
            result.stop()

    for name in _FAILING:
        setattr(result, name, note)
    names = defaultTestLoader.getTestCaseNames(kind)
    left = [name for name in names if not _has_run(kind, name, ran)]
    TestSuite(map(kind, left)).run(result)
    if noted:
        raise noted[0]
    skipped = {one.id() for one, _ in result.skipped}
    begun = [name for name in left if kind(name).id() not in skipped]
    return len(names) - len(left) + (len(begun) if result.testsRun else 0)


def _note(noted: list[BaseException], test: object, *found: Any) -> None:  # noqa: ANN401  # as found
    """Note what a test of unittest's failed by; a part of one that went well is told, too."""
    if not found:
        noted.append(AssertionError(f"{test} was expected to fail and does not"))
    elif found[-1] is not None:
        noted.append(found[-1][1])


def _call_methods(kind: type, ran: frozenset[str]) -> int:
    made = any("__init__" in vars(one) for one in kind.__mro__[:-1])
    if not kind.__name__.startswith("Test") or made or _is_skipped(kind):
        return 0
    names = [name for name in dir(kind) if name.startswith("test")]
    left = [name for name in names if not _has_run(kind, name, ran)]
    count = len(names) - len(left)
    if left:
        _call_step(kind, "setup_class")
    for name in left:
        one = kind()
        if _is_skipped(getattr(one, name)):
            continue
        _call_step(one, "setup_method")
        count += _call(getattr(one, name))
        _call_step(one, "teardown_method")
    if left:
        _call_step(kind, "teardown_class")
    inner = [part for part in vars(kind).values() if isinstance(part, type)]
    return count + sum(call_tests(part, ran) for part in inner)


def _is_skipped(test: object) -> bool:
    """Say whether a mark of pytest's or unittest's keeps a test from judging."""
    if getattr(test, "__unittest_skip__", False):
        return True
    for mark in getattr(test, "pytestmark", ()):
        if mark.name in ("skip", "xfail"):
            return True
        if mark.name == "skipif":
            asked = [*mark.args, mark.kwargs.get("condition", False)]
            return any(asked)  # a text, too: it asks for what only pytest would know
    return False


def _has_run(kind: type, name: str, ran: frozenset[str]) -> bool:
    return getattr(getattr(kind, name), "__qualname__", "") in ran


def _call_step(owner: object, name: str) -> None:
    step = getattr(owner, name, None)
    if step is None:
        return
    wanted = len(inspect.signature(step).parameters)  # some take the test that is to come
    _call(functools.partial(step, *[None] * wanted))


def _call(function: object) -> int:
    """Call a test function; return 1, or 0 if it is skipped or skips itself."""
    if _is_skipped(function):
        return 0
    if not callable(function):
        raise TypeError(f"a test is no function but {type(function).__name__}")
    try:
        result = function()
        if inspect.iscoroutine(result):
            import asyncio  # twenty milliseconds that only asynchronous tests pay

            asyncio.run(result)
    except BaseException as error:
        if not _skips(error):
            raise
        return 0
    return 1


def _skips(error: BaseException) -> bool:
    """Say whether a test said that it does not apply, in unittest's words or pytest's."""
    words = (("unittest", "SkipTest"), ("_pytest.outcomes", "Skipped"))
    kinds = [getattr(sys.modules.get(module), name, None) for module, name in words]
    return any(kind is not None and isinstance(error, kind) for kind in kinds)


def why_nothing(block: Block) -> str:
    """Say why a block that ran has judged nothing."""
    if any(unit.is_test and unit.can_fail for unit in block.units):
        return "the block judges nothing: its tests are skipped, or no tests to pytest or unittest"
    if any(unit.can_fail for unit in block.units):
        return "the block judges nothing: what asserts stands in functions that nothing calls"
    return "the block contains no assert, so it judges nothing"


def is_failure(error: BaseException) -> bool:
    """Say whether a test failed in pytest's words, as `pytest.raises` and `pytest.fail` do."""
    outcomes = sys.modules.get("_pytest.outcomes")  # who has not imported it cannot fail so
    return outcomes is not None and isinstance(error, outcomes.Failed)
