"""How far two lists hold the very same objects, which is asked of every shared list every time.

Python has no quick way to ask: comparing calls `==` of what is inside, and a loop over `is`
costs more than most programs that are judged. The lists' own tables of pointers are compared in
blocks instead, where this interpreter keeps them as CPython has for decades; that is tried once,
and a loop is used where it does not hold.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from itertools import islice
from typing import Any

_WORD = ctypes.sizeof(ctypes.c_void_p)
_TABLE_AT = 3 * _WORD  # behind the count of references, the type and the length


def _table(held: list[Any]) -> int:
    return int(ctypes.c_void_p.from_address(id(held) + _TABLE_AT).value or 0)


def _tables_are_where_expected() -> bool:
    if sys.implementation.name != "cpython" or object.__basicsize__ != 2 * _WORD:
        return False
    if list.__basicsize__ != _TABLE_AT + 2 * _WORD:
        return False
    parts: list[Any] = [object(), object()]
    found = (ctypes.c_void_p * 2).from_address(_table(parts))
    return list(found) == [id(part) for part in parts]


_QUICK = _tables_are_where_expected()
_LONG = 64
_differ = ctypes.CDLL(None).memcmp
_differ.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def leading(left: list[Any], right: list[Any]) -> int:
    """Return how many of the first parts of two lists are the same objects."""
    length = min(len(left), len(right))
    start = 0
    if _QUICK and length >= _LONG:
        mine, theirs = _table(left), _table(right)
        if not _differ(mine, theirs, length * _WORD):
            return length
        step = length
        while step > _LONG:  # halve towards the first difference
            step //= 2
            at = start * _WORD
            if not _differ(mine + at, theirs + at, step * _WORD):
                start += step
    elif all(map(operator.is_, left, right)):
        return length
    differs = map(operator.is_not, islice(left, start, None), islice(right, start, None))
    return next((start + at for at, one in enumerate(differs) if one), length)
