"""What a text is as Python: whether it parses, what it defines, what it needs.

Parsing never runs anything. Texts are hostile: whatever the parser throws at depth, size or
odd characters means that the text is no program.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Final, NamedTuple

MAX_SOURCE: Final = 200_000  # characters; a longer text is handed on unparsed
_NAME: Final = "<program>"  # in place of a file's, in what the parser says
_ATTEMPTS: Final = 20
# Odd escapes in a model's code are its own affair.
_QUIET: Final = ("ignore", None, Warning, re.compile(_NAME), 0)

_WORD_SHAPES: Final = (
    ast.Expr, ast.Name, ast.Constant, ast.Tuple, ast.Load, ast.UnaryOp, ast.unaryop,
    ast.BinOp, ast.operator, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop,
)  # fmt: skip


class Outline(NamedTuple):
    """A program's top-level names, the names it reads anywhere, and what kind it is."""

    defines: frozenset[str]
    reads: frozenset[str]
    imports: frozenset[str]  # those of `defines` that are imported
    has_definition: bool  # a function or class at the top level
    is_prose: bool  # nothing but bare names and constants, as one word of English would be


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree, or None if this is no Python that can be parsed here."""
    if len(source) > MAX_SOURCE:
        return None
    try:
        return tree_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_of(source: str) -> ast.Module:
    """Return the syntax tree as `ast.parse` does, without its warnings, in any thread.

    Raises `SyntaxError`, `ValueError`, `RecursionError` or `MemoryError`. Python counts how deep
    it is in a tree in one place for all threads, and when another thread built one meanwhile it
    takes the difference for a fault of its own (`SystemError`); then the tree is built again.
    """
    # in front, each time: a filter that somebody put there may make errors of warnings; and not
    # by `catch_warnings`, which sets back in one thread what holds in all
    if warnings.filters[:1] != [_QUIET]:
        warnings.filterwarnings("ignore", module=_NAME)
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(source, _NAME)
        except SystemError:
            continue
    return ast.parse(source, _NAME)


def outline(source: str) -> Outline | None:
    """Return what a program defines and needs, or None if it does not parse."""
    tree = parsed(source)
    if tree is None:
        return None
    defines: set[str] = set()
    imports: set[str] = set()
    has_definition = False
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            has_definition = True
            defines.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            imports.update((name.asname or name.name).split(".")[0] for name in statement.names)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            defines.update(_stored(statement))
    nodes = list(ast.walk(tree))
    reads = {node.id for node in nodes if isinstance(node, ast.Name) and _loads(node)}
    prose = all(_is_wordlike(statement) for statement in tree.body)
    return Outline(
        frozenset(defines | imports), frozenset(reads), frozenset(imports), has_definition, prose
    )


def free_names(tree: ast.AST) -> frozenset[str]:
    """Return the names a text mentions and does not bind, in whatever scope."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if _loads(node) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return frozenset(read - bound)


def without_calls(source: str) -> str | None:
    """Return a program without its bare expressions, or None if it does not parse."""
    tree = parsed(source)
    if tree is None:
        return None
    lines = source.split("\n")
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            end = statement.end_lineno or statement.lineno
            for number in range(statement.lineno - 1, end):
                lines[number] = ""
    return "\n".join(line for line in lines if line.strip())


def _loads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _stored(statement: ast.stmt) -> set[str]:
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _is_wordlike(statement: ast.stmt) -> bool:
    """Say whether prose could have this shape: a word, a number, ``a, b``, ``this: that``."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    if not isinstance(statement, ast.Expr):
        return False
    return all(isinstance(node, _WORD_SHAPES) for node in ast.walk(statement))
