"""Which assertions leave the process that runs them as they found it.

Pure: reads compiled code. An allow-list, so whatever is not known here counts as a mark: an
import, a class, a change of an attribute, a builtin that reaches further than its arguments.
What a program sends is plain data and stand-ins and does not count; see `remote`.
"""

from __future__ import annotations

import builtins
import dis
from types import CodeType

from farm.sandbox import assertions

_REACHING = frozenset(
    dis.opmap[name]
    for name in (
        "IMPORT_NAME", "STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL",
        "LOAD_BUILD_CLASS",
    )
    if name in dis.opmap
)  # fmt: skip
_HARMLESS = frozenset((
    "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr",
    "complex", "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash",
    "hex", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min",
    "next", "object", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "type", "zip",
))  # fmt: skip
_BUILTINS = vars(builtins)


def leaves_no_mark(code: CodeType) -> bool:
    """Say whether running this code can change nothing that outlives its own global names."""
    if not _REACHING.isdisjoint(code.co_code[::2]):
        return False
    for name in code.co_names:  # globals and attributes alike
        if name in _HARMLESS or name == assertions.KIND_OF:
            continue
        if name.startswith("_") or (name in _BUILTINS and not _is_exception(name)):
            return False
    return all(leaves_no_mark(part) for part in code.co_consts if isinstance(part, CodeType))


def _is_exception(name: str) -> bool:
    kind = _BUILTINS[name]
    return isinstance(kind, type) and issubclass(kind, BaseException)
