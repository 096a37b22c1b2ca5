"""Examine one record in full: either it is a case, or everything wrong with it is named.

Slow and exact. The fast reader comes here for every record that it will not vouch for, and for
all records when the rules rewrite them. What the fast decoder accepts is accepted here too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from farm.core.canonical import canonical
from farm.core.case import MAX_COUNT, MAX_ID_BYTES, NOTHING_EXPECTED, Breach, Case, too_long
from farm.files.elements import too_deep, trailing
from farm.files.mapping import Constant, Number, Rules, lay_out, shown_name

_TEXTS: Final = ("id", "prompt", "expected", "response", "task", "category", "cluster")
_FILLED: Final = ("id", "expected")
_REQUIRED: Final = ("id", "prompt", "response")
_COUNTS: Final = ("sample", "token_count")
_FLOATS: Final = ("confidence", "token_nll")
_NOT_NEGATIVE: Final = ("sample", "token_count", "token_nll")
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_ID_FIRST: Final = b'{"id":"",'


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A record that is no case: every rule it breaks, and its id where that breaks none."""

    breaches: Sequence[Breach]
    id: str = ""  # "" where it has none, or one that is itself at fault


def examine(data: bytes, rules: Rules, *, cut: bool = False) -> Case | Broken:
    """Return the case that a record's bytes stand for, or what is wrong with it.

    `cut` says that the file ended before the record's line did: a record that breaks off is
    then called truncated. A record that is no JSON object has one breach; of an object all
    fields are examined.
    """
    parsed = _parse(data, cut=cut)
    if isinstance(parsed, Breach):
        return Broken(breaches=[parsed])
    if not isinstance(parsed.value, dict):
        if isinstance(parsed.value, Constant):
            return Broken(breaches=[_nan("", parsed.value.word)])
        wrong = _bad_type("", f"a record must be an object, this is {_kind(parsed.value)}")
        return Broken(breaches=[wrong])
    given, breaches = lay_out(parsed.value, rules)
    breaches += [_duplicate_key(name) for name in parsed.repeated]
    values: dict[str, object] = {}
    for field, value in given.items():
        found = _targets(value, rules) if field == "targets" else _value(field, value, rules)
        if isinstance(found, Breach):
            breaches.append(found)
        else:
            values[field] = found
    breaches += _missing(given, rules)
    # one in a member that is dropped, or deep inside one, still makes the line no JSON
    if parsed.constants and not any(breach.rule == "nan" for breach in breaches):
        breaches.append(_nan("", parsed.constants[0]))
    if breaches:
        sound = "id" in values and "id" not in parsed.repeated
        return Broken(breaches=breaches, id=str(values["id"]) if sound else "")
    return _built(values)


