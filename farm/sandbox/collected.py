"""Calls the test functions and test classes that a block of assertions leaves to be called.

As pytest and unittest would, up to the first that fails; what it raises is the caller's to judge.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable


def call_tests(value: Callable[..., object] | type) -> int:
    """Call one test function, or every test of one class; return how many that were."""
    if isinstance(value, type):
        return _call_methods(value)
    _call(value)
    return 1


def _call_methods(kind: type) -> int:
    unittest = sys.modules.get("unittest")  # who has not imported it has no class of it
    if unittest is not None and issubclass(kind, unittest.TestCase):
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
        count = int(suite.countTestCases())
        suite.debug()  # raises what fails, where `run` would put it into words
        return count
    if not kind.__name__.startswith("Test"):
        return 0
    names = [name for name in dir(kind) if name.startswith("test")]
    for name in names:
        one = kind()
        for step in ("setup_method", name, "teardown_method"):
            if hasattr(one, step):
                _call(getattr(one, step))
    return len(names)


def _call(function: Callable[..., object]) -> None:
    result = function()
    if inspect.iscoroutine(result):
        import asyncio  # twenty milliseconds that only asynchronous tests pay

        asyncio.run(result)
