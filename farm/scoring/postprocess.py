"""The six rules a task may apply to a reply before it is scored.

Each has one behaviour, is deterministic, and is never combined with another. A rule that
extracts and finds nothing says so (`found` is false): the case is then unparsed, never
scored as if the model had answered with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from farm.core.vocabulary import CHOICE_LETTERS, POST_PROCESSES
from farm.errors import SpecError
from farm.scoring.extract import Extracted, nothing


def post_process(rule: str, text: str) -> Extracted:
    """Apply one rule to a reply and return what it took, and from where.

    Raises SpecError for a name that is not a rule, listing those that are, and for a reply that
    is no text.
    """
    if not isinstance(text, str):
        raise SpecError(f"the reply is {text!r}; give a text")
    function = _RULES.get(rule) if isinstance(rule, str) else None
    if function is None:
        raise SpecError(
            f"post-process {rule!r} is not known; the rules are {', '.join(POST_PROCESSES)}"
        )
    return function(text)


def _none(text: str) -> Extracted:
    return Extracted(text=text, start=0, end=len(text), rule="the reply as it is")


def _strip_whitespace(text: str) -> Extracted:
    bare = text.strip()
    start = len(text) - len(text.lstrip()) if bare else 0
    return Extracted(
        text=bare, start=start, end=start + len(bare), rule="outer white space dropped"
    )


def _lower(text: str) -> Extracted:
    return Extracted(text=text.lower(), start=0, end=len(text), rule="lower case")


def _extract_first_line(text: str) -> Extracted:
    """Take the first line that is not blank, without its outer white space."""
    start = len(text) - len(text.lstrip())
    lines = text[start:].splitlines()
    if not lines:
        return nothing("no line with anything on it")
    line = lines[0].rstrip()
    return Extracted(
        text=line, start=start, end=start + len(line), rule="first line that is not blank"
    )


def _extract_letter(text: str) -> Extracted:
    # each reader is loaded by its first use: most runs need neither, and workers start often
    from farm.scoring.letter import read_letter

    return read_letter(text, letters=CHOICE_LETTERS)


def _extract_code_block(text: str) -> Extracted:
    from farm.scoring.code import read_code

    return read_code(text)


_RULES: Final[dict[str, Callable[[str], Extracted]]] = {
    "none": _none,
    "strip_whitespace": _strip_whitespace,
    "lower": _lower,
    "extract_letter": _extract_letter,
    "extract_code_block": _extract_code_block,
    "extract_first_line": _extract_first_line,
}
