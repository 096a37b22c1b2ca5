"""Which option a reply chose: one letter, found by anchored cues and never guessed.

A claim is a letter behind a cue ("answer is", "I choose", a TeX box), or a letter alone on
the last or the first line. The last claim wins, because people correct themselves. Two
letters in one claim ("A or B"), "none of the above" or no claim at all is no answer: the
case is unparsed, which is not the same as wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from farm.scoring.extract import Extracted, answer_start, narrow, nothing

ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Every loop below is possessive and bounded: hostile text cannot make it go back and forth.
_CUE = re.compile(
    r"(?<![A-Za-z])(?:answers?|ans|antwort|r\u00e9ponse|respuesta|resposta|risposta"
    r"|choose|select|pick|go\s{1,4}with|(?:correct|right|best)\s{1,4}(?:option|choice|letter|one)"
    r"|my\s{1,4}(?:choice|pick))(?![A-Za-z])"
    r"|\u7b54\u6848|\u7b54\u3048|\u6b63\u89e3|\u9009\u62e9?|\\boxed(?=\{)",
    re.IGNORECASE,
)
# "B is correct": the claim goes before its cue
_STATED = re.compile(
    r"(?<![A-Za-z0-9_'\u2019-])(?P<letter>[A-Z])[)*\]]{0,3}\s{1,4}is\s{1,4}(?:the\s{1,4})?"
    r"(?:(?:correct|right|best)\b|answer\b)"
)
_REJECTED = re.compile(
    r"(?:wrong|incorrect|false|not|no|never|bad)(?:\s+an?|\s+the)?\s*\Z", re.IGNORECASE
)
_OPENERS = r"[*_`\"'$(\[{]|</?[a-z]{1,10}>|\\(?:text|mathrm|mathbf|textbf|boxed|mathsf)\{|\\[(\[,]"
_FILLER = re.compile(
    rf"(?:\s+|[:=>\u2013\u2014-]|{_OPENERS}|(?:is|are|was|would|will|should|must|seems|to|be|therefore|thus"
    r"|clearly|definitely|option|choice|letter|the|correct|best|right|final|answer|ist|est|es"
    r"|\u00e8)(?![A-Za-z\u00c0-\u024f])|\u662f|\u4e3a|\u70ba|\u306f){0,24}+",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"[A-Za-z](?![A-Za-z0-9_\u00c0-\u024f]|['\u2019][a-z]|[-/&]\w|[+#]|\s{0,4}[=^])"
)
_CLOSERS = re.compile(r"(?:[*_`\"'$)\]}>]|\\[)\]]){0,12}+")
_VOID = re.compile(
    r"(?:none|neither|both|all\s+of|nothing|unknown|unclear|n/a|not\s+(?:sure|listed|given))\b",
    re.IGNORECASE,
)
_JOIN = re.compile(
    r"(?:\s{0,8}+(?:[,/&+\u3001]|(?:or|and|oder|und|ou|et|y|o)\b|\u6216|\u548c)){1,4}+"
    rf"\s{{0,8}}+(?:{_OPENERS}){{0,8}}+",
    re.IGNORECASE,
)
_NEXT_ALONE = re.compile(r"[ \t]+[A-Z](?=[ \t]*(?:[.!]?[ \t]*$))", re.MULTILINE)
_PREDICATE = re.compile(
    r"\s+(?:is|are|was|isn|can|could|would|does|has|looks|seems|being|cannot|may|might)\b"
)
_DENIED = re.compile(
    r"\s+(?:is|was|are|would\s+be|seems)\s+(?:not\b|wrong|incorrect|false|invalid|out\b)"
    r"|\s+(?:isn|wasn|can)['\u2019]t|\s+cannot\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"[ \t]+(?!(?:because|since|as|and|or|is|was|which|for|due|but|while|with|where|given|would"
    r"|seems|by|from|has|can)\b)[a-z0-9]"
)
_LINE = re.compile(r"[^\r\n]+")
_ALONE = re.compile(
    rf"(?:[ \t#>-]|{_OPENERS}){{0,12}}+(?P<letter>[A-Za-z])"
    r"(?:[*_`\"'$)\]}>.:!]|\\[)\]]|\s){0,12}+\Z"
)
_HEADED = re.compile(
    rf"(?:[ \t#>]|{_OPENERS}){{0,8}}+(?P<letter>[A-Z])"
    r"(?:[*_]{0,3}[).:\]][*_]{0,3})[ \t]+\S"
)


def read_letter(reply: str, *, letters: str = ALPHABET) -> Extracted:
    """Find the letter a reply claims, upper case, or say why there is none.

    Thinking blocks before the answer are not read. A claim of a letter outside `letters`
    is no answer. The place is that of the letter in the reply.
    """
    begin = answer_start(reply)
    if begin is None:
        return nothing("the thinking never ends")
    text = narrow(reply)
    cued = last = None
    # sorted by place alone: a claim behind a cue and one before it may be the same claim
    for place, claim in sorted([*_stated(text, begin), *_cued(text, begin)], key=itemgetter(0)):
        cued, last = place, claim
    alone = _line_alone(text, begin)
    if alone is not None and (cued is None or alone.start > cued):
        last = alone
    last = last or _headed(text, begin) or nothing("no claim of a letter")
    if last.found and last.text not in letters:
        return nothing(f"the letter {last.text} is not one of {letters[0]}-{letters[-1]}")
    return last


def target_letter(target: str) -> str | None:
    """Return the letter a target consists of, upper case, or None if it is something else."""
    alone = _ALONE.match(narrow(target).strip())
    return alone.group("letter").upper() if alone else None


def is_letter(target: str) -> bool:
    """Say whether a target is a letter, bare or in brackets."""
    return target_letter(target) is not None


def has_claim(reply: str) -> bool:
    """Say whether a reply claims one letter."""
    return read_letter(reply).found


def letter(prediction: str, targets: Sequence[str]) -> float:
    """Return 1.0 if the letter the prediction claims is that of any target, else 0.0."""
    claim = read_letter(prediction)
    return float(claim.found and any(target_letter(target) == claim.text for target in targets))


def _cued(text: str, begin: int) -> Iterator[tuple[int, Extracted]]:
    """Yield place and claim behind each cue: a letter, or that it names none or several."""
    for cue in _CUE.finditer(text, begin):
        if _REJECTED.search(text[max(0, cue.start() - 16) : cue.start()]):
            continue
        filler = _FILLER.match(text, cue.end())
        place = filler.end() if filler else cue.end()
        if _VOID.match(text, place):
            yield place, nothing(f"no letter behind {cue.group()!r}")
        elif _is_claim(text, place) and not _lists_options(text, place):
            yield place, _judged(text, place, f"behind {cue.group()!r}")


def _stated(text: str, begin: int) -> Iterator[tuple[int, Extracted]]:
    """Yield the letters that a sentence calls the right ones."""
    for said in _STATED.finditer(text, begin):
        place = said.start("letter")
        yield (
            place,
            Extracted(text=said.group("letter"), start=place, end=place + 1, rule="called correct"),
        )


def _is_claim(text: str, place: int) -> bool:
    """Say whether a letter stands here by itself and is not an article or a pronoun."""
    if not _LETTER.match(text, place):
        return False
    closers = _CLOSERS.match(text, place + 1)
    end = closers.end() if closers else place + 1
    if _DENIED.match(text, end):
        return False
    if end > place + 1:
        return True  # set in brackets or quotes
    if text[place].islower() or text[place] in "AI":
        return not _GOES_ON.match(text, end)
    return True


def _judged(text: str, place: int, rule: str) -> Extracted:
    closers = _CLOSERS.match(text, place + 1)
    end = closers.end() if closers else place + 1
    join = _JOIN.match(text, end)
    second = join is not None and _is_claim(text, join.end())
    if join and second and not _PREDICATE.match(text, join.end() + 1):
        return nothing("two letters in one claim")
    if _NEXT_ALONE.match(text, end):
        return nothing("two letters in one claim")
    return Extracted(text=text[place].upper(), start=place, end=place + 1, rule=rule)


def _lists_options(text: str, place: int) -> bool:
    """Say whether the letter here only heads the first of several options, as in a question."""
    mark = text[place + 1 : place + 2]
    if mark not in {")", ".", ":"}:
        return False
    following = chr(ord(text[place]) + 1) + mark
    # a question's options stand close together
    return (
        re.search(rf"\s[*_(]{{0,3}}{re.escape(following)}", text[place : place + 2000]) is not None
    )


def _line_alone(text: str, begin: int) -> Extracted | None:
    """Find a letter that is the whole last line, or else the whole first line."""
    body = text[begin:]
    ending, opening = body.rstrip(), begin + len(body) - len(body.lstrip())
    last = begin + max(ending.rfind("\n"), ending.rfind("\r")) + 1
    for start, rule in ((last, "alone on the last line"), (opening, "alone on the first line")):
        line = _LINE.match(text, start)
        alone = _ALONE.match(line.group()) if line else None
        if alone:
            place = start + alone.start("letter")
            return Extracted(text=text[place].upper(), start=place, end=place + 1, rule=rule)
    return None


def _headed(text: str, begin: int) -> Extracted | None:
    """Find the letter that heads the one option a reply repeats: ``B) Paris``."""
    places = [
        line.start() + head.start("letter")
        for line in _LINE.finditer(text, begin)
        if (head := _HEADED.match(line.group()))
    ]
    if len(places) != 1:
        return None
    place = places[0]
    return Extracted(
        text=text[place], start=place, end=place + 1, rule="heads the only option named"
    )
