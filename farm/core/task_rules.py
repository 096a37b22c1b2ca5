"""The rules of a task's fields: what each must be, and what two must say together.

Each rule judges one value and reports faults; none raises, and none looks at a file. The
order of the checks, the numbering of lines and the values built from good records are the
business of farm.core.task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from farm.core.fewshot import embedded_example
from farm.core.vocabulary import (
    CATEGORIES,
    CHOICE_LETTERS,
    LEGAL_PAIRS,
    MAX_FEW_SHOT,
    MAX_TIMEOUT_S,
    METRICS,
    POST_PROCESSES,
    is_metric,
)

REQUIRED: Final = (
    "task_id", "category", "prompt", "targets", "metric_name", "post_process",
)  # fmt: skip
OPTIONAL: Final = ("few_shot_examples", "metadata")

TASK_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Fault(NamedTuple):
    """One rule that a record breaks."""

    rule: str
    field: str
    detail: str


class Faults:
    """Collects what is wrong with one record."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, rule: str, field: str, detail: str) -> None:
        """Note one fault; a field's foreign name is made safe to print."""
        shown = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", field[:100])
        self.found.append(Fault(rule, shown, detail))

    def clean(self, field: str) -> bool:
        """Say whether this field, and everything inside it, is without fault so far."""
        return not any(fault.field.split("[")[0] == field for fault in self.found)


def find_faults(record: object) -> list[Fault]:
    """Check one decoded record against every rule, in a fixed order.

    A field that is missing or of the wrong type is reported once and not judged further.
    """
    faults = Faults()
    if not isinstance(record, dict):
        faults.add("bad_type", "", f"expected an object, found {_kind(record)}")
        return faults.found
    for name in record:
        if name not in REQUIRED and name not in OPTIONAL:
            faults.add("unknown_field", str(name), f"{_short(str(name))} is not a field of a task")
    for name in REQUIRED:
        if name not in record:
            faults.add("missing_required", name, f"{name!r} is required")
    for name, rule in _FIELD_RULES.items():
        if name in record:
            rule(record[name], name, faults)
    _check_across(record, faults)
    return faults.found


def _kind(value: object) -> str:
    """Name a JSON value's type in JSON's own words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    names |= {list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _short(text: str) -> str:
    return ascii(text if len(text) <= 60 else text[:57] + "...")


def _text(value: object, field: str, faults: Faults) -> str | None:
    """Check that a value is text that can be written out again."""
    if not isinstance(value, str):
        faults.add("bad_type", field, f"expected a string, found {_kind(value)}")
        return None
    if _SURROGATE.search(value):
        faults.add("bad_value", field, "holds a lone surrogate, which is not text")
        return None
    return value


def _check_task_id(value: object, field: str, faults: Faults) -> None:
    text = _text(value, field, faults)
    if text is not None and not TASK_ID.fullmatch(text):
        faults.add("bad_value", field, f"{_short(text)} must be of letters, digits, '_' and '-'")


def _check_word(words: Iterable[str]) -> Callable[[object, str, Faults], None]:
    """Make the rule of a closed vocabulary."""

    def rule(value: object, field: str, faults: Faults) -> None:
        text = _text(value, field, faults)
        if text is not None and text not in words:
            faults.add("bad_value", field, f"{_short(text)} is not one of {', '.join(words)}")

    return rule


def _check_metric(value: object, field: str, faults: Faults) -> None:
    if not (isinstance(value, str) and is_metric(value)):
        _check_word(METRICS)(value, field, faults)


def _check_prompt(value: object, field: str, faults: Faults) -> None:
    text = _text(value, field, faults)
    if text is None:
        return
    if not text.strip():
        faults.add("bad_value", field, "is empty")
    elif text != text.rstrip():
        faults.add("bad_value", field, "ends in white space")
    elif (where := embedded_example(text)) is not None:
        detail = f"holds {where}; move it to few_shot_examples"
        faults.add("embedded_few_shot", field, detail)


def _check_targets(value: object, field: str, faults: Faults) -> None:
    if not isinstance(value, list):
        faults.add("bad_type", field, f"expected a list of strings, found {_kind(value)}")
        return
    if not value:
        faults.add("bad_value", field, "is empty; give at least one target")
    for index, target in enumerate(value):
        _text(target, f"{field}[{index}]", faults)


def _check_examples(value: object, field: str, faults: Faults) -> None:
    if not isinstance(value, list):
        faults.add("bad_type", field, f"expected a list of examples, found {_kind(value)}")
        return
    if len(value) > MAX_FEW_SHOT:
        faults.add("bad_value", field, f"has {len(value)} examples, at most {MAX_FEW_SHOT}")
        return
    for index, example in enumerate(value):
        place = f"{field}[{index}]"
        if not isinstance(example, dict):
            faults.add("bad_type", place, f"expected an object, found {_kind(example)}")
            continue
        for name in ("prompt", "completion"):
            if name in example:
                _text(example[name], f"{place}.{name}", faults)
            else:
                faults.add("missing_required", f"{place}.{name}", f"{name!r} is required")
        for name in [key for key in example if key not in ("prompt", "completion")]:
            faults.add(
                "unknown_field", f"{place}.{name}", f"{_short(str(name))} is not a field here"
            )


def _check_metadata(value: object, field: str, faults: Faults) -> None:
    if not isinstance(value, dict):
        faults.add("bad_type", field, f"expected an object, found {_kind(value)}")
        return
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        faults.add("bad_value", field, "cannot be written as JSON")
        return
    if _SURROGATE.search(written):
        faults.add("bad_value", field, "holds a lone surrogate, which is not text")
    if "timeout_s" not in value:
        return
    limit = value["timeout_s"]
    place = f"{field}.timeout_s"
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        faults.add("bad_type", place, f"expected a number, found {_kind(limit)}")
    elif not 0 < limit <= MAX_TIMEOUT_S:
        detail = f"{limit} must be over 0 and at most {MAX_TIMEOUT_S}"
        faults.add("bad_value", place, detail)


_FIELD_RULES: dict[str, Callable[[object, str, Faults], None]] = {
    "task_id": _check_task_id,
    "category": _check_word(CATEGORIES),
    "prompt": _check_prompt,
    "targets": _check_targets,
    "metric_name": _check_metric,
    "post_process": _check_word(POST_PROCESSES),
    "few_shot_examples": _check_examples,
    "metadata": _check_metadata,
}


def _check_across(record: Mapping[str, object], faults: Faults) -> None:
    """Check what two fields must say together, where each is sound by itself."""
    category, metric = record.get("category"), record.get("metric_name")
    if not (isinstance(category, str) and faults.clean("category")):
        return
    if isinstance(metric, str) and faults.clean("metric_name"):
        legal = LEGAL_PAIRS[category]
        if metric.partition("@")[0] not in legal:
            detail = f"{category} is scored by {', '.join(legal)}, not by {metric}"
            faults.add("illegal_pair", "metric_name", detail)
    targets = record.get("targets")
    if category == "mcq" and isinstance(targets, list) and faults.clean("targets"):
        letter = targets[0]
        if len(targets) != 1:
            faults.add("bad_value", "targets", f"a choice has one target, found {len(targets)}")
        elif len(letter) != 1 or letter not in CHOICE_LETTERS:
            detail = f"{_short(letter)} is not a letter {CHOICE_LETTERS[0]}-{CHOICE_LETTERS[-1]}"
            faults.add("bad_value", "targets[0]", detail)
