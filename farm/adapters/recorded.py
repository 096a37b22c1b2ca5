"""Replay answers from a file: JSON Lines, each with its task, its sample and a generation.

A line has `task`, `text` and, if it likes, `sample` (0 when left out), `model`, and any field
of a generation. Other fields are passed over, so richer files can be replayed as they are.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from farm.core.generation import Failure, Generation, Usage, encode_generation, failed
from farm.core.task import TaskSpec
from farm.errors import Problem, SpecError

MAX_LINE_BYTES: Final = 4_000_000
_MAX_PROBLEMS: Final = 100


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    text: str
    sample: Annotated[int, Meta(ge=0)] = 0
    model: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    token_nll: Annotated[float, Meta(ge=0)] | None = None
    token_count: Annotated[int, Meta(ge=0)] | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    model_version: str | None = None
    failure: Failure | None = None


class RecordedAdapter:
    """Answers from what was recorded, by task and sample."""

    def __init__(self, answers: dict[tuple[str, int], Generation], *, model_id: str) -> None:
        self.model_id = model_id
        self._answers = answers
        pairs = [(key, encode_generation(answers[key])) for key in sorted(answers)]
        self.content = sha256(repr(pairs).encode()).hexdigest()  # of all answers: a file may change

    async def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Give the recorded answer; one that was not recorded is a failure."""
        found = self._answers.get((task.task_id, sample))
        if found is None:
            detail = f"the file has no answer to task {task.task_id!r}, sample {sample}"
            return failed("unrecorded", detail)
        return found


def read_recorded(path: str, *, model: str = "") -> dict[tuple[str, int], Generation]:
    """Read a file of answers, those of one model if `model` says which.

    Raises SpecError with every bad line: not JSON, a field of the wrong kind, or a second
    answer to the same task and sample.
    """
    answers: dict[tuple[str, int], Generation] = {}
    places: dict[tuple[str, int], int] = {}
    problems: list[Problem] = []
    total = 0
    for number, line in _lines(path):
        found = _answer_of(line, model)
        if found is None:
            continue
        if isinstance(found, tuple):
            key, generation = found
            first = places.setdefault(key, number)
            if first == number:
                answers[key] = generation
                continue
            found = f"task {key[0]!r}, sample {key[1]} stands on line {first} already"
        total += 1
        if len(problems) < _MAX_PROBLEMS:
            problems.append(Problem(path, f"line {number}", "", "bad_record", found))
    if total:
        raise SpecError(problems=problems, total=total)
    return answers


def _answer_of(line: bytes, model: str) -> tuple[tuple[str, int], Generation] | str | None:
    """Read one line; give what is wrong as text, None for a line of another model."""
    if len(line) > MAX_LINE_BYTES:
        return f"has over {MAX_LINE_BYTES} bytes"
    try:
        read = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        return text if text.startswith("JSON") else text[:1].lower() + text[1:]
    if model and read.model and read.model != model:
        return None
    generation = Generation(
        read.text,
        read.confidence,
        read.token_nll,
        read.token_count,
        confidence_source=None if read.confidence is None else "reported",
        usage=read.usage,
        finish_reason=read.finish_reason,
        model_version=read.model_version,
        failure=read.failure,
    )
    return (read.task, read.sample), generation


def _lines(path: str) -> list[tuple[int, bytes]]:
    lines = []
    try:
        with open(path, "rb") as file:
            number = 0
            # a line over the bound is cut, and the rest of it is passed over
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                whole = line
                while not line.endswith(b"\n") and (line := file.readline(MAX_LINE_BYTES)):
                    pass
                if whole.strip():
                    lines.append((number, whole.removeprefix(b"\xef\xbb\xbf")))
    except OSError as error:
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise SpecError(f"{path}: {reason}") from error
    return lines


_decoder = msgspec.json.Decoder(_Line)
