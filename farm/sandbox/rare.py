"""Plain values that few programs use: decimals, fractions, dates, arrays.

Kept apart from `plain` because each needs a module that the zygote does not load: a value's
module is imported on the other side only when such a value arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from farm.sandbox.frames import PeerBroke

_NUMBERS = (bool, int, float, complex, str)  # what numpy's plain types hold
_FLOAT_BYTES, _COMPLEX_BYTES = 8, 16
# Views cross as they are at that moment; a dictionary of the tests' own never does.
_VIEWS: dict[type, str] = {
    type({}.keys()): "keys",
    type({}.values()): "values",
    type({}.items()): "items",
}


def tagged(tag: str, body: Any) -> dict[str, Any]:
    """Return the wire form of a value that is not JSON's own."""
    return {"t": tag, "v": body}


def pack(value: Any, part: Callable[[Any], Any]) -> Any:
    """Return the packed form of a rare value, None for anything else; `part` packs parts.

    Modules are looked up, never imported to check.
    """
    kind = type(value)
    if value is Ellipsis or value is NotImplemented:
        return tagged("singleton", [str(value)])
    if kind in _VIEWS:
        return tagged(_VIEWS[kind], [part(one) for one in list(value)])
    home = kind.__module__
    if type(home) is not str or home not in ("decimal", "fractions", "datetime", "numpy"):
        return None
    module = sys.modules.get(home)
    if module is None or getattr(module, kind.__name__, None) is not kind:
        return None
    parts: tuple[Any, ...] | None = None
    name = kind.__name__
    if name == "Decimal":
        parts = (str(value),)
    elif name == "Fraction":
        parts = (value.numerator, value.denominator)
    elif name in ("date", "time") or (name == "datetime" and value.tzinfo is None):
        parts = (value.isoformat(),)
    elif name == "timedelta":
        parts = (value.days, value.seconds, value.microseconds)
    elif home == "numpy":
        return _pack_numpy(name, value, part)
    return None if parts is None else tagged(name, [part(one) for one in parts])


def _pack_numpy(name: str, value: Any, part: Callable[[Any], Any]) -> Any:
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "biufcU":
        return None
    if dtype.kind == "c" and dtype.itemsize > _COMPLEX_BYTES:
        return None
    # wider than Python's own: told by its digits
    wide = dtype.kind == "f" and dtype.itemsize > _FLOAT_BYTES
    if name == "ndarray":
        shape = tuple(value.shape)
        flat = tuple(map(str, value.ravel()) if wide else value.ravel().tolist())
        return tagged("ndarray", [part(one) for one in (dtype.str, shape, flat)])
    return tagged("scalar", [part(one) for one in (dtype.str, str(value) if wide else value.item())])


def _exactly(parts: Sequence[Any], *kinds: type) -> None:
    """Refuse parts that are not of these very types.

    A library that is handed an object of the program's asks it how it is to be read, and may
    read this process's memory where the answer says.
    """
    if not all(type(part) in kinds for part in parts):
        raise PeerBroke("a value is made of parts that it cannot have")


def _singleton(name: str) -> Any:
    return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[name]


def _decimal(text: str) -> Any:
    from decimal import Decimal  # imported where a value needs it: the zygote stays small

    _exactly([text], str)
    return Decimal(text)


def _fraction(numerator: int, denominator: int) -> Any:
    from fractions import Fraction  # as above

    _exactly([numerator, denominator], int)
    return Fraction(numerator, denominator)


def _moment(kind: str) -> Callable[..., Any]:
    def read(*parts: Any) -> Any:
        import datetime  # as above

        _exactly(parts, int if kind == "timedelta" else str)
        made = getattr(datetime, kind)
        return made(*parts) if kind == "timedelta" else made.fromisoformat(*parts)

    return read


def _array(dtype: str, shape: tuple[int, ...], flat: tuple[Any, ...]) -> Any:
    import numpy  # as above, and only where a program or an assertion made an array

    _exactly([shape, flat], tuple)
    _exactly(shape, int)
    _exactly(flat, *_NUMBERS)
    return numpy.array(flat, dtype=_numeric(dtype)).reshape(shape)


def _scalar(dtype: str, value: Any) -> Any:
    import numpy  # as above

    _exactly([value], *_NUMBERS)
    return numpy.dtype(_numeric(dtype)).type(value)


def _numeric(dtype: str) -> str:
    if type(dtype) is not str or not (
        dtype[:1] in tuple("<>|=") and dtype[1:2] in tuple("biufcU") and dtype[2:].isdigit()
    ):  # anything longer may be a record, and hold objects
        raise PeerBroke("an array of an unknown type")
    return dtype


MAKERS: dict[str, Callable[..., Any]] = {
    "keys": lambda *parts: dict.fromkeys(parts).keys(),
    "values": lambda *parts: dict(enumerate(parts)).values(),
    "items": lambda *parts: dict(parts).items(),
    "singleton": _singleton,
    "Decimal": _decimal,
    "Fraction": _fraction,
    "date": _moment("date"),
    "time": _moment("time"),
    "datetime": _moment("datetime"),
    "timedelta": _moment("timedelta"),
    "ndarray": _array,
    "scalar": _scalar,
}
