"""Marks that prompts and tokenizers leave around code: `[BEGIN]` and `[DONE]`, `</s>`, `</answer>`.

They are no part of any program. Pure: lines or places in, the same without marks out.
"""

from __future__ import annotations

import re

_BEGINS = re.compile(
    r"^[ \t]*(?:\[(?:BEGIN|PYTHON)\]|<(?:answer|solution|s)>)[ \t]*\r?$\n?", re.MULTILINE
)
_ENDS = re.compile(
    r"^[ \t]*(?:\[(?:DONE|END|/PYTHON)\]|</(?:answer|solution|s)>)[ \t]*\r?$", re.MULTILINE
)
# no line of Python ends with one, unless as a comment
_TOKEN = re.compile(
    r"(?:</(?:answer|solution|s)>|<\|\w{1,40}\|>|<(?:end_of_turn|eos|EOT)>|\[/PYTHON\])\s*\Z"
)
_MOST_TOKENS = 5  # one after the other


def between_marks(text: str, begin: int) -> tuple[int, int]:
    """Return where the part of a reply lies that marks on lines of their own enclose.

    Without marks that is all from `begin` on. After the first end nothing counts: a model that
    goes on behind it invents the next task.
    """
    opened = _BEGINS.search(text, begin)
    start = opened.end() if opened else begin
    closed = _ENDS.search(text, start)
    end = closed.start() if closed else len(text)
    for _ in range(_MOST_TOKENS):
        token = _TOKEN.search(text, max(start, end - 100), end)
        if token is None:
            break
        end = token.start()
    return start, end


def without_marks(lines: list[str]) -> list[str]:
    """Return the lines of a block without marks at its ends."""
    text = "\n".join(lines)
    start, end = between_marks(text, 0)
    return lines if (start, end) == (0, len(text)) else text[start:end].split("\n")
