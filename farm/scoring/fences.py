"""Find the blocks of a reply: fences as CommonMark has them and as models write them, or HTML.

Which of the blocks is the program is decided by `farm.scoring.code`. Text is hostile: whatever
is looked at more closely is bounded in length and number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import NamedTuple

from farm.scoring.marks import without_marks
from farm.scoring.syntax import outline, without_calls

FENCE = re.compile(
    r"[\ufeff\u200b-\u200d\u2060]*+(?P<quote>(?:[ ]{0,3}>[ ]?){0,4})"  # invisible, or quoted
    r"(?P<indent>[ \t]*)(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(?P<marks>`{3,}|~{3,})(?P<info>.*)"
)
# Marks at the end of a sentence or of a token of the chat template open a block, too.
_LATE_FENCE = re.compile(r"(?P<before>[^`~]*[^`~\s])[ \t]*(?P<fence>(?:`{3,}|~{3,})[^`~\s]*[ \t]*)")
_MARKS = re.compile("```|~~~")
_FARTHEST_IN = 3  # spaces before a closing fence, beyond where the opening one stands
_PYTHON = frozenset(
    (
        "",
        "python",
        "python3",
        "py",
        "py3",
        "python2",
        "ipython",
        "ipython3",
        "pycon",
        "pyi",
        "code",
        "text/x-python",
        "python-repl",
    )
)
PLAIN = frozenset(("text", "plaintext", "txt", "none", "plain"))
_VERSIONED = re.compile(r"(?:i?python|py)-?[23](?:\.\d{1,2}){0,2}|[\w./\\-]{1,200}\.pyi?")
_GLUED = re.compile(r"(?P<code>.*?[^`~\s])[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*")
_MAX_GLUED = 20  # fences not on a line of their own that are looked at, each by parsing
_QUOTE = re.compile(r"(?:[ ]{0,3}>[ ]?){1,4}")
_PRE = re.compile(
    r"<(pre|code)(?:\s[^<>]{0,200})?>(?:\s{0,8}<code(?:\s[^<>]{0,200})?>)?", re.IGNORECASE
)
DEFINITION = re.compile(r"^(?:async\s+)?(?:def|class)\s+\w", re.MULTILINE)
_MAX_LINE = 2000
_TRANSCRIPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")


class Block(NamedTuple):
    """One fenced block: its language, its lines brought to the margin, its place."""

    language: str
    code: str
    start: int
    end: int


def blocks(reply: str, begin: int = 0) -> list[Block]:
    """Return the fenced blocks of a reply in order, as CommonMark closes them.

    A fence is closed by at least as many of its own marks and nothing else on the line, not
    more than three spaces further in; one that is never closed runs to the end. Marks glued to
    code or followed by text close it too, where what is before them parses: no program goes on
    with such a line. Marks that end a line open a block where what follows is code.
    """
    found: list[Block] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    place = start = begin
    tries = late_tries = _MAX_GLUED
    for line in lines_of(reply[begin:]):
        bare = line.rstrip("\r\n")
        if opened is not None and opened["quote"]:
            bare = _QUOTE.sub("", bare, count=1) if _QUOTE.match(bare) else bare
        fence = FENCE.match(bare)
        if opened is None:
            if fence and _opens(fence):
                opened, lines, start = fence, [], place + len(line)
            elif (
                late_tries
                and _MARKS.search(bare)
                and (late := _LATE_FENCE.fullmatch(bare[:_MAX_LINE]))
            ):
                late_tries -= 1
                if _goes_on_as_code(reply, place + len(line), late):
                    opened, lines = FENCE.match(late["fence"]), []
                    start = place + len(line)
        elif fence and _closes(fence, opened):
            found.append(_block(opened, lines, start, place))
            opened = None
        elif opened["marks"] in bare and tries and (last := _glued(bare, opened)) is not None:
            tries -= 1
            if is_program([*lines, last]):
                end = place + len(last)
                found.append(_block(opened, [*lines, last], start, end))
                reopened = fence is not None and _opens(fence) and is_python(_language(fence))
                opened, lines, start = fence if reopened else None, [], place + len(line)
            else:
                lines.append(bare)
        else:
            lines.append(bare)
        place += len(line)
    if opened is not None:
        found.append(_block(opened, lines, start, place))
    return found


def _goes_on_as_code(reply: str, place: int, late: re.Match[str]) -> bool:
    """Say whether what follows marks at the end of a line is code, up to the next fence."""
    fence = FENCE.match(late["fence"])
    if fence is None or (fence["info"].strip() and not is_python(_language(fence))):
        return False
    following = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE).search(reply, place)
    end = following.start() if following else len(reply)
    return is_program(without_marks(reply[place:end].splitlines()))


def _opens(fence: re.Match[str]) -> bool:
    # marks after the marks would be inline code on one line, not a fence
    return not ("`" in fence["info"] and fence["marks"][0] == "`")


def _glued(line: str, opened: re.Match[str]) -> str | None:
    """Return the code before closing marks that share their line, or None without such."""
    bare = line.lstrip()
    if bare.startswith(opened["marks"]):
        return ""
    glued = _GLUED.fullmatch(line[:_MAX_LINE])
    if glued is None or not glued["marks"].startswith(opened["marks"]):
        return None
    return glued["code"]


def html_blocks(reply: str, begin: int) -> list[Block]:
    """Return what stands in ``<pre>`` or ``<code>`` over several lines, its entities resolved."""
    found: list[Block] = []
    lowered = reply.lower() if len(reply.lower()) == len(reply) else reply
    place = begin
    while opened := _PRE.search(reply, place):
        end = lowered.find(f"</{opened.group(1).lower()}>", opened.end())
        if end < 0:
            break
        inside = re.sub(r"</code>\s{0,8}\Z", "", reply[opened.end() : end], flags=re.IGNORECASE)
        code = to_margin([line.rstrip("\r\n") for line in lines_of(unescape(inside))])
        if "\n" in code.strip("\n") or DEFINITION.search(code):
            found.append(Block("", code, opened.end(), end))
        place = end
    return found


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    marks = fence["marks"]
    same = marks[0] == opened["marks"][0] and len(marks) >= len(opened["marks"])
    too_far_in = fence.start("marks") > opened.start("marks") + _FARTHEST_IN
    return same and not too_far_in and not fence["info"].strip()


def _language(opened: re.Match[str]) -> str:
    info = opened["info"].strip().lstrip("{. ").lower()
    return re.split(r"[\s,{}:=]", info, maxsplit=1)[0] if info else ""


def is_python(language: str) -> bool:
    """Say whether the label of a block names Python, or nothing."""
    return language in _PYTHON or _VERSIONED.fullmatch(language) is not None


def _block(opened: re.Match[str], lines: list[str], start: int, end: int) -> Block:
    code = to_margin(untranscribed(without_marks(lines)))
    return Block(_language(opened), code, start, end)


def is_program(lines: list[str]) -> bool:
    """Say whether lines parse as a program, and not as a word of prose."""
    seen = outline(to_margin(untranscribed(lines)))
    return seen is not None and not seen.is_prose


def lines_of(text: str) -> list[str]:
    """Split a text into lines, their ends kept."""
    # splitlines() alone would also split at form feeds and U+2028, which code may hold
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def to_margin(lines: Sequence[str]) -> str:
    """Drop the white space all lines begin with, and outer blank lines."""
    full = [line for line in lines if line.strip()]
    if not full:
        return ""
    first, last = min(full), max(full)
    margin = 0
    while (
        margin < len(first) and first[margin] in " \t" and last[: margin + 1] == first[: margin + 1]
    ):
        margin += 1
    text = "\n".join(line[margin:] if line.strip() else "" for line in lines)
    return text.strip("\n").rstrip() + "\n"


def untranscribed(lines: list[str]) -> list[str]:
    """Turn an interpreter session into the program typed in it, without its output."""
    filled = [line for line in lines if line.strip()]
    if not filled or not filled[0].lstrip().startswith(">>>"):
        return lines
    typed = [line.lstrip()[4:] for line in lines if _TRANSCRIPT.match(line)]
    program = without_calls("\n".join(typed))
    return typed if program is None else program.split("\n")
