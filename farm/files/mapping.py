"""Turn a record as somebody else wrote it into the fields of a case: --map and its kin.

Works on one parsed JSON object and never guesses: what is neither mapped nor a field of a case
is refused unless the rules say to ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from farm.core.case import MAX_TEXT_BYTES, Breach, Case
from farm.errors import UsageError

CASE_FIELDS: Final = Case.__struct_fields__
_LINE_FACTOR: Final = 32  # several texts a record, each up to six bytes a byte when escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the records of an input are to be read."""

    max_text_bytes: int = MAX_TEXT_BYTES  # for each text, in UTF-8 bytes
    map: tuple[tuple[str, str], ...] = ()  # (field of a case, path in the record)
    ignore_extra: bool = False  # drop members that are no field of a case
    auto_id: bool = False  # make an id from the content where there is none
    coerce: bool = False  # take numbers and booleans for text, as they are written

    @property
    def max_line_bytes(self) -> int:
        """The most bytes a record may have before it is parsed."""
        return _LINE_FACTOR * self.max_text_bytes

    @property
    def plain(self) -> bool:
        """Whether records must be written as cases are, so that they can be decoded as such."""
        return not (self.map or self.ignore_extra or self.auto_id or self.coerce)


@dataclass(frozen=True, slots=True)
class Constant:
    """A word JSON does not have: NaN, Infinity or -Infinity."""

    word: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written, so that no digit is lost before its field is known."""

    literal: str


def parse_map(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a --map value such as ``response=output.text,expected=target``.

    Raises UsageError for a pair without ``=``, an empty side, a name that is no field of a
    case, or a field given twice.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(","):
        field, equals, path = (part.strip() for part in pair.partition("="))
        if not (field and equals and path):
            raise UsageError(f"--map {pair!r} is no pair: write field=path, as in response=output")
        if field not in CASE_FIELDS:
            raise UsageError(f"--map {field!r} is no field: choose one of {', '.join(CASE_FIELDS)}")
        if field in pairs:
            raise UsageError(f"--map gives {field!r} twice: give it once")
        pairs[field] = path
    return tuple(pairs.items())


def lay_out(record: Mapping[str, object], rules: Rules) -> tuple[dict[str, object], list[Breach]]:
    """Return the members of a record under the names of a case's fields, and what is wrong.

    A mapped field takes its value from its path alone, and is absent when that leads nowhere.
    The top member a path starts in counts as used. Every other member must be a field of a case
    that is not mapped, or is extra.
    """
    fields: dict[str, object] = {}
    breaches: list[Breach] = []
    used = set()
    for field, path in rules.map:
        head, found, value = _look_up(record, path)
        used.add(head)
        if found:
            fields[field] = value
    mapped = {field for field, _ in rules.map}
    for name, value in record.items():
        if name in CASE_FIELDS and name not in mapped:
            fields[name] = value
        elif name not in used and not rules.ignore_extra:
            breaches.append(_unknown(name, mapped=name in mapped))
    return fields, breaches


def _look_up(record: Mapping[str, object], path: str) -> tuple[str, bool, object]:
    """Return the top member a path starts in, whether it leads anywhere, and to what.

    A member whose name is the whole path wins over a walk; numbers index lists.
    """
    if path in record:
        return path, True, record[path]
    head, *steps = path.split(".")
    value: object = record
    for step in (head, *steps):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and len(step) < 10:
            if int(step) >= len(value):
                return head, False, None
            value = value[int(step)]
        else:
            return head, False, None
    return head, True, value


def _unknown(name: str, *, mapped: bool) -> Breach:
    detail = "is no field of a case: remove it, map it with --map, or drop it with --ignore-extra"
    if mapped:
        detail = "is mapped from elsewhere: remove it, or drop it with --ignore-extra"
    return Breach(field=shown_name(name), rule="unknown_field", detail=detail)


def shown_name(name: str) -> str:
    """Return a member's name fit for a message: as it is if it is tame, else by repr, cut."""
    if name in CASE_FIELDS:
        return name
    return repr(name if len(name) <= 60 else name[:60] + "…")
