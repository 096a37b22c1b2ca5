"""Reads what of a block of statements runs by itself, and what waits in functions and classes.

A block judges only by what runs: an `assert` in a function that nothing calls cannot fail. Test
functions and test classes wait to be called as pytest and unittest would, and a function
`check(candidate)` to be called with the function under test. Pure: a syntax tree in, names out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FAILING_CALLS = ("raises", "fail", "warns", "deprecated_call")
_RUNNERS = ("unittest", "pytest")
CHECK = "check"


class Unit(NamedTuple):
    """A function or class that a block defines."""

    name: str
    reads: frozenset[str]  # names it mentions, wherever
    can_fail: bool
    is_test: bool
    is_check: bool  # check(candidate): takes the function under test


class Block(NamedTuple):
    """What runs with a block, and what it defines."""

    reads: frozenset[str]  # names that what runs mentions
    can_fail: bool  # something that runs asserts, raises, or calls an assert... of a library
    units: tuple[Unit, ...] = ()

    @property
    def mentions(self) -> frozenset[str]:
        """Every name the block mentions."""
        return self.reads.union(*[unit.reads for unit in self.units])


class Waiting(NamedTuple):
    """What is to be called once a block has run, and whether the block then judges."""

    judges: bool
    tests: tuple[str, ...] = ()
    check: bool = False  # its check(candidate) is all that can judge, and nothing calls it


def block_of(tree: ast.Module) -> Block:
    """Look a block over."""
    named = _other_names(tree)
    definitions: list[Definition] = []
    running = list(_running(tree.body, definitions))
    units = [
        Unit(
            name=one.name,
            reads=_names(ast.walk(one)) - {one.name},
            can_fail=any(_can_fail(node, named) for node in ast.walk(one)),
            is_test=_is_test(one),
            is_check=one.name == CHECK and _required(one) == 1,
        )
        for one in definitions
    ]
    can_fail = any(_can_fail(node, named) for node in running)
    return Block(_names(running), can_fail, tuple(units))


def waiting(block: Block, elsewhere: frozenset[str]) -> Waiting:
    """Say what waits in a block, of which other assertions mention the names `elsewhere`."""
    if not block.units:
        return Waiting(block.can_fail)
    reached = _reached(block.units, block.reads | elsewhere)
    tests = tuple(one.name for one in block.units if one.is_test and one.name not in reached)
    reached = _reached(block.units, block.reads | elsewhere | set(tests))
    if block.can_fail or any(one.can_fail for one in block.units if one.name in reached):
        return Waiting(True, tests)
    return Waiting(False, tests, any(one.is_check and one.can_fail for one in block.units))


def without_runners(tree: ast.Module) -> None:
    """Take out `unittest.main()`: it would look for tests in a module there is none of."""
    tree.body = [one for one in tree.body if not _is_runner(one)]


def _reached(units: tuple[Unit, ...], names: Iterable[str]) -> set[str]:
    found = set(names)
    size = -1
    while size != len(found):
        size = len(found)
        for one in units:
            if one.name in found:
                found |= one.reads
    return found


def _running(statements: Iterable[ast.AST], definitions: list[Definition]) -> Iterator[ast.AST]:
    """Go through all that runs when the block does; add to `definitions` what it defines."""
    left = list(statements)
    while left:
        node = left.pop(0)
        if isinstance(node, _DEFINITIONS):
            definitions.append(node)
            left += node.decorator_list
            continue
        if isinstance(node, ast.If) and _asks_for_main(node.test):
            left += node.orelse
            continue
        yield node
        left += ast.iter_child_nodes(node)


def _asks_for_main(test: ast.expr) -> bool:
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant)}
    return "__name__" in names and "__main__" in texts


def _names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def _other_names(tree: ast.Module) -> dict[str, str]:
    """Return what imported names were called where they come from."""
    return {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }


def _can_fail(node: ast.AST, named: dict[str, str]) -> bool:
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else ""
    if isinstance(called, ast.Name):
        name = named.get(called.id, called.id)
    return name.startswith("assert") or name in _FAILING_CALLS


def _is_test(one: Definition) -> bool:
    if not isinstance(one, ast.ClassDef):
        return one.name.startswith("test") and _required(one) == 0
    methods = [part.name for part in one.body if isinstance(part, _DEFINITIONS)]
    is_kind = one.name.startswith("Test") and "__init__" not in methods
    inherits = bool(one.bases)  # from unittest.TestCase, perhaps by way of another class
    return (is_kind or inherits) and any(name.startswith(("test", "runTest")) for name in methods)


def _required(one: ast.stmt) -> int:
    """Return how many arguments a function cannot be called without; -1 for a class."""
    if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
        return -1
    given = one.args
    named = sum(default is None for default in given.kw_defaults)
    return len(given.posonlyargs) + len(given.args) - len(given.defaults) + named


def _is_runner(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    if not isinstance(called, ast.Attribute) or called.attr != "main":
        return False
    return isinstance(called.value, ast.Name) and called.value.id in _RUNNERS
