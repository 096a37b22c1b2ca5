"""Find worked examples hidden in the body of a prompt.

Examples belong in `few_shot_examples`, where they are counted, rendered one way and can be
switched off; in the body they make two models' prompts differ without a trace. The rule
looks for an answered example, never for a word alone, so that a prompt may speak of
examples without being refused.
"""

from __future__ import annotations

import re

_QUESTION = r"(?:q|question|input|problem|query|prompt|text|sentence|review|user|human)"
_ANSWER = r"(?:a|answer|output|completion|response|solution|label|sentiment|assistant|summary)"
_NUMBER = r"[ \t]*#?\d{0,3}[ \t]*"
_MARK = r"[ \t]*[*_#>]{0,4}[ \t]*"  # Markdown around the cue

_QUESTION_LINE = re.compile(rf"^{_MARK}{_QUESTION}{_NUMBER}{_MARK}:", re.IGNORECASE)
_ANSWER_LINE = re.compile(rf"^{_MARK}{_ANSWER}{_NUMBER}{_MARK}:{_MARK}(\S?)", re.IGNORECASE)
_STRICT_QUESTION = re.compile(rf"^{_MARK}(?:q|question){_NUMBER}{_MARK}:", re.IGNORECASE)
_STRICT_ANSWER = re.compile(rf"^{_MARK}(?:a|answer){_NUMBER}{_MARK}:", re.IGNORECASE)
_OPTION_LINE = re.compile(r"^[ \t]*\(?[Bb][.):]")
_HEADING = re.compile(rf"^{_MARK}(?:example|shot|demonstration)[ \t]*#?\d{{0,3}}\b", re.IGNORECASE)
_NUMBERED = re.compile(rf"^{_MARK}(?:example|shot|demonstration)[ \t]*#?\d{{1,3}}\b", re.IGNORECASE)
_INLINE = re.compile(r"\bQ:[^\n]{1,400}?\bA:[ \t]*\S[^\n]{0,400}?\bQ:")
_ARROWS = ("=>", "->", "\N{RIGHTWARDS ARROW}")


def embedded_example(prompt: str) -> str | None:
    """Say where the prompt holds a worked example, or None when it holds none.

    Found are: a question line, an answer line with something on it, and a further question
    (options headed ``A:`` and ``B:`` are not answers); the same under an example heading;
    two numbered example headings; ``Q: .. A: .. Q:`` on one line; lines of ``x => y`` before
    a last line that ends in the same arrow.
    """
    lines = prompt.splitlines()
    return (
        _answered_pair(lines)
        or _numbered_headings(lines)
        or _arrow_pairs(lines)
        or ("a question, its answer and a further question" if _INLINE.search(prompt) else None)
    )


def _answered_pair(lines: list[str]) -> str | None:
    question = heading = 0
    for number, line in enumerate(lines, start=1):
        if _HEADING.match(line):
            heading = number
        if _QUESTION_LINE.match(line):
            question = number
            continue
        answer = _ANSWER_LINE.match(line)
        if not (question and answer):
            continue
        rest = lines[number:]
        following = next((later for later in rest if later.strip()), "")
        if _OPTION_LINE.match(following):
            continue  # "A: red" is the first of several options
        asks_again = any(_QUESTION_LINE.match(later) for later in rest)
        filled = answer.group(1) or (following and not _QUESTION_LINE.match(following))
        # "Input: a number / Output: its square" only describes, unless an example is announced
        told = bool(answer.group(1)) and (heading == question - 1 > 0 or _asks_on(lines, number))
        if (filled and asks_again) or told:
            return f"a question on line {question} with its answer on line {number}"
    return None


def _asks_on(lines: list[str], answer: int) -> bool:
    """Say whether a ``Q:``, its ``A:`` and a blank line come before further text."""
    strict = _STRICT_QUESTION.match(lines[answer - 2]) and _STRICT_ANSWER.match(lines[answer - 1])
    rest = lines[answer:]
    return bool(strict and rest and not rest[0].strip() and any(line.strip() for line in rest))


def _numbered_headings(lines: list[str]) -> str | None:
    found = [number for number, line in enumerate(lines, start=1) if _NUMBERED.match(line)]
    return f"numbered examples on lines {found[0]} and {found[1]}" if len(found) > 1 else None


def _arrow_pairs(lines: list[str]) -> str | None:
    last = lines[-1].rstrip() if lines else ""
    arrow = next((arrow for arrow in _ARROWS if last.endswith(arrow)), None)
    if arrow is None:
        return None
    for number, line in enumerate(lines[:-1], start=1):
        left, found, right = line.partition(arrow)
        if found and left.strip() and right.strip():
            return f"an answered {arrow!r} line on line {number}"
    return None
