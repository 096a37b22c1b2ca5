"""Which names running a text may look up beyond the text itself.

A name that a text binds somewhere is not therefore its own where it is read: a parameter hides
one only inside its function, and a `try` around an import may bind nothing at all. Here only
what is bound for certain, before it is read, counts as the text's. Pure: a syntax tree or
compiled code in, names out.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Iterable
from types import CodeType

_LOADS = frozenset(("LOAD_NAME", "LOAD_GLOBAL"))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def looked_up_by(code: CodeType) -> frozenset[str]:
    """Return every name that code reads as a global one, the code inside it included."""
    now, later = _reads(code)
    return frozenset(now | later)


def looked_up(tree: ast.Module) -> frozenset[str]:
    """Return the names that a text may look up and has not bound for certain by then.

    What stands in functions is looked up later, when all of the text's own names are bound.
    Raises `SyntaxError` or `ValueError` as compiling does.
    """
    reader = _Reader()
    reader.read(tree.body)
    return frozenset(reader.now | (reader.later - reader.bound))


class _Reader:
    def __init__(self) -> None:
        self.now: set[str] = set()
        self.later: set[str] = set()
        self.bound: set[str] = set()

    def read(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            if isinstance(one, ast.For):
                self._take(ast.Expr(one.iter))
                self._bind(one.target)
                self.read([*one.body, *one.orelse])
                continue
            if isinstance(one, ast.ImportFrom) and one.module == "__future__":
                continue  # it stands nowhere but at the beginning
            self._take(one)
            if isinstance(one, _DEFINITIONS):
                self.bound.add(one.name)
            elif isinstance(one, ast.Import | ast.ImportFrom):
                self.bound |= {(part.asname or part.name).split(".")[0] for part in one.names}
            elif isinstance(one, ast.Assign | ast.AnnAssign):
                for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                    self._bind(target)
            elif isinstance(one, ast.Delete):
                self.bound.clear()

    def _bind(self, target: ast.expr) -> None:
        stored = (node for node in ast.walk(target) if isinstance(node, ast.Name))
        self.bound |= {node.id for node in stored if isinstance(node.ctx, ast.Store)}

    def _take(self, statement: ast.stmt) -> None:
        # in a loop, where a `break` of the loop it was taken out of may stand
        loop = ast.While(ast.Constant(True), [statement], [])
        tree = ast.fix_missing_locations(ast.Module([loop], []))
        now, later = _reads(compile(tree, "<assertion>", "exec", dont_inherit=True))
        self.now |= now - self.bound
        self.later |= later


def _reads(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the global names that code reads when it runs, and what its functions read."""
    now = {step.argval for step in dis.get_instructions(code) if step.opname in _LOADS}
    now.discard("__name__")  # which a class reads to know its module
    later: set[str] = set()
    for part in code.co_consts:
        if not isinstance(part, CodeType):
            continue
        inner, deferred = _reads(part)
        runs = part.co_name in _AT_ONCE or not part.co_flags & inspect.CO_NEWLOCALS
        (now if runs else later).update(inner)
        later |= deferred
    return now, later
