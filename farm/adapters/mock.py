"""Three models without a model: near-perfect, overconfident and often wrong, good at one thing.

They know a task's targets and are deterministic: the same seed, task and sample give the same
answer. For demos and tests of everything that stands around a model.
"""

from __future__ import annotations

import ast
import math
import re
from hashlib import sha256
from typing import Final

from farm.core.generation import Generation
from farm.core.task import TaskSpec
from farm.core.vocabulary import CHOICE_LETTERS
from farm.scoring.syntax import tree_of

_UNKNOWN: Final = "I do not know."
_INTEGER: Final = re.compile("-?[0-9]{1,1000}")  # longer ones `int` may refuse


class RuleBasedAdapter:
    """Answers right wherever a rule can read the targets, and is rightly sure of it."""

    model_id = "rule_based"

    def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Give the right answer."""
        return _say(right_answer(task), confidence=0.97)


class NoisyAdapter:
    """Answers right with a chance of `accuracy`, and is sure of itself whatever it says."""

    model_id = "noisy"

    def __init__(self, *, seed: int = 0, accuracy: float = 0.3) -> None:
        self._seed = seed
        self._accuracy = accuracy

    def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Give an answer that is often wrong, with a confidence between 0.9 and 0.99."""
        right = _chance(self._seed, "right", task, sample) < self._accuracy
        confidence = 0.9 + 0.09 * _chance(self._seed, "sure", task, sample)
        return _say(right_answer(task) if right else wrong_answer(task), confidence=confidence)


class BiasedAdapter:
    """Answers right in one category, and wrong, with less confidence, in every other."""

    model_id = "biased"

    def __init__(self, *, category: str = "arithmetic") -> None:
        self._category = category

    def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
        """Give the right answer in the one category."""
        if task.category == self._category:
            return _say(right_answer(task), confidence=0.9)
        return _say(wrong_answer(task), confidence=0.6)


def right_answer(task: TaskSpec) -> str:
    """Return an answer that scores fully, or `I do not know.` where no rule can find one."""
    if task.category == "code_exec":
        return _program_of(task.targets)
    return task.targets[0] if task.targets else _UNKNOWN


def wrong_answer(task: TaskSpec) -> str:
    """Return a plausible answer that is not right, whatever the category."""
    first = task.targets[0] if task.targets else ""
    if task.category == "code_exec":
        return _fenced(f"def {_name_called(task.targets)}(*arguments):\n    return None")
    if task.category == "mcq" and first in CHOICE_LETTERS:
        return CHOICE_LETTERS[(CHOICE_LETTERS.index(first) + 1) % len(CHOICE_LETTERS)]
    if _INTEGER.fullmatch(first.strip()):
        return str(int(first) + 1)
    return "neither of them"


def _say(text: str, *, confidence: float) -> Generation:
    count = max(1, len(text.split()))
    return Generation(
        text,
        confidence,
        -count * math.log(confidence),
        count,
        confidence_source="reported",
        finish_reason="stop",
    )


def _chance(seed: int, what: str, task: TaskSpec, sample: int) -> float:
    """Draw from [0, 1), the same for the same arguments on every machine."""
    digest = sha256(f"{seed}|{what}|{task.task_id}|{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _program_of(assertions: tuple[str, ...]) -> str:
    """Write a function that gives what the assertions ask for, by looking it up."""
    table: list[str] = []
    for text in assertions:
        found = _expectation(text)
        if found is None:
            return _UNKNOWN
        arguments, value = found
        table.append(f"        {arguments!r}: {value},")
    lines = "\n".join(table)
    return _fenced(
        f"def {_name_called(assertions)}(*arguments):\n"
        f"    answers = {{\n{lines}\n    }}\n"
        "    return answers[repr(arguments)]"
    )


def _expectation(text: str) -> tuple[str, str] | None:
    """Read ``assert f(arguments) == value`` to the arguments' repr and the value's source."""
    call = _call_in(text)
    try:
        statement = tree_of(text).body[0]
        if call is None or not isinstance(statement, ast.Assert):
            return None
        test = statement.test
        value = ast.unparse(test.comparators[0]) if isinstance(test, ast.Compare) else "True"
        arguments = tuple(ast.literal_eval(argument) for argument in call.args)
    except (SyntaxError, ValueError, IndexError):
        return None
    return repr(arguments), value


def _call_in(text: str) -> ast.Call | None:
    """Find the call that an assertion is about: its left side, of positional arguments alone."""
    try:
        body = tree_of(text).body
    except (SyntaxError, ValueError):
        return None
    test = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
    if isinstance(test, ast.Compare):
        test = test.left if isinstance(test.ops[0], ast.Eq | ast.Is) else None
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and not test.keywords:
        return test
    return None


def _name_called(assertions: tuple[str, ...]) -> str:
    for text in assertions:
        call = _call_in(text)
        if call is not None and isinstance(call.func, ast.Name):
            return call.func.id
    return "answer"


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"
