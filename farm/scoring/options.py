"""Tell the letter of an answer from one that only heads an option, or is one of several.

``Answer:`` is followed by an answer, or by the options to choose from; a reply that answers
goes on to speak of the other options. Which of these it is lies in what stands before the
letter and in how the next options are set: the options of a question look alike.
"""

from __future__ import annotations

import re

_MARKS = ")].:\u3001"
_FIRST = "AFaf"  # the first options of a question: A to E, or F to J in every second one
_MAX_LIST = 2000  # a question's options stand close together
_MAX_ROW = 300
# the cue says that something is the answer, and no colon or line break comes after that
_SAYS = re.compile(
    r"(?<![A-Za-z])(?:is|are|was|be|ist|est|es|seems)(?![A-Za-z])[^:\r\n]*\Z|\u662f[^:\r\n]*\Z",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"(?<![A-Za-z])(?:I|[Ww]e)(?![A-Za-z])(?:['\u2019]\w{1,2})?(?:\s{1,4}\w{1,10}){0,3}\s{1,4}\Z"
)
# words behind which an option is spoken of, not listed
_MENTIONS = re.compile(
    r"(?<![A-Za-z])(?:options?|choices?|answers?|letter|not|be|is|are|than|because|since|as|of|with"
    r"|to|like|unlike|from|see|in|by|for|that|while|whereas|but|so|out|eliminate|exclude|both"
    r"|neither|nor|between|if)\s{1,4}\Z",
    re.IGNORECASE,
)
_VERB = (
    r"(?:is|are|was|were|isn|aren|wasn|can|could|would|does|doesn|did|didn|has|looks|seems|being"
    r"|cannot|may|might|contradicts|describes|refers|fails?)(?![A-Za-z])"
)
_APPROVED = (
    r"(?:is|are|was|were|can|could|would|may|might|seems)\s{1,4}(?:be\s{1,4})?"
    r"(?:(?:both|also|all|equally|too|the)\s{1,4}){0,3}(?:correct|right|true|answers?|valid)(?![A-Za-z])"
)
_LETTERS = (
    r"(?:\s{0,4}(?:,|(?:and|or|nor|&)(?![A-Za-z])){1,2}\s{0,4}[(\[]?[A-Z](?![A-Za-z])[)\].:]?)"
)
# what is said of the letters that stand here, but that they are right too
_PREDICATE = re.compile(rf"[)\].:*]{{0,3}}{_LETTERS}{{0,6}}\s{{1,4}}(?!{_APPROVED}){_VERB}")
_VERDICT = re.compile(
    r"(?<![A-Za-z])(?:incorrect|wrong|not\s{1,4}(?:correct|right|the\s{1,4}\w{1,9})|eliminated"
    r"|ruled\s{1,4}out)(?![A-Za-z])",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[.!?;]\s|(?<![A-Za-z])(?:because|since|as|which|that|while|whereas|not|than|instead|unlike"
    r"|but|so|if|for)(?![A-Za-z])",
    re.IGNORECASE,
)
_JOINS = re.compile(r"(?:[,/&]|(?<![A-Za-z])(?:and|or|nor))\s{0,4}\Z", re.IGNORECASE)
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n[ \t]*\S|:[ \t\r]*\n")
_BLANK = re.compile(r"\n[ \t\r]*\n[ \t#>*\u2022-]*\Z")
# "answer choice A describes ...": an option is named, and something is said of it
_NAMED = re.compile(r"[ \t]*(?:(?:choice|option|letter)[ \t]*)?[(\[\"'*]{0,4}\Z", re.IGNORECASE)
_OWN = re.compile(
    r"(?:correct|right|best|final|true|my|only|the\s{1,4}likely)\s{1,4}\Z", re.IGNORECASE
)
_SAID_OF = re.compile(
    rf"[)\]*]{{0,3}}{_LETTERS}{{0,6}}\s{{1,4}}(?!(?:is|would\s+be|seems)\s+(?:(?:most|the|therefore|thus)\s+){{0,2}}"
    r"(?:correct|right|best|answer|one)\b|(?:because|since|as|for|which|due|and|or|but|with|given"
    r"|while|where|from|by)\b)[a-z]"
)
# "Answer A: too small", told of one option after the other
_TOLD = re.compile(
    r"(?<![A-Za-z])answer[ \t](?:(?:choice|option)[ \t])?[(\[]?(?P<letter>[A-Z])[)\]]?:[ \t]*\S",
    re.IGNORECASE,
)
_MAX_JOINED = 60


def is_spoken_of(text: str, end: int) -> bool:
    """Say whether something is said of the letter that ends here, other than that it is right."""
    return _PREDICATE.match(text, end) is not None


def heads_options(text: str, cue: tuple[int, int], place: int) -> bool:
    """Say whether the letter behind a cue heads the first of the options of a question.

    `cue` is the place of the cue. What a cue calls the answer outright heads none.
    """
    mark = text[place + 1 : place + 2]
    if text[place] not in _FIRST or not mark or mark not in _MARKS:
        return False
    begin, end = cue
    if _SAYS.search(text, end, place) or _DECIDES.search(text[max(0, begin - 40) : begin]):
        return False
    opens = text[place - 1] if place and text[place - 1] in "([" else ""
    part = text[place : place + _MAX_LIST]
    heads = _lines(part, opens, mark)
    return _is_list(part, heads) if heads else _is_row(part, opens, mark)


def are_told_in_turn(text: str) -> bool:
    """Say whether a text goes through its options as ``Answer A: ...``, ``Answer B: ...``."""
    return len({told.group("letter").upper() for told in _TOLD.finditer(text)}) > 1


def is_only_named(text: str, cue: re.Match[str], place: int, *, in_turn: bool) -> bool:
    """Say whether the letter here is only the name of an option of which something is said.

    `in_turn` is what are_told_in_turn says of the text.
    """
    if cue.group().lower() not in {"answer", "answers"} or not _NAMED.match(text, cue.end(), place):
        return False
    if _OWN.search(text[max(0, cue.start() - 16) : cue.start()]):
        return False
    if in_turn and _TOLD.match(text, cue.start()):
        return True
    return _SAID_OF.match(text, place + 1) is not None


def is_joined(text: str, place: int) -> bool:
    """Say whether another option is claimed with the one here: ``B) red or C) green``."""
    mark = text[place + 1 : place + 2]
    if not mark or mark not in ")].":
        return False
    opens = text[place - 1] if place and text[place - 1] in "([" else ""
    row = text[place + 2 : place + _MAX_ROW].partition("\n")[0]
    head = re.search(rf"(?<=\s){re.escape(opens)}(?P<letter>[A-Z]){re.escape(mark)}", row)
    if head is None or head.start() > _MAX_JOINED or head.group("letter") == text[place].upper():
        return False
    between = row[: head.start()]
    if _CLAUSE.search(between) or not _JOINS.search(between):
        return False
    return not _PREDICATE.match(row, head.end()) and not _VERDICT.search(row, head.end())


def _lines(part: str, opens: str, mark: str) -> list[re.Match[str]]:
    """Return the heads of the lines that go on with the options that begin here, in order."""
    heads: list[re.Match[str]] = []
    letter, start = part[0], 0
    while True:
        letter = chr(ord(letter) + 1)
        marked = re.escape(f"{opens}{letter}{mark}")
        head = re.compile(
            rf"^[ \t#>*\u2022-]{{0,8}}{marked}(?P<rest>[^\r\n]*)", re.MULTILINE
        ).search(part, start)
        if head is None:
            return heads
        heads.append(head)
        start = head.end()


def _is_list(part: str, heads: list[re.Match[str]]) -> bool:
    """Say whether the lines go on with the first one, and do not only speak of the others."""
    line = part.partition("\n")[0][2:]
    first = heads[0]
    between = part[: first.start()]
    if _PARAGRAPH.search(between):
        return False
    if not between[2:].strip(" \t\r\n)*.!\u2705") and first.group("rest").strip():
        return False  # a letter alone, where the next ones have a text
    if not _PREDICATE.match(part, 1) and _PREDICATE.match(first.group("rest")):
        return False
    if len(heads) > 1:
        if _BLANK.search(between) and not _BLANK.search(part[first.end() : heads[1].start()]):
            return False  # set apart from the others
        judged = all(_VERDICT.search(head.group("rest")) for head in heads)
        if judged and not _VERDICT.search(line):
            return False
    return True


def _is_row(part: str, opens: str, mark: str) -> bool:
    """Say whether the next option stands in the same line."""
    row = part[:_MAX_ROW].partition("\n")[0]
    following = re.escape(opens + chr(ord(part[0]) + 1) + mark)
    head = re.search(rf"(?<=[\s,;]){following}", row)
    if head is None or _MENTIONS.search(row, 0, head.start()):
        return False
    return not _PREDICATE.match(row, head.end())
