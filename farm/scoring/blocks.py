"""Reads what of a block of statements runs by itself, and what waits in functions and classes.

A block judges only by what runs: an `assert` in a function that nothing calls cannot fail. Test
functions and test classes wait to be called as pytest and unittest would, and a function
`check(candidate)` to be called with the function under test. Whether one was called is seen when
the block runs, by a mark at its beginning: a text that mentions it may do anything with it.
Pure: a syntax tree in, names out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FAILING_CALLS = ("raises", "fail", "warns", "deprecated_call")
_RUNNERS = ("unittest", "pytest")
_ARGUMENTS = frozenset(("parametrize", "usefixtures"))
CHECK = "check"
RAN = "farm_ran"  # what a marked function calls first, with its qualified name


class Unit(NamedTuple):
    """A function or class that a block defines."""

    name: str
    reads: frozenset[str]  # names it mentions, wherever
    can_fail: bool
    is_test: bool  # or a class that may hold tests, be they of another class
    is_check: bool  # check(candidate): takes the function under test
    needs_pytest: bool = False  # a test or a fixture that nothing but pytest can call


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

    judges: bool  # without what is to be called
    tests: tuple[str, ...] = ()  # those to be called unless they have been
    check: bool = False  # likewise its check(candidate)
    beyond: tuple[str, ...] = ()  # likewise those that need pytest itself


def block_of(tree: ast.Module) -> Block:
    """Look a block over."""
    named = other_names(tree)
    definitions: list[Definition] = []
    running = list(_running(tree.body, definitions))
    units = [
        Unit(
            name=one.name,
            reads=_names(ast.walk(one)) - {one.name},
            can_fail=any(fails(node, named) for node in ast.walk(one)),
            is_test=_is_test(one),
            is_check=one.name == CHECK and _required(one) == 1,
            needs_pytest=_needs_pytest(one, named),
        )
        for one in definitions
    ]
    can_fail = any(fails(node, named) for node in running)
    return Block(_names(running), can_fail, tuple(units))


def waiting(block: Block, elsewhere: frozenset[str], calls: frozenset[str]) -> Waiting:
    """Say what waits in a block, of whose names other assertions mention and call these."""
    reached = _reached(block.units, block.reads | elsewhere)
    waits = [  # a check that is mentioned may be a function of the tests' own, of any argument
        one
        for one in block.units
        if _waits(one) and one.name not in (elsewhere if one.is_check else calls)
    ]
    tests = tuple(one.name for one in waits if one.is_test)
    check = any(one.is_check for one in waits)
    judging = [one for one in block.units if one.can_fail and one not in waits]
    judges = block.can_fail or any(one.name in reached for one in judging)
    beyond = [one.name for one in block.units if one.needs_pytest and one.name not in calls]
    return Waiting(judges, tests, check, tuple(beyond))


def mark_tests(tree: ast.Module) -> None:
    """Have every test and check of a block tell, by its qualified name, that it is run."""
    left: list[tuple[str, ast.AST]] = [("", one) for one in tree.body]
    while left:
        inside, node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == CHECK or node.name.startswith(("test", "runTest")):
                name = ast.Constant(inside + node.name)
                told = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [name], []))
                place = 0 if ast.get_docstring(node, clean=False) is None else 1
                node.body.insert(place, told)
            continue
        if isinstance(node, ast.ClassDef):
            inside += node.name + "."
        left += [(inside, one) for one in ast.iter_child_nodes(node)]
    ast.fix_missing_locations(tree)


def without_runners(tree: ast.Module) -> None:
    """Take out `unittest.main()`: it would look for tests in a module there is none of."""
    mains = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _RUNNERS
        for alias in node.names
        if alias.name == "main"
    }
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(node, field, None)
            if isinstance(inner, list) and any(_is_runner(one, mains) for one in inner):
                left = [one for one in inner if not _is_runner(one, mains)]
                empty = not left and not isinstance(node, ast.Module)
                setattr(node, field, [ast.copy_location(ast.Pass(), node)] if empty else left)


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


def other_names(tree: ast.Module) -> dict[str, str]:
    """Return what imported names were called where they come from."""
    return {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }


def fails(node: ast.AST, named: Mapping[str, str]) -> bool:
    """Say whether a node asserts or raises; `named` is what imported names were called."""
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else ""
    if isinstance(called, ast.Name):
        name = named.get(called.id, called.id)
    return name.startswith("assert") or name in _FAILING_CALLS


def _waits(one: Unit) -> bool:
    return one.is_test or (one.is_check and one.can_fail)


def _is_test(one: Definition) -> bool:
    if isinstance(one, ast.ClassDef):
        return one.name.startswith("Test") or bool(one.bases)
    marks = _words(one.decorator_list)
    if not one.name.startswith("test") or _is_fixture(one) or marks & _ARGUMENTS:
        return False
    return _required(one) == 0 or _is_given(marks)


def _needs_pytest(one: Definition, named: Mapping[str, str], own: int = 0) -> bool:
    """Say whether a definition is a fixture for all tests, or a test of arguments or fixtures.

    `own` of its arguments are not looked for: a method's object.
    """
    marks = _words(one.decorator_list)
    if _is_fixture(one):
        return "autouse" in marks
    if isinstance(one, ast.ClassDef):
        parts = [part for part in one.body if isinstance(part, _DEFINITIONS)]
        tests = one.name.startswith("Test") and any(map(_is_method, parts))
        return tests and (
            bool(marks & _ARGUMENTS) or any(_needs_pytest(part, named, 1) for part in parts)
        )
    if not one.name.startswith("test") or not any(fails(node, named) for node in ast.walk(one)):
        return False
    return bool(marks & _ARGUMENTS) or (_required(one) > own and not _is_given(marks))


def _is_given(marks: set[str]) -> bool:
    """Say whether something else than pytest gives a test its arguments: hypothesis, or mock."""
    return bool(marks) and not marks & {"pytest", "mark"}


def _is_method(one: Definition) -> bool:
    return not isinstance(one, ast.ClassDef) and one.name.startswith("test")


def _is_fixture(one: Definition) -> bool:
    return "fixture" in _words(one.decorator_list)


def _words(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names, attributes and keywords that occur in expressions."""
    every = [part for node in nodes for part in ast.walk(node)]
    words = {node.id for node in every if isinstance(node, ast.Name)}
    words |= {node.arg or "" for node in every if isinstance(node, ast.keyword)}
    return words | {node.attr for node in every if isinstance(node, ast.Attribute)}


def _required(one: ast.stmt) -> int:
    """Return how many arguments a function cannot be called without; -1 for a class."""
    if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
        return -1
    given = one.args
    named = sum(default is None for default in given.kw_defaults)
    return len(given.posonlyargs) + len(given.args) - len(given.defaults) + named


def _is_runner(statement: ast.stmt, mains: set[str]) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    if isinstance(called, ast.Name):
        return called.id in mains
    if not isinstance(called, ast.Attribute) or called.attr != "main":
        return False
    return isinstance(called.value, ast.Name) and called.value.id in _RUNNERS
