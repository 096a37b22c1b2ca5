"""Which programs the restricted task accepts: a small language inside Python.

Pure: source in, a refusal or None out. The task asks for one function, `invoice_total(rows)`;
the language is just enough to write it in, so that an accepted program can be read as a whole.
A refusal for syntax says nothing about the program's answer: it was not evaluated. Running what
is accepted is left to `farm.sandbox.restricted`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from typing import Literal

from farm.scoring.syntax import tree_of

ENTRY_POINT = "invoice_total"

Reason = Literal[
    "function_contract",
    "restricted_syntax",
    "restricted_identity",
    "private_name",
    "restricted_attribute",
    "restricted_call",
    "invalid_or_timeout",
]

_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.For,
    ast.If, ast.Return, ast.Raise, ast.Pass, ast.Expr, ast.Constant, ast.Name, ast.Load,
    ast.Store, ast.Subscript, ast.Attribute, ast.Call, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.UnaryOp, ast.USub, ast.Not, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is,
    ast.IsNot,
)  # fmt: skip
_CALLABLE_NAMES = frozenset({"ValueError", "int"})
_CALLABLE_METHOD = "get"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a program is not run: the rule, and where it is broken (line 0: as a whole)."""

    reason: Reason
    detail: str
    line: int = 0


def check(source: str) -> Refusal | None:
    """Return the first rule a program breaks, in the order of its text, or None.

    A program that is no Python at all is `invalid_or_timeout`: that is a wrong answer, not a
    matter of this language.
    """
    try:
        tree = tree_of(source.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Refusal(reason="invalid_or_timeout", detail=f"the program does not parse: {error}")
    refusal = _check_contract(tree)
    if refusal is not None:
        return refusal
    methods = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    nodes = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    others = [node for node in ast.walk(tree) if not hasattr(node, "lineno")]
    nodes.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
    for node in [*nodes, *others]:
        refusal = _check_node(node, called=methods)
        if refusal is not None:
            return refusal
    return None


def _check_contract(tree: ast.Module) -> Refusal | None:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if len(functions) != 1 or tree.body != functions or functions[0].name != ENTRY_POINT:
        detail = f"the program must be exactly one function, {ENTRY_POINT}(rows)"
        return Refusal(reason="function_contract", detail=detail)
    (function,) = functions
    arguments = function.args
    one = len(arguments.posonlyargs) + len(arguments.args) == 1
    rest = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
    if not one or rest or function.decorator_list:
        detail = f"{ENTRY_POINT} takes one argument, without a default or a decorator"
        return Refusal(reason="function_contract", detail=detail, line=function.lineno)
    return None


def _check_node(node: ast.AST, *, called: set[int]) -> Refusal | None:
    refuse = partial(_refuse, node)
    if not isinstance(node, _ALLOWED):
        return refuse("restricted_syntax", f"{type(node).__name__} is not part of the language")
    if isinstance(node, ast.For) and node.orelse:
        return refuse("restricted_syntax", "a loop has no else here")
    name = getattr(node, "id", getattr(node, "arg", ""))
    if isinstance(node, ast.Name | ast.arg) and name.startswith("_"):
        return refuse("private_name", f"the name {name!r} starts with an underscore")
    if isinstance(node, ast.Attribute) and (
        node.attr != _CALLABLE_METHOD or id(node) not in called
    ):
        return refuse("restricted_attribute", f"the attribute {node.attr!r} is not a call of get")
    if isinstance(node, ast.Call):
        return _check_call(node)
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, ast.Is | ast.IsNot) and not (
                _is_none(operands[index]) or _is_none(operands[index + 1])
            ):
                return refuse("restricted_identity", "'is' compares with None only")
    return None


def _check_call(node: ast.Call) -> Refusal | None:
    if node.keywords:
        return _refuse(node, "restricted_syntax", "a call has no keyword arguments here")
    if isinstance(node.func, ast.Attribute):
        return None  # the attribute itself is checked
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _CALLABLE_NAMES:
        return _refuse(node, "restricted_call", f"a call of {name or 'an expression'!r}")
    return None


def _refuse(node: ast.AST, reason: Reason, detail: str) -> Refusal:
    return Refusal(reason=reason, detail=detail, line=getattr(node, "lineno", 0))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
