"""Calls the test functions and test classes that a block of assertions leaves to be called.

As pytest and unittest would, up to the first that fails; what it raises is the caller's to judge.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any


def noted_failures() -> list[BaseException]:
    """Return the list to which unittest's runners, from now on, add what they do not raise.

    A runner puts failures into words and goes on, so a block that runs its tests by one passes
    whatever they find. Changes this process for good.
    """
    from unittest import TestResult  # ten milliseconds that only tests that name it pay

    noted: list[BaseException] = []
    for name in ("addError", "addFailure", "addSubTest", "addUnexpectedSuccess"):
        setattr(TestResult, name, _noting(getattr(TestResult, name), noted))
    return noted


def _noting(method: Callable[..., None], noted: list[BaseException]) -> Callable[..., None]:
    @functools.wraps(method)
    def noting(result: object, test: object, *found: Any) -> None:  # noqa: ANN401  # as found
        if not found:
            noted.append(AssertionError(f"{test} was expected to fail and does not"))
        elif found[-1] is not None:  # a part that went well is told, too
            noted.append(found[-1][1])
        method(result, test, *found)

    return noting


def call_tests(value: object, ran: frozenset[str]) -> int:
    """Call one test function, or every test of one class; return how many have been run.

    Those whose qualified names are in `ran` have been already, and are not called again.
    """
    if isinstance(value, type):
        return _call_methods(value, ran)
    if getattr(value, "__qualname__", "") not in ran:
        _call(value)
    return 1


def _call_methods(kind: type, ran: frozenset[str]) -> int:
    unittest = sys.modules.get("unittest")  # who has not imported it has no class of it
    if unittest is not None and issubclass(kind, unittest.TestCase):
        names = unittest.defaultTestLoader.getTestCaseNames(kind)
        left = [kind(name) for name in names if not _has_run(kind, name, ran)]
        unittest.TestSuite(left).debug()  # raises what fails, where `run` would put it into words
        return len(names)
    made = any("__init__" in vars(one) for one in kind.__mro__[:-1])
    if not kind.__name__.startswith("Test") or made:
        return 0
    names = [name for name in dir(kind) if name.startswith("test")]
    left = [name for name in names if not _has_run(kind, name, ran)]
    if left:
        _call_step(kind, "setup_class")
    for name in left:
        one = kind()
        for step in ("setup_method", name, "teardown_method"):
            _call_step(one, step)
    if left:
        _call_step(kind, "teardown_class")
    inner = [part for part in vars(kind).values() if isinstance(part, type)]
    return len(names) + sum(_call_methods(part, ran) for part in inner)


def _has_run(kind: type, name: str, ran: frozenset[str]) -> bool:
    return getattr(getattr(kind, name), "__qualname__", "") in ran


def _call_step(owner: object, name: str) -> None:
    if not hasattr(owner, name):
        return
    step = getattr(owner, name)
    wanted = name.startswith(("setup", "teardown")) and inspect.signature(step).parameters
    _call(functools.partial(step, None) if wanted else step)


def _call(function: object) -> None:
    if not callable(function):
        raise TypeError(f"a test is no function but {type(function).__name__}")
    result = function()
    if inspect.iscoroutine(result):
        import asyncio  # twenty milliseconds that only asynchronous tests pay

        asyncio.run(result)
