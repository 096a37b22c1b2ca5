"""Reads one assertion: an expression, an `assert`, or a block of statements with asserts.

Pure: text in, a compiled `Assertion` out. Used by the tester, and by the candidate only when a
task asks to be graded in process.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import NamedTuple

from farm.sandbox.lookups import looked_up, looked_up_by
from farm.scoring.blocks import (
    CHECK,
    Block,
    block_of,
    fails,
    mark_tests,
    other_names,
    without_runners,
)
from farm.scoring.syntax import free_names

# What an assertion writes as type(x) or x.__class__ is asked of the program when x is one of
# its objects.
KIND_OF = "__kind_of__"
FILE = "<assertion>"  # where a traceback says that an assertion stands
BUILTINS = frozenset(vars(builtins))
# Of these names a text alone does not tell what they reach.
_REACHING = frozenset(("eval", "exec", "globals", "locals", "vars", "__import__"))
# A long text that begins like a statement and plainly runs an assert needs no closer look.
_LONG = 200
_LONGEST_LINE = 200
_PLAINLY_A_BLOCK = re.compile(r"\s*(?:(?:def|class|import|from|assert)\b|[A-Za-z_]\w*\s*=[^=])")
_ASSERT_LINE = re.compile(r"^\s*assert\b", re.MULTILINE)
_RUNS_ASSERT = re.compile(r"^assert\b", re.MULTILINE)
_DEFINES = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
_MAY_WAIT = re.compile(r"\bdef +test|\bclass +|__main__|\bunittest\b")
_ASKS_FOR_KIND = re.compile(r"\b(?:type|__class__)\b")


NAMES_NOTHING = "the expression names nothing of the program, so it judges nothing"


class BadAssertion(Exception):
    """The assertion itself is at fault, not the program it judges."""


def needs_pytest(name: str) -> str:
    """Say why a test was not run that nothing but pytest can call."""
    return (
        f"{name} needs pytest itself, for its arguments or fixtures, so it was not run; "
        "write its values out, or call it with them"
    )


def no_one_function(count: int) -> str:
    """Say why a check was not called."""
    return (
        f"nothing calls {CHECK}, so it judges nothing, and the program defines "
        f"{count} functions, not one; add the call, or name the entry point"
    )


class Assertion(NamedTuple):
    """A compiled assertion and what can be told from its text alone."""

    code: CodeType
    is_expression: bool
    calls: frozenset[str]  # plain names it calls
    free: frozenset[str] | None  # names it mentions and does not bind; None: not looked for
    block: Block

    def names_nothing(self, overridden: frozenset[str]) -> bool:
        """Say whether this is an expression that can mean nothing of the program.

        `overridden` are the builtins that mean the program's. An `assert` is taken at its word.
        """
        if not self.is_expression or self.free is None:
            return False
        nothing = BUILTINS - overridden - _REACHING
        return self.free <= nothing and looked_up_by(self.code) <= nothing


def read(text: str, *, marked: bool = False) -> Assertion:
    """Compile one assertion; raises `BadAssertion` saying what is wrong with it.

    With `marked`, what waits in it to be called tells that it is, by the global function `RAN`.
    """
    asks_for_kind = _ASKS_FOR_KIND.search(text) is not None
    if not asks_for_kind and len(text) > _LONG and _plainly_runs_an_assert(text):
        return _read_block(text)
    tree = _parsed(text)
    free = free_names(tree)
    calls = frozenset(
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Assert | ast.Expr):
        block = Block(free, isinstance(tree.body[0], ast.Assert))  # most are: nothing can wait
    else:
        without_runners(tree)
        block = block_of(tree)
        if marked and block.units:
            mark_tests(tree)
    if asks_for_kind:
        tree = ast.fix_missing_locations(_AskForKind().visit(tree))
    only = tree.body[0] if len(tree.body) == 1 else None
    try:
        if isinstance(only, ast.Expr):
            code = _compiled(ast.Expression(only.value), "eval")
        else:
            code = _compiled(tree, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not compile: {error}") from error
    return Assertion(code, isinstance(only, ast.Expr), calls, free, block)


def _parsed(text: str) -> ast.Module:
    try:
        tree = ast.parse(text.strip(), FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not parse: {error}") from error
    if not tree.body:
        raise BadAssertion("the assertion is empty")
    return tree


def _compiled(source: str | ast.Module | ast.Expression, mode: str) -> CodeType:
    # what this file imports from `__future__` is not the tests' doing
    code: CodeType = compile(source, FILE, mode, dont_inherit=True)
    return code


def _plainly_runs_an_assert(text: str) -> bool:
    if not _PLAINLY_A_BLOCK.match(text) or _MAY_WAIT.search(text):
        return False
    defined = _DEFINES.findall(text)
    if CHECK not in defined and _RUNS_ASSERT.search(text):
        return True
    called = len(defined) == 1 and re.search(rf"^{defined[0]}\(", text, re.MULTILINE)
    return bool(called) and _ASSERT_LINE.search(text) is not None


def _read_block(text: str) -> Assertion:
    """Compile a long block without looking at its tree, which would take twice the time."""
    try:
        code = _compiled(text.strip(), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not compile: {error}") from error
    names = named_by(code)
    calls = frozenset(code.co_names).difference(_DEFINES.findall(text))
    return Assertion(code, False, calls, None, Block(names, True))


def named_by(code: CodeType) -> frozenset[str]:
    """Return the global names and the attributes that code mentions, wherever."""
    return frozenset(code.co_names).union(*[part.co_names for part in _inner(code)])


def defined_by(text: str) -> frozenset[str]:
    """Return the names of the functions and classes that a text defines for others."""
    return frozenset(_DEFINES.findall(text))


def _inner(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _inner(part)


def where_failed(text: str, code: CodeType, error: BaseException) -> str:
    """Return the line of an assertion that an error left it by, or "" where that is not told.

    `code` is what the text was compiled to; functions of other assertions are not looked into.
    """
    mine = {code, *_inner(code)}
    number = 0
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in mine:
            number = step.tb_lineno
        step = step.tb_next
    lines = text.strip().splitlines()
    if not 0 < number <= len(lines):
        return ""
    before = text[: len(text) - len(text.lstrip())].count("\n")
    return f"line {before + number}: {lines[number - 1].strip()[:_LONGEST_LINE]}"


def meant(
    text: str, mine: frozenset[str], defined: frozenset[str], others: Sequence[str] = ()
) -> frozenset[str]:
    """Return the builtin that means the program's function in one assertion, if any does.

    `defined` are builtins that the program defines anew, `mine` names that earlier assertions
    have bound, `others` all other assertions. It must be all that the assertion can mean of the
    program, alone: beside another function of the program, by whatever way it is reached, a
    builtin is what the tests compare with and cannot be taken over. Nor can one of which the
    assertion makes what others judge by.
    """
    tree = _parsed(text)
    free = free_names(tree)
    candidates = free & defined
    own = BUILTINS - mine - _REACHING
    if len(candidates) != 1 or not free <= own or not _looked_up(text) <= own:
        return frozenset()
    made = _bound(tree)
    if any(not made.isdisjoint(_looked_up(other)) for other in others):
        return frozenset()
    return candidates


def _looked_up(text: str) -> frozenset[str]:
    """Return what a text looks up; nothing for one that cannot run."""
    try:
        return looked_up(_parsed(text))
    except (BadAssertion, SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


class Helpers:
    """The functions that assertions define for themselves, looked up by name.

    `called` gives for a global name the name its function was defined by.
    """

    def __init__(self, texts: Sequence[str], called: Mapping[str, str]) -> None:
        self._called = called
        self._defined: dict[str, ast.AST] = {}
        self._imported: dict[str, str] = {}
        for text in texts:
            with contextlib.suppress(BadAssertion):
                self._take(_parsed(text))

    def _take(self, tree: ast.Module) -> None:
        self._imported |= other_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._defined[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                names = [part.id for part in node.targets if isinstance(part, ast.Name)]
                self._defined |= dict.fromkeys(names, node.value)

    @property
    def defined(self) -> frozenset[str]:
        """The names of these functions."""
        return frozenset(self._defined)

    def judge_by_raising(self, text: str) -> bool:
        """Say whether an expression is a call of one that can fail and returns nothing."""
        only = _parsed(text).body[0]
        return isinstance(only, ast.Expr) and self._returns_nothing(only.value, frozenset())

    def can_fail(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Say whether one can fail, by itself or by another; yes where that cannot be told."""
        found = self._found(name)
        if found is None:
            return not seen
        for node in ast.walk(found):
            if fails(node, self._imported):
                return True
            called = _called(node)
            if called in _REACHING or (
                called and called not in seen and self.can_fail(called, seen | {name})
            ):
                return True
        return False

    def _found(self, name: str) -> ast.AST | None:
        return self._defined.get(name) or self._defined.get(self._called.get(name, ""))

    def _returns_nothing(self, node: ast.expr, seen: frozenset[str]) -> bool:
        name = _called(node.value if isinstance(node, ast.Await) else node)
        found = self._found(name)
        if name in seen or found is None:
            return False
        if isinstance(found, ast.Lambda):
            return self._returns_nothing(found.body, seen | {name})
        returned = [one for one in _returned(found) if not _is_none(one)]
        if returned:
            return all(self._returns_nothing(one, seen | {name}) for one in returned)
        return self.can_fail(name)


def _bound(tree: ast.Module) -> frozenset[str]:
    """Return the names a text may leave behind."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found |= {node.name for node in ast.walk(tree) if isinstance(node, defined)}
    return frozenset(found) - BUILTINS


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    if isinstance(called, ast.Name):
        return called.id
    return called.attr if isinstance(called, ast.Attribute) else ""


def _returned(function: ast.AST) -> Iterator[ast.expr]:
    """Return what a function returns, functions inside it left out."""
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _AskForKind(ast.NodeTransformer):
    """Rewrites `type(x)` and `x.__class__` to `__kind_of__(x)`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr != "__class__" or not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(ast.Name(KIND_OF, ast.Load()), [node.value], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_type = isinstance(node.func, ast.Name) and node.func.id == "type"
        if is_type and len(node.args) == 1 and not node.keywords:
            node.func = ast.Name(KIND_OF, ast.Load())
        return node
