"""What of Python a program may mean by name: an allow-list, and nothing beside it.

A name the program sends stands for nothing of the tester's process unless it is here. Types and
functions here do no more than their arguments say: none runs text, opens, imports, or shows what
the process holds. Everything else of Python's stays the program's own, called in its process.
"""

from __future__ import annotations

import builtins
import sys

_PURE = frozenset((
    "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr",
    "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "hash", "hex",
    "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next",
    "object", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "zip",
)) | {
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}  # fmt: skip
# Modules that assertions may use because the program has imported them: by the assertions' word
# for them only, so that a program cannot put one in another's place.
_MODULES = {
    name: name
    for name in (
        "abc", "asyncio", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses",
        "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "io",
        "itertools", "json", "math", "numbers", "numpy", "operator", "random", "re",
        "statistics", "string", "sys", "textwrap", "time", "types", "typing",
    )
} | {"np": "numpy"}  # fmt: skip
# Of these, what no honest program calls something of its own.
NO_NAME_OF_ITS_OWN = frozenset((
    "asyncio", "cmath", "collections", "functools", "itertools", "json", "math", "np", "numpy",
    "random", "re", "statistics", "sys",
))  # fmt: skip
# Exceptions of the library that a test may expect. Each is met only where the tests have
# imported its module: a program's word imports nothing.
_ERRORS = {
    "_csv": ("Error",),
    "_queue": ("Empty",),
    "binascii": ("Error", "Incomplete"),
    "concurrent.futures._base": ("BrokenExecutor", "InvalidStateError"),
    "configparser": (
        "Error", "NoSectionError", "NoOptionError", "DuplicateSectionError", "ParsingError",
        "DuplicateOptionError", "InterpolationError", "MissingSectionHeaderError",
    ),
    "copy": ("Error",),
    "dataclasses": ("FrozenInstanceError",),
    "decimal": (
        "Clamped", "ConversionSyntax", "DecimalException", "DivisionByZero",
        "DivisionImpossible", "DivisionUndefined", "FloatOperation", "Inexact",
        "InvalidContext", "InvalidOperation", "Overflow", "Rounded", "Subnormal", "Underflow",
    ),
    "graphlib": ("CycleError",),
    "ipaddress": ("AddressValueError", "NetmaskValueError"),
    "json.decoder": ("JSONDecodeError",),
    "numpy.linalg": ("LinAlgError",),
    "queue": ("Full",),
    "re": ("error",),
    "re._constants": ("error",),
    "statistics": ("StatisticsError",),
    "struct": ("error",),
    "xml.etree.ElementTree": ("ParseError",),
    "zlib": ("error",),
    "zoneinfo._common": ("ZoneInfoNotFoundError",),
}  # fmt: skip


# By attributes so named a library asks an object where its memory lies, or what is to become
# of a result; the program has no say in either.
_STEERING = (
    "__array", "__arrow", "__buffer", "__c_stream", "__cuda_array", "__dataframe", "__dlpack",
    "__sycl_usm", "_as_parameter_",
)  # fmt: skip


def steers_a_library(attribute: str) -> bool:
    """Say whether a library looks for an attribute of this name, to act on what it says."""
    return attribute.startswith(_STEERING)


def error_of(module: str, name: str) -> type[BaseException] | None:
    """Return an exception of the library that this process has loaded already, or None."""
    if name not in _ERRORS.get(module, ()):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def is_pure(name: str) -> bool:
    """Say whether a builtin of this name is the same thing in any process."""
    return name in _PURE


def module_meant(name: str) -> str:
    """Return the module that a global name of the assertions means where it is one, or ""."""
    return _MODULES.get(name, "")
