"""Take the program out of a reply: fences, several blocks, transcripts, or bare code.

The program is the last Python block that defines something; blocks that only call it, show
output or belong to a shell are not it. Where that block uses names that earlier blocks
define, those come first. Python's own parser decides what is a program, as far as it can:
a broken program is still handed on, so that it is judged as broken.
"""

from __future__ import annotations

import re

from farm.scoring.extract import Extracted, answer_start, nothing
from farm.scoring.fences import (
    DEFINITION,
    FENCE,
    PLAIN,
    Block,
    blocks,
    html_blocks,
    is_program,
    is_python,
    lines_of,
    to_margin,
    untranscribed,
)
from farm.scoring.marks import between_marks
from farm.scoring.syntax import Outline, outline

_CODE_LINE = re.compile(
    r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[:(]|import\s+[\w.]+\s*(?:$|,|as\s)"
    r"|from\s+[\w.]+\s+import\s|@\w+|#!|>>> ",
    re.MULTILINE,
)
_MAX_CUTS = 50  # ends tried when prose follows bare code


def extract_code(reply: str, *, entry_point: str | None = None) -> str:
    """Return the program of a reply, or "" if there is none; see `read_code`."""
    return read_code(reply, entry_point=entry_point).text


def read_code(reply: str, *, entry_point: str | None = None) -> Extracted:
    """Find the program of a reply.

    With an `entry_point`, the last block that defines that name is preferred. Code comes
    back with line feeds, at the left margin, ended by one line feed. Without any fence the
    reply itself is taken if it parses as a program, or else from its first line that only
    code begins with. Thinking blocks before the answer are not read.
    """
    begin = answer_start(reply)
    if begin is None:
        return nothing("the thinking never ends")
    found = blocks(reply, begin) or html_blocks(reply, begin)
    found = _behind_prefilled(reply, begin, found)
    if not found:
        return _bare(reply, begin)
    chosen = _chosen(found, entry_point)
    if chosen.found:
        return chosen
    behind = _bare(reply, reply.find("\n", found[-1].end) + 1 or len(reply))
    return behind if behind.found else chosen


def _behind_prefilled(reply: str, begin: int, found: list[Block]) -> list[Block]:
    """Put first the block that the prompt has opened and the reply only closes, if one is.

    Then the reply begins with code, its first fence has no label, and read as an opening one it
    would never be closed, or hold nothing that defines anything.
    """
    place = begin
    for line in lines_of(reply[begin:]):
        fence = FENCE.match(line.rstrip("\r\n"))
        if fence and fence["marks"]:
            break
        place += len(line)
    else:
        return found
    code = _program(reply[begin:place])
    is_code = _CODE_LINE.match(code) or reply[begin:place].lstrip("\r\n")[:1] in (" ", "\t")
    if fence["info"].strip() or not is_code or not is_program(code.split("\n")):
        return found
    never_closed = bool(found) and found[-1].end == len(reply)
    if not never_closed and any(DEFINITION.search(block.code) for block in found):
        return found
    return [Block("", code, begin, place), *blocks(reply, place + len(line))]


def _holds_python(block: Block) -> bool:
    """Say whether a block is Python by its label, or by what stands in it under another."""
    if is_python(block.language):
        return bool(block.code)
    if block.language in PLAIN and DEFINITION.search(block.code):
        return True
    if block.language not in PLAIN and not DEFINITION.search(block.code):
        return False
    seen = outline(block.code)
    return seen is not None and not seen.is_prose


def _chosen(found: list[Block], entry_point: str | None) -> Extracted:
    python = [block for block in found if _holds_python(block)]
    outlines = [outline(block.code) for block in python]
    if not python:
        return nothing("no block of Python")
    best = _best(python, outlines, entry_point)
    if not entry_point:
        best = _user(outlines, best)
    block = python[best]
    needed = _needed(python, outlines, best)
    rule = f"block {found.index(block) + 1} of {len(found)}"
    if needed:
        rule += f", behind {len(needed)} it needs"
    return Extracted(
        text="\n".join([*needed, block.code]), start=block.start, end=block.end, rule=rule
    )


def _best(python: list[Block], outlines: list[Outline | None], entry_point: str | None) -> int:
    """Return the index of the program: the last block that satisfies the strongest wish."""
    imported = _imported(outlines)

    def defines_entry(index: int) -> bool:
        seen = outlines[index]
        return seen is not None and entry_point in seen.defines - imported[index]

    def defines(index: int) -> bool:
        seen = outlines[index]
        if imported[index]:
            return False
        if seen is None:  # broken, but this is the program the model meant
            return DEFINITION.search(python[index].code) is not None
        return seen.has_definition

    def is_labelled(index: int) -> bool:
        return python[index].language not in {"", *PLAIN}

    def parses(index: int) -> bool:
        seen = outlines[index]
        return seen is not None and not seen.is_prose

    for wish in (defines_entry, defines, is_labelled, parses):
        for index in reversed(range(len(python))):
            if wish(index):
                return index
    return len(python) - 1


def _imported(outlines: list[Outline | None]) -> list[frozenset[str]]:
    """Return for each block the names it imports that an earlier one defines.

    They are that one's, and the block is a test of it, or an example.
    """
    found, earlier = [], set[str]()
    for seen in outlines:
        found.append(frozenset() if seen is None else seen.imports & earlier)
        earlier |= frozenset() if seen is None else seen.defines - seen.imports
    return found


def _user(outlines: list[Outline | None], best: int) -> int:
    """Return the block that the chosen one only helps, where that one comes before it."""
    helper = outlines[best]
    for index in reversed(range(best)):
        seen = outlines[index]
        if helper is None or seen is None or not seen.has_definition:
            continue
        if seen.defines & (helper.defines | helper.reads):
            return best  # a newer version of it, or a use of it
        if seen.reads & helper.defines and helper.has_definition:
            return index
    return best


def _needed(python: list[Block], outlines: list[Outline | None], best: int) -> list[str]:
    """Return the earlier blocks that define what the chosen one, or one of them, reads."""
    chosen = outlines[best]
    if chosen is None:
        return []
    defined, wanted = set(chosen.defines), set(chosen.reads)
    needed = []
    for index in reversed(range(best)):
        earlier = outlines[index]
        if earlier is None or earlier.defines & defined:
            continue  # an older version of what is there already
        if earlier.defines & wanted:
            needed.append(python[index].code)
            defined |= earlier.defines
            wanted |= earlier.reads
    needed.reverse()
    for later in outlines[best + 1 :]:
        if later is None or not later.has_definition or later.defines & defined:
            continue
        if later.defines & wanted and not later.reads & defined:
            needed.append(python[outlines.index(later)].code)
            defined |= later.defines
    return needed


def _bare(reply: str, begin: int) -> Extracted:
    """Take a reply without fences, or its part from the first line of code on."""
    begin, end = between_marks(reply, begin)
    reply = reply[:end]
    whole = _program(reply[begin:])
    seen = outline(whole)
    if seen is not None and not seen.is_prose:
        return Extracted(text=whole, start=begin, end=len(reply), rule="the whole reply")
    place = begin
    for line in lines_of(reply[begin:]):
        if _CODE_LINE.match(line):
            return _from_line(reply, place)
        place += len(line)
    return nothing("no fence, and no line that only code begins with")


def _from_line(reply: str, start: int) -> Extracted:
    """Take code up to where prose follows it; if nothing parses, all of it."""
    lines = lines_of(reply[start:])
    ends = [
        number
        for number, line in enumerate(lines)
        if number and line[:1].strip() and not lines[number - 1].strip()
    ]
    for end in [len(lines), *ends[: -_MAX_CUTS - 1 : -1]]:
        text = "".join(lines[:end])
        code = _program(text)
        if code and outline(code) is not None:
            return Extracted(
                text=code, start=start, end=start + len(text), rule="from the first line of code"
            )
    whole = _program(reply[start:])
    if not whole:
        return nothing("an interpreter's prompt with no program behind it")
    return Extracted(
        text=whole, start=start, end=len(reply), rule="from the first line of code, broken"
    )


def _program(text: str) -> str:
    return to_margin(untranscribed([line.rstrip("\r\n") for line in lines_of(text)]))
