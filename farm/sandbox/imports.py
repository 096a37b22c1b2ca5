"""Modules a candidate may not name: a policy with a clear answer, not a wall.

The kernel is the wall. This list tells a reader of the report *why* a program was not run, and
catches what the kernel would only turn into a confusing error later. Programs that import a
denied module through another one, or build its name at run time, meet the kernel instead.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

PROGRAM = "candidate"  # the name a program's module goes by
DENIED = (
    "asyncio.subprocess",
    "ctypes",
    "http.client",
    "os.system",
    "requests",
    "shutil",
    "socket",
    "subprocess",
    "urllib",
)


# The last words of the names above: a text without any of them need not be parsed for them.
_LAST_WORDS = re.compile(
    r"\b(?:" + "|".join(sorted({entry.split(".")[-1] for entry in DENIED})) + r")\b"
)


def may_name_denied(text: str) -> bool:
    """Say whether a program's text could name a denied module; quick, and errs towards yes."""
    return _LAST_WORDS.search(text) is not None


def is_denied(dotted: str) -> str | None:
    """Return the entry of the list that covers a dotted name, or None."""
    for entry in DENIED:
        if dotted == entry or dotted.startswith(entry + "."):
            return entry
    return "os.system" if dotted == "posix.system" else None  # where os has it from


def find_denied(tree: ast.AST) -> tuple[str, int] | None:
    """Return the first denied name a program mentions and its line, or None.

    Sees `import x`, `from x import y`, an attribute chain such as `os.system` whatever is done
    with it, and `__import__("x")` or `import_module("x")` with the name written out.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute | ast.Call):
            continue
        for dotted in _names(node):
            entry = is_denied(dotted)
            if entry is not None and not _is_its_own(node, tree):
                return entry, getattr(node, "lineno", 0)
    return None


def _is_its_own(node: ast.AST, tree: ast.AST) -> bool:
    """Say whether an attribute is one of the program's own `class os`, which it never imports."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    name, defined = node.value.id, False
    for one in ast.walk(tree):
        if isinstance(one, ast.Import | ast.ImportFrom):
            if any(
                (alias.asname or alias.name).split(".")[0] in (name, "*") for alias in one.names
            ):
                return False
        elif isinstance(one, ast.ClassDef | ast.FunctionDef):
            defined = defined or one.name == name
    return defined


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id in ("os", "posix", "asyncio"):
            yield f"{node.value.id}.{node.attr}"
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in ("__import__", "import_module") and isinstance(node.args[0].value, str):
            yield node.args[0].value


# Made when this is imported, so that to deny is three assignments in a process just forked.
_python_import, _python_import_module = builtins.__import__, importlib.import_module


def _check(name: str) -> None:
    entry = is_denied(name)
    # two frames up: who asks, the program itself or a library on its behalf
    if entry is not None and not _is_library(sys._getframe(2).f_globals):
        raise ImportError(f"denied import {entry!r}: the import policy does not allow it")


def _is_library(scope: dict[str, Any]) -> bool:
    """Say whether global names are those of a module, and not of the program or its `exec`."""
    name = scope.get("__name__")
    module = sys.modules.get(name) if type(name) is str and name != PROGRAM else None
    return module is not None and module.__dict__ is scope


def _guarded_import(name: str, *rest: Any, **named: Any) -> ModuleType:
    _check(name)
    return _python_import(name, *rest, **named)


def _guarded_import_module(name: str, package: str | None = None) -> ModuleType:
    _check(name)
    return _python_import_module(name, package)


def _refused(command: object) -> int:
    raise ImportError("denied import 'os.system': the import policy does not allow it")


def deny_at_run_time() -> None:
    """Refuse denied modules to code of the module `PROGRAM`; its libraries may use them.

    Changes this process for good.
    """
    builtins.__import__ = cast("Any", _guarded_import)
    importlib.import_module = _guarded_import_module
    os.system = cast("Any", _refused)
    with contextlib.suppress(ImportError):  # Windows has no such module
        cast("Any", _python_import("posix")).system = _refused
