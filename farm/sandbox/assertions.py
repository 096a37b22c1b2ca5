"""Reads one assertion: an expression, an `assert`, or a block of statements with asserts.

Pure: text in, a compiled `Assertion` out. Used by the tester, and by the candidate only when a
task asks to be graded in process.
"""

from __future__ import annotations

import ast
import builtins
import re
from types import CodeType
from typing import NamedTuple

# What an assertion writes as type(x) or x.__class__ is asked of the program when x is one of
# its objects.
KIND_OF = "__kind_of__"
_BUILTINS = frozenset(vars(builtins))
# A long text that begins like a statement and has a line that asserts needs no closer look.
_LONG = 200
_PLAINLY_A_BLOCK = re.compile(r"\s*(?:(?:def|class|import|from|assert)\b|[A-Za-z_]\w*\s*=[^=])")
_ASSERT_LINE = re.compile(r"^\s*assert\b", re.MULTILINE)
_ASKS_FOR_KIND = re.compile(r"\b(?:type|__class__)\b")


class BadAssertion(Exception):
    """The assertion itself is at fault, not the program it judges."""


class Assertion(NamedTuple):
    """A compiled assertion and what can be told from its text alone."""

    code: CodeType
    is_expression: bool
    calls: frozenset[str]  # plain names it calls
    can_fail: bool  # it asserts, raises, or calls a method named assert...
    overridable: str  # a builtin it calls on literals and nothing else is called, or ""


def read(text: str) -> Assertion:
    """Compile one assertion; raises `BadAssertion` saying what is wrong with it."""
    asks_for_kind = _ASKS_FOR_KIND.search(text) is not None
    is_block = len(text) > _LONG and _PLAINLY_A_BLOCK.match(text) and _ASSERT_LINE.search(text)
    if is_block and not asks_for_kind:
        return _read_block(text)
    try:
        tree = ast.parse(text.strip(), "<assertion>")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not parse: {error}") from error
    if not tree.body:
        raise BadAssertion("the assertion is empty")
    calls: list[ast.Call] = []
    can_fail = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            calls.append(node)
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            can_fail = can_fail or name.startswith("assert")
        elif isinstance(node, ast.Assert | ast.Raise):
            can_fail = True
    names = frozenset(node.func.id for node in calls if isinstance(node.func, ast.Name))
    overridable = _overridden_builtin(calls, names) if len(names) == 1 else ""
    if asks_for_kind:
        tree = ast.fix_missing_locations(_AskForKind().visit(tree))
    only = tree.body[0]
    is_expression = len(tree.body) == 1 and isinstance(only, ast.Expr)
    try:
        if is_expression and isinstance(only, ast.Expr):
            code = compile(ast.Expression(only.value), "<assertion>", "eval")
        else:
            code = compile(tree, "<assertion>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not compile: {error}") from error
    return Assertion(code, is_expression, names, can_fail, overridable)


def _read_block(text: str) -> Assertion:
    """Compile a long block without looking at its tree, which would take twice the time."""
    try:
        code = compile(text.strip(), "<assertion>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAssertion(f"the assertion does not compile: {error}") from error
    return Assertion(code, False, frozenset(code.co_names), True, "")


def _overridden_builtin(calls: list[ast.Call], names: frozenset[str]) -> str:
    """Return the builtin a task is named like (`sum(10, 15) == 6`), or "".

    Then it is the only thing called.
    The call must be on literals, so that a builtin the tests rely on cannot be taken over.
    """
    if any(not isinstance(node.func, ast.Name) for node in calls):
        return ""
    (name,) = names
    if name not in _BUILTINS:
        return ""
    literal = all(_is_literal(part) for node in calls for part in _arguments(node))
    return name if literal else ""


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *[keyword.value for keyword in node.keywords]]


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


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
