"""What counts as an assertion, and when a builtin means the program's function."""

from __future__ import annotations

import pytest

from farm.sandbox import assertions
from farm.sandbox.imports import find_denied
from farm.sandbox.runner import Sandbox, checked_work


@pytest.mark.parametrize(
    ("text", "is_expression", "can_fail"),
    [
        ("add(1, 2) == 3", True, False),
        ("assert add(1, 2) == 3", False, True),
        ("x = add(1, 2)\nassert x == 3", False, True),
        ("    assert x\n", False, True),  # outer white space is not part of it
        ("x = add(1, 2)", False, False),
        ("raise AssertionError('no')", False, True),
    ],
)
def test_forms(text: str, is_expression: bool, can_fail: bool) -> None:
    """The three forms of the contract, and a block that cannot fail."""
    read = assertions.read(text)
    assert (read.is_expression, read.can_fail) == (is_expression, can_fail)


@pytest.mark.parametrize("text", ["assert (", "", "# nothing", "a\0b", "(" * 5000, "return 3"])
def test_an_assertion_at_fault_is_told_apart(text: str) -> None:
    """It is refused as an assertion; the program it was to judge has done nothing wrong."""
    with pytest.raises(assertions.BadAssertion, match="the assertion "):
        assertions.read(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("assert sum(10, 15) == 6", "sum"),
        ("max([1, 9, 4]) == 9", "max"),
        ("assert len(r) == 3", ""),  # on a value of the tests: Python's own
        ("assert set(sum(1, 2)) == {1}", ""),
        ("assert f(1) == 2", ""),
        ("assert f(1).sum(2) == 2", ""),
    ],
)
def test_a_builtin_on_literals_may_be_the_function_under_test(text: str, name: str) -> None:
    """Benchmarks have tasks named like builtins; nothing a test relies on can be taken over."""
    assert assertions.read(text).overridable == name


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import socket", "socket"),
        ("import os\nos.system('x')", "os.system"),
        ("from os import system", "os.system"),
        ("from urllib import request", "urllib"),
        ("import http.client as c", "http.client"),
        ("from http import client", "http.client"),
        ("from asyncio import subprocess", "asyncio.subprocess"),
        ("import asyncio\nasyncio.subprocess", "asyncio.subprocess"),
        ("def f():\n    import shutil", "shutil"),
        ("__import__('ctypes')", "ctypes"),
        ("import importlib\nimportlib.import_module('requests')", "requests"),
        ("import os, sys, threading, asyncio, http", None),
        ("import sockets, urllib3, ctypeslib", None),  # other names, not parts of ours
        ("x = 'import socket'", None),
    ],
)
def test_denied_names_are_found_in_the_text(program: str, found: str | None) -> None:
    """The deny-list of the contract, in each way a program can name a module."""
    import ast

    denied = find_denied(ast.parse(program))
    assert (denied and denied[0]) == found


def test_denied_imports_meet_the_policy_at_run_time_too() -> None:
    """A name built at run time is refused to the program and granted to the library it uses."""
    code = (
        "import importlib, asyncio, tempfile\n"  # these use socket, subprocess and shutil
        "def f(how):\n"
        "    name = 'soc' + 'ket'\n"
        "    try:\n"
        "        __import__(name) if how else importlib.import_module(name)\n"
        "    except ImportError as error:\n"
        "        return str(error)\n"
    )
    said = "denied import 'socket': the import policy does not allow it"
    with Sandbox() as policed:
        work = checked_work(code, [f"f(True) == {said!r}", f"f(False) == {said!r}"], timeout_s=5.0)
        assert policed.run(work).detail == ""


@pytest.mark.parametrize(
    ("assertion", "detail"),
    [
        ("x = f(1)", "assertion 1: the block contains no assert, so it judges nothing"),
        ("assert (", "assertion 1: the assertion does not parse: '(' was never closed"),
    ],
)
def test_an_assertion_that_judges_nothing_passes_nothing(
    assertion: str, detail: str, sandbox: Sandbox
) -> None:
    """A score must not rise because a line cannot fail."""
    result = sandbox.run(checked_work("def f(x): return x", assertion, timeout_s=3.0))
    assert (result.outcome, result.score) == ("error", 0.0)
    assert result.detail.startswith(detail)
