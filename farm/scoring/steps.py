"""Normalising as a list of named steps, so that scoring and explaining run the same code.

A step that would leave nothing of a text that had something is left out: an answer that is
all punctuation, or one article, must not become equal to every other such answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec


class Step(NamedTuple):
    """One rule of a normaliser; `may_empty` is for steps whose nothing means nothing."""

    name: str
    apply: Callable[[str], str]
    may_empty: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A text as it stood after a step."""

    step: str
    text: str


def normalised(text: str, steps: Sequence[Step]) -> str:
    """Run every step, leaving out those that would empty the text."""
    for step in steps:
        changed = step.apply(text)
        if changed or step.may_empty:
            text = changed
    return text


def walk(text: str, steps: Sequence[Step]) -> tuple[Seen, ...]:
    """Return the text after each step of `normalised`, unchanged ones included."""
    seen = []
    for step in steps:
        text = normalised(text, (step,))
        seen.append(Seen(step=step.name, text=text))
    return tuple(seen)


def collapse(text: str) -> str:
    """Drop outer white space and make every inner run of it one space."""
    return " ".join(text.split())