def _built(values: dict[str, object]) -> Case:
    """Build the case from checked values, with an id of its content if it has none."""
    case = Case(**{"id": "", **values})  # type: ignore[arg-type]  # each was checked for its field
    if case.id:
        return case
    content = b"{" + canonical(case).removeprefix(_ID_FIRST)
    made = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return structs.replace(case, id=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    value: object
    repeated: list[str]
    constants: list[str]


def _parse(data: bytes, *, cut: bool) -> _Parsed | Breach:
    """Parse one JSON value, with a note of repeated keys and of words JSON does not have."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is not UTF-8: write the file as UTF-8"
        return Breach(field="", rule="bad_unicode", detail=detail)
    repeated: list[str] = []
    constants: list[str] = []

    def pairs(members: list[tuple[str, object]]) -> dict[str, object]:
        record = dict(members)
        if len(record) < len(members):
            counts = Counter(name for name, _ in members)
            repeated.extend(name for name, count in counts.items() if count > 1)
        return record

    def constant(word: str) -> Constant:
        constants.append(word)
        return Constant(word)

    decoder = json.JSONDecoder(
        object_pairs_hook=pairs, parse_constant=constant, parse_int=Number, parse_float=Number
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        return _not_json(error, cut=cut)
    except RecursionError:
        return too_deep()
    return _Parsed(value=value, repeated=repeated, constants=constants)


def _not_json(error: json.JSONDecodeError, *, cut: bool) -> Breach:
    if error.msg == "Extra data":
        return trailing(f"character {error.pos + 1}")
    breaks_off = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
    if cut and breaks_off:
        detail = "the file ends in the middle of this record: fetch it again"
        return Breach(field="", rule="truncated", detail=detail)
    reason = "it breaks off" if breaks_off else error.msg.lower().removesuffix(" at")
    detail = f"is not JSON at character {error.pos + 1}, {reason}: mend the line"
    return Breach(field="", rule="bad_json", detail=detail)


def _value(field: str, value: object, rules: Rules) -> str | int | float | Breach:
    """Return a member's value as its field wants it, or what is wrong with it."""
    if isinstance(value, Constant):
        return _nan(field, value.word)
    if field in _TEXTS:
        return _text(field, value, rules)
    if not isinstance(value, Number):
        return _bad_type(field, f"must be a number, this is {_kind(value)}")
    if field in _COUNTS:
        if not _WHOLE.fullmatch(value.literal):
            return _bad_type(field, f"must be a whole number up to {MAX_COUNT}")
        number: int | float = int(value.literal)
    else:
        # the integer -0 is plain zero, as the fast decoder reads it
        number = 0.0 if value.literal == "-0" else float(value.literal)
        if not math.isfinite(number):
            return _bad_type(field, "is out of the range of a float")
    if field in _NOT_NEGATIVE and number < 0:
        return _bad_type(field, "must not be negative")
    if field in _COUNTS and number > MAX_COUNT:
        return _bad_type(field, f"must be a whole number up to {MAX_COUNT}")
    return number


def _text(field: str, value: object, rules: Rules, *, filled: bool = False) -> str | Breach:
    if rules.coerce and isinstance(value, bool | Number):
        return value.literal if isinstance(value, Number) else str(value).lower()
    if not isinstance(value, str):
        hint = ": quote it, or use --coerce" if isinstance(value, bool | Number) else ""
        return _bad_type(field, f"must be text, this is {_kind(value)}{hint}")
    if not value and (filled or field in _FILLED):
        return Breach(field=field, rule="empty_value", detail="is empty: fill it in")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            detail = f"holds half a surrogate pair, {value[error.start]!r}: mend the text"
            return Breach(field=field, rule="bad_unicode", detail=detail)
    limit = MAX_ID_BYTES if field == "id" else rules.max_text_bytes
    if len(value) * 4 > limit and (size := len(value.encode())) > limit:
        return too_long(field, size, limit=limit)
    return value


def _targets(value: object, rules: Rules) -> tuple[str, ...] | Breach:
    if not isinstance(value, list):
        return _bad_type("targets", f"must be a list of texts, this is {_kind(value)}")
    if not value:
        detail = "is empty: list at least one text, or leave it out"
        return Breach(field="targets", rule="empty_value", detail=detail)
    texts = []
    for index, element in enumerate(value):
        field = f"targets[{index}]"
        if isinstance(element, Constant):
            return _nan(field, element.word)
        text = _text(field, element, rules, filled=True)
        if isinstance(text, Breach):
            return text
        texts.append(text)
    return tuple(texts)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Number):
        return "a number"
    if isinstance(value, Constant):
        return value.word
    return "a list" if isinstance(value, list) else "an object"


def _bad_type(field: str, detail: str) -> Breach:
    return Breach(field=field, rule="bad_type", detail=detail)


def _missing(given: dict[str, object], rules: Rules) -> list[Breach]:
    """Name the fields that a record must have and has not."""
    breaches = []
    paths = dict(rules.map)
    for field in _REQUIRED:
        if field in given or (field == "id" and rules.auto_id):
            continue
        way_out = "add it, or use --auto-id" if field == "id" else "add it, or name it with --map"
        detail = f"is missing: {way_out}"
        if field in paths:
            detail = f"there is nothing at {paths[field]!r}: correct --map or the record"
        breaches.append(Breach(field=field, rule="missing_field", detail=detail))
    if not {"expected", "targets"} & given.keys():
        breaches.append(NOTHING_EXPECTED)
    return breaches


def _duplicate_key(name: str) -> Breach:
    detail = "appears more than once in one object: keep one"
    return Breach(field=shown_name(name), rule="duplicate_key", detail=detail)


def _nan(field: str, word: str) -> Breach:
    return Breach(field=field, rule="nan", detail=f"{word} is no JSON number: leave it out")
