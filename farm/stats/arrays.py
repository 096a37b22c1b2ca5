"""How numbers come in: checked once, at the door of this room, as float64 arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from farm.errors import BadNumbers

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = Sequence[float] | npt.NDArray[np.generic]


def floats(values: Numbers, *, what: str) -> Floats:
    """Return the values as one-dimensional float64; text, None and nested lists are refused."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise BadNumbers(f"{what}: rows of different lengths, give one flat list") from error
    if array.size == 0:
        return np.empty(0, dtype=np.float64)
    if array.dtype.kind not in "bfiu":
        raise BadNumbers(f"{what}: must be numbers, got {_odd_one(values)}")
    if array.ndim != 1:
        raise BadNumbers(f"{what}: must be one flat list, got shape {array.shape}")
    return array.astype(np.float64)


def shares(values: Numbers, *, what: str) -> Floats:
    """Return the values as float64, each finite and inside [0, 1]; else name the first bad one."""
    array = floats(values, what=what)
    bad = np.flatnonzero(~((array >= 0.0) & (array <= 1.0)))  # NaN fails both
    if bad.size:
        first = int(bad[0])
        raise BadNumbers(
            f"{what}: value {float(array[first])!r} at index {first} is outside [0, 1]"
            + (f", {bad.size} such values in all" if bad.size > 1 else "")
        )
    return array


def same_length(first: Floats, second: Floats, *, what: str) -> None:
    """Refuse two arrays that do not pair up."""
    if first.shape != second.shape:
        raise BadNumbers(
            f"{what}: lengths {first.size} and {second.size} differ, they must pair up"
        )


def only_zero_and_one(array: Floats) -> bool:
    """Tell whether every value is exactly 0.0 or 1.0 (True for no values)."""
    return bool(((array == 0.0) | (array == 1.0)).all())


def _odd_one(values: object) -> str:
    if not isinstance(values, Iterable):
        return repr(values)
    for index, value in enumerate(values):
        if not isinstance(value, (int, float, np.number, np.bool_)):
            return f"{value!r} at index {index}"
    return f"values of type {type(values).__name__}"
