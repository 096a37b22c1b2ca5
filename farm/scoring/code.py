"""Take the program out of a reply: fences, several blocks, transcripts, or bare code.

The program is the last Python block that defines something; blocks that only call it, show
output or belong to a shell are not it. Where that block uses names that earlier blocks
define, those come first. Python's own parser decides what is a program, as far as it can:
a broken program is still handed on, so that it is judged as broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import NamedTuple

from farm.scoring.extract import Extracted, answer_start, nothing
from farm.scoring.marks import between_marks, without_marks
from farm.scoring.syntax import Outline, outline, without_calls

_FENCE = re.compile(
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
_PLAIN = frozenset(("text", "plaintext", "txt", "none", "plain"))
_VERSIONED = re.compile(r"(?:i?python|py)-?[23](?:\.\d{1,2}){0,2}|[\w./\\-]{1,200}\.pyi?")
_GLUED = re.compile(r"(?P<code>.*?[^`~\s])[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*")
_MAX_GLUED = 20  # fences not on a line of their own that are looked at, each by parsing
_QUOTE = re.compile(r"(?:[ ]{0,3}>[ ]?){1,4}")
_PRE = re.compile(
    r"<(pre|code)(?:\s[^<>]{0,200})?>(?:\s{0,8}<code(?:\s[^<>]{0,200})?>)?", re.IGNORECASE
)
_CODE_LINE = re.compile(
    r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[:(]|import\s+[\w.]+\s*(?:$|,|as\s)"
    r"|from\s+[\w.]+\s+import\s|@\w+|#!|>>> ",
    re.MULTILINE,
)
_DEFINITION = re.compile(r"^(?:async\s+)?(?:def|class)\s+\w", re.MULTILINE)
_MAX_LINE = 2000
_MAX_CUTS = 50  # ends tried when prose follows bare code
_TRANSCRIPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")


class Block(NamedTuple):
    """One fenced block: its language, its lines brought to the margin, its place."""

    language: str
    code: str
    start: int
    end: int


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
    found = blocks(reply, begin) or _html_blocks(reply, begin)
    found = _behind_prefilled(reply, begin, found)
    if not found:
        return _bare(reply, begin)
    chosen = _chosen(found, entry_point)
    if chosen.found:
        return chosen
    behind = _bare(reply, reply.find("\n", found[-1].end) + 1 or len(reply))
    return behind if behind.found else chosen


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
    for line in _lines(reply[begin:]):
        bare = line.rstrip("\r\n")
        if opened is not None and opened["quote"]:
            bare = _QUOTE.sub("", bare, count=1) if _QUOTE.match(bare) else bare
        fence = _FENCE.match(bare)
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
                    opened, lines = _FENCE.match(late["fence"]), []
                    start = place + len(line)
        elif fence and _closes(fence, opened):
            found.append(_block(opened, lines, start, place))
            opened = None
        elif opened["marks"] in bare and tries and (last := _glued(bare, opened)) is not None:
            tries -= 1
            if _is_program([*lines, last]):
                end = place + len(last)
                found.append(_block(opened, [*lines, last], start, end))
                reopened = fence is not None and _opens(fence) and _is_python(_language(fence))
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
    fence = _FENCE.match(late["fence"])
    if fence is None or (fence["info"].strip() and not _is_python(_language(fence))):
        return False
    following = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE).search(reply, place)
    end = following.start() if following else len(reply)
    return _is_program(without_marks(reply[place:end].splitlines()))


def _behind_prefilled(reply: str, begin: int, found: list[Block]) -> list[Block]:
    """Put first the block that the prompt has opened and the reply only closes, if one is.

    Then the reply begins with code, its first fence has no label, and read as an opening one it
    would never be closed, or hold nothing that defines anything.
    """
    place = begin
    for line in _lines(reply[begin:]):
        fence = _FENCE.match(line.rstrip("\r\n"))
        if fence and fence["marks"]:
            break
        place += len(line)
    else:
        return found
    code = _program(reply[begin:place])
    is_code = _CODE_LINE.match(code) or reply[begin:place].lstrip("\r\n")[:1] in (" ", "\t")
    if fence["info"].strip() or not is_code or not _is_program(code.split("\n")):
        return found
    never_closed = bool(found) and found[-1].end == len(reply)
    if not never_closed and any(_DEFINITION.search(block.code) for block in found):
        return found
    return [Block("", code, begin, place), *blocks(reply, place + len(line))]


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


def _is_program(lines: list[str]) -> bool:
    seen = outline(_to_margin(_untranscribed(lines)))
    return seen is not None and not seen.is_prose


def _html_blocks(reply: str, begin: int) -> list[Block]:
    """Return what stands in ``<pre>`` or ``<code>`` over several lines, its entities resolved."""
    found: list[Block] = []
    lowered = reply.lower() if len(reply.lower()) == len(reply) else reply
    place = begin
    while opened := _PRE.search(reply, place):
        end = lowered.find(f"</{opened.group(1).lower()}>", opened.end())
        if end < 0:
            break
        inside = re.sub(r"</code>\s{0,8}\Z", "", reply[opened.end() : end], flags=re.IGNORECASE)
        code = _to_margin([line.rstrip("\r\n") for line in _lines(unescape(inside))])
        if "\n" in code.strip("\n") or _DEFINITION.search(code):
            found.append(Block("", code, opened.end(), end))
        place = end
    return found


def _lines(text: str) -> list[str]:
    # splitlines() alone would also split at form feeds and U+2028, which code may hold
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    marks = fence["marks"]
    same = marks[0] == opened["marks"][0] and len(marks) >= len(opened["marks"])
    too_far_in = fence.start("marks") > opened.start("marks") + _FARTHEST_IN
    return same and not too_far_in and not fence["info"].strip()


def _language(opened: re.Match[str]) -> str:
    info = opened["info"].strip().lstrip("{. ").lower()
    return re.split(r"[\s,{}:=]", info, maxsplit=1)[0] if info else ""


def _is_python(language: str) -> bool:
    return language in _PYTHON or _VERSIONED.fullmatch(language) is not None


def _holds_python(block: Block) -> bool:
    """Say whether a block is Python by its label, or by what stands in it under another."""
    if _is_python(block.language):
        return bool(block.code)
    if block.language in _PLAIN and _DEFINITION.search(block.code):
        return True
    if block.language not in _PLAIN and not _DEFINITION.search(block.code):
        return False
    seen = outline(block.code)
    return seen is not None and not seen.is_prose


def _block(opened: re.Match[str], lines: list[str], start: int, end: int) -> Block:
    code = _to_margin(_untranscribed(without_marks(lines)))
    return Block(_language(opened), code, start, end)


def _to_margin(lines: Sequence[str]) -> str:
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


def _untranscribed(lines: list[str]) -> list[str]:
    """Turn an interpreter session into the program typed in it, without its output."""
    filled = [line for line in lines if line.strip()]
    if not filled or not filled[0].lstrip().startswith(">>>"):
        return lines
    typed = [line.lstrip()[4:] for line in lines if _TRANSCRIPT.match(line)]
    program = without_calls("\n".join(typed))
    return typed if program is None else program.split("\n")


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
            return _DEFINITION.search(python[index].code) is not None
        return seen.has_definition

    def is_labelled(index: int) -> bool:
        return python[index].language not in {"", *_PLAIN}

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
    for line in _lines(reply[begin:]):
        if _CODE_LINE.match(line):
            return _from_line(reply, place)
        place += len(line)
    return nothing("no fence, and no line that only code begins with")


def _from_line(reply: str, start: int) -> Extracted:
    """Take code up to where prose follows it; if nothing parses, all of it."""
    lines = _lines(reply[start:])
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
    return _to_margin(_untranscribed([line.rstrip("\r\n") for line in _lines(text)]))
