"""A task: what a model is asked, and how its answer is judged.

A task file is JSON Lines. Everything here is a pure function of the record or the numbered
lines it is given; farm.files.tasks is the door that reads a file. A bad line never stops
the check: each is reported with its rule, and the good ones are kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Final

import msgspec

from farm.core.task_rules import TASK_ID, find_faults

RULES: Final = (
    "bad_json", "missing_required", "unknown_field", "bad_type", "bad_value", "illegal_pair",
    "embedded_few_shot", "duplicate_task_id",
)  # fmt: skip
MAX_LINE_BYTES: Final = 4_000_000  # a line is measured before it is parsed


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One worked example shown before the prompt."""

    prompt: str
    completion: str


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One task that passed every rule of `validate_task`."""

    task_id: str
    category: str
    prompt: str
    targets: tuple[str, ...]
    metric_name: str
    post_process: str
    few_shot_examples: tuple[Example, ...] = ()
    metadata: dict[str, object] = {}


class TaskError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with one line; `rule` is a word of `RULES`.

    `task_id` is null where the line has none that can be read, `field` is "" where no
    single field is at fault.
    """

    line_number: int
    task_id: str | None
    rule: str
    field: str
    detail: str


class TaskCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The good tasks of an input, in its order, and everything wrong with the others."""

    tasks: tuple[TaskSpec, ...]
    errors: tuple[TaskError, ...]

    @property
    def validated(self) -> int:
        """How many tasks passed."""
        return len(self.tasks)


def render_prompt(task: TaskSpec) -> str:
    """Join the worked examples and the prompt with blank lines.

    An example is rendered as its prompt, a space and its completion.
    """
    blocks = [f"{example.prompt} {example.completion}" for example in task.few_shot_examples]
    return "\n\n".join([*blocks, task.prompt])


def validate_task(record: object, *, line_number: int = 1) -> TaskCheck:
    """Check one decoded record against every rule.

    Returns a check with the one task and no errors, or with no task and every fault that
    can be told apart: a field that is missing or of the wrong type is reported once and
    not judged further. Never raises.
    """
    task_id = _task_id_of(record)
    errors = tuple(
        TaskError(line_number=line_number, task_id=task_id, rule=rule, field=field, detail=detail)
        for rule, field, detail in find_faults(record)
    )
    tasks = () if errors else (msgspec.convert(record, TaskSpec),)
    return TaskCheck(tasks=tasks, errors=errors)


def validate_lines(lines: Iterable[tuple[int, bytes]]) -> TaskCheck:
    """Check numbered lines of a JSON Lines text, each without or with its line end.

    Blank lines, a byte order mark before the first line and CRLF line ends are accepted.
    The order of errors is that of the lines. Never raises.
    """
    tasks: list[TaskSpec] = []
    errors: list[TaskError] = []
    seen: dict[str, int] = {}
    for number, line in lines:
        body = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not body.strip():
            continue
        try:
            record = _decode(body.rstrip(b"\r\n"))
        except _BadLine as bad:
            errors.append(_line_error(number, bad.rule, str(bad)))
            continue
        found = validate_task(record, line_number=number)
        duplicate = _duplicate(record, number, seen)
        errors.extend(found.errors)
        if duplicate is None:
            tasks.extend(found.tasks)
        else:
            errors.append(duplicate)
    return TaskCheck(tasks=tuple(tasks), errors=tuple(errors))


class _BadLine(Exception):
    """A line that is not one JSON object farm can read."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        super().__init__(detail)


def _decode(line: bytes) -> object:
    if len(line) > MAX_LINE_BYTES:
        detail = f"the line has {len(line)} bytes or more, at most {MAX_LINE_BYTES} are read"
        raise _BadLine("bad_value", detail)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _BadLine("bad_json", f"byte {error.start + 1} is not UTF-8") from error
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        # some of its messages end in an "at" already
        what = error.msg.removesuffix(" at")
        detail = f"{what[:1].lower()}{what[1:]} at column {error.colno}"
        raise _BadLine("bad_json", detail) from error
    except RecursionError as error:
        raise _BadLine("bad_json", "nested too deeply to be read") from error
    except ValueError as error:  # the interpreter's limit on the digits of one integer
        raise _BadLine("bad_json", "an integer has too many digits") from error


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise _BadLine("bad_json", f"the key {twice!r} stands twice in one object")
    return record


def _no_constant(name: str) -> object:
    raise _BadLine("bad_json", f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _BadLine("bad_json", f"the number {text[:40]} is out of range")
    return value


def _duplicate(record: object, number: int, seen: dict[str, int]) -> TaskError | None:
    task_id = _task_id_of(record)
    if task_id is None:
        return None
    first = seen.setdefault(task_id, number)
    if first == number:
        return None
    return TaskError(
        line_number=number,
        task_id=task_id,
        rule="duplicate_task_id",
        field="task_id",
        detail=f"{task_id!r} stands on line {first} already",
    )


def _line_error(number: int, rule: str, detail: str) -> TaskError:
    return TaskError(line_number=number, task_id=None, rule=rule, field="", detail=detail)


def _task_id_of(record: object) -> str | None:
    """Read the id if it is one that can be shown."""
    task_id = record.get("task_id") if isinstance(record, dict) else None
    return task_id if isinstance(task_id, str) and TASK_ID.fullmatch(task_id) else None
