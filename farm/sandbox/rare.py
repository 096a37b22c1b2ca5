"""Plain values that few programs use: decimals, fractions, dates, paths, arrays.

Kept apart from `plain` because each needs a module that the zygote does not load: a value's
module is imported on the other side only when such a value arrives.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from farm.sandbox.frames import PeerBroke

_NUMBERS = (bool, int, float, complex, str)  # what numpy's plain types hold
_PATHS = ("pathlib", "pathlib._local")
_KINDS_OF_PATHS = ("PurePosixPath", "PureWindowsPath", "PosixPath")
_KEY = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
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
    if type(home) is not str or home not in (
        "decimal",
        "fractions",
        "datetime",
        "numpy",
        "uuid",
        *_PATHS,
    ):
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
    elif name == "datetime":
        return _pack_aware(value)
    elif name == "UUID":
        parts = (value.int,)
    elif home in _PATHS:
        return packed_path(value) if name.startswith("Pure") else None
    elif name == "timedelta":
        parts = (value.days, value.seconds, value.microseconds)
    elif home == "numpy":
        return _pack_numpy(name, value, part)
    return None if parts is None else tagged(name, [part(one) for one in parts])


def is_a_path(kind: type) -> bool:
    """Say whether a class is one of Python's for paths."""
    return kind.__module__ in _PATHS and kind.__name__ in _KINDS_OF_PATHS


def packed_path(path: Any) -> Any:
    """Return the packed form of a path; of one with a file system behind it, only to lend it."""
    return tagged("path", [type(path).__name__, str(path)])


def pure_path(path: Any) -> Any:
    """Return the path alone, without a file system behind it."""
    import pathlib  # the path is of it

    return pathlib.PurePosixPath(str(path))


def _pack_aware(value: Any) -> Any:
    zone = value.tzinfo
    parts = [value.replace(tzinfo=None).isoformat(), value.fold]
    if type(zone).__module__ == "zoneinfo" and type(getattr(zone, "key", None)) is str:
        return tagged("zoned", [*parts, zone.key])
    if type(zone).__module__ != "datetime" or type(zone).__name__ != "timezone":
        return None
    offset = zone.utcoffset(None)
    name = zone.tzname(None)
    plainly = type(zone)(offset).tzname(None)
    at = [offset.days, offset.seconds, offset.microseconds]
    return tagged("aware", [*parts, *at, None if name == plainly else name])


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
    return tagged(
        "scalar", [part(one) for one in (dtype.str, str(value) if wide else value.item())]
    )


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


def _aware(
    text: str, fold: int, days: int, seconds: int, microseconds: int, name: str | None
) -> Any:
    import datetime  # as above

    _exactly([text], str)
    _exactly([fold, days, seconds, microseconds], int)
    _exactly([name], str, type(None))
    offset = datetime.timedelta(days, seconds, microseconds)
    zone = datetime.timezone(offset) if name is None else datetime.timezone(offset, name)
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _zoned(text: str, fold: int, key: str) -> Any:
    import datetime  # as above
    import zoneinfo

    _exactly([text, key], str)
    _exactly([fold], int)
    if not _KEY.fullmatch(key):
        raise PeerBroke("a time is of a zone that cannot be")
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(key), fold=fold)


def _uuid(number: int) -> Any:
    import uuid  # as above

    _exactly([number], int)
    return uuid.UUID(int=number)


def _path(kind: str, text: str) -> Any:
    import pathlib  # as above

    _exactly([kind, text], str)
    if kind not in _KINDS_OF_PATHS:
        raise PeerBroke("a path is of no kind of path")
    return getattr(pathlib, kind)(text)


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
    "aware": _aware,
    "zoned": _zoned,
    "UUID": _uuid,
    "path": _path,
    "ndarray": _array,
    "scalar": _scalar,
}
