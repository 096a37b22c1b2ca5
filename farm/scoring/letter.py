"""Which option a reply chose: one letter, found by anchored cues and never guessed.

A claim is a letter behind a cue ("answer is", "I choose", a TeX box), or a letter alone on
the last or the first line. The last claim wins, because people correct themselves. Two
letters in one claim ("A or B", or two lines with nothing between), a letter that is part of a
name or a unit ("Vitamin C", "C\u00b0"), "none of the above" or no claim at all is no answer: the
case is unparsed, which is not the same as wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from farm.scoring.extract import Extracted, answer_start, narrow, nothing
from farm.scoring.options import (
    are_told_in_turn,
    heads_options,
    is_joined,
    is_only_named,
    is_spoken_of,
)
from farm.scoring.plain import plain

ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Every loop below is possessive and bounded: hostile text cannot make it go back and forth.
_CUE = re.compile(
    r"(?<![A-Za-z])(?<!</)(?:answers?|ans|antwort|r\u00e9ponse|respuesta|resposta|risposta"
    r"|choose|select|pick|go\s{1,4}with|(?:correct|right|best)\s{1,4}(?:option|choice|letter|one)"
    r"|my\s{1,4}(?:final\s{1,4}|best\s{1,4})?(?:choice|pick))(?![A-Za-z])"
    r"|(?<=[\"'])(?:choice|selection|selected|letter)(?=[\"']\s{0,4}:)"
    r"|\u7b54\u6848|\u7b54\u3048|\u6b63\u89e3|\u9009\u62e9?|\\f?box(?:ed)?(?=\{)",
    re.IGNORECASE,
)
# "B is correct": the claim goes before its cue
_STATED = re.compile(
    r"(?<![A-Za-z0-9_'\u2019\u00b0-])(?P<letter>[A-Z])[)*\]]{0,3}\s{1,4}is\s{1,4}(?:the\s{1,4})?"
    r"(?:(?:correct|right|best)(?:\s{1,4}(?:answer|option|choice|one|letter)\b|(?!\s{1,4}[a-z]|\w)"
    r"|(?=\s{1,4}(?:because|since|as|and|but|here|for|in|if|only|when|unless)\b))|answer\b)"
)
# A word or a number before the letter makes it a part of a name or an amount ("Vitamin C",
# "Model T", "5 C"), but for words that call it a choice or begin what is said of it.
_WORD_BEFORE = re.compile(r"[\w%\u00b0]\s{1,4}\Z")
_NO_NAME_BEFORE = re.compile(
    r"(?<!\w)(?:options?|choices?|letter|answers?|alternative|so|thus|hence|therefore|then|that|and"
    r"|or|nor|but|because|since|as|is|be|are|now|only|clearly|obviously|surely|definitely|i|we|you"
    r"|think|believe|feel|say|see|find|know|guess|conclude|confirm|means|shows|suggests|sure"
    r"|confident|both|either|neither|not|if|whether|while|whereas|for|here|yes|no|ok|okay|well"
    r"|leaves|makes|although|though|actually|finally|overall)\s{1,4}\Z",
    re.IGNORECASE,
)
# Before a claim, in its own clause: it is denied, a condition, or somebody else's.
_CLAUSE = re.compile(r"[.,;:!?\r\n]|(?<![A-Za-z])(?:but|so|then|hence|thus|therefore)(?![A-Za-z])")
_HEDGED = re.compile(
    r"(?<![A-Za-z])(?:not|never|neither|nor|cannot|doubt|deny|whether|if|unless|untrue|suppose"
    r"|supposing|assume|assuming|hardly|no\s{1,4}(?:way|reason))(?![A-Za-z])|n['\u2019]t(?![A-Za-z])",
    re.IGNORECASE,
)
_PAIRED = re.compile(
    r"(?<![A-Za-z])[A-Z][)*\]]{0,3}\s{0,4}(?:(?<![A-Za-z])(?:and|or|nor)|[&/,|;])\s{0,4}[(*\[]{0,3}\Z"
)
_ASKED = re.compile(
    r"[^.!?\r\n]{0,40}\?|\s{1,4}(?:only\s{1,4})?(?:if|unless|when|provided)(?![A-Za-z])"
)
# somebody else's choice, or one that could be made: "many students choose A"
_OTHERS = re.compile(
    r"(?<!\w)(?:might|may|could|who|tempt(?:ed|ing)\s{1,4}to"
    r"|(?:(?:(?:some|many|most)\s{1,4})?(?:people|students|readers|candidates|others|they|someone)"
    r"|(?:some|many|most)(?=\s{1,4}(?:would|will|do|have|wrongly)\b))"
    r"(?:\s{1,4}(?!I\b|we\b)\w{1,12}){0,3})"
    r"\s{1,4}(?:\w{1,10}ly\s{1,4})?\Z",
    re.IGNORECASE,
)
_MAX_CLAUSE = 120
_REJECTED = re.compile(
    r"(?:wrong|incorrect|false|not|no|never|bad|other|second|next)(?:\s+an?|\s+the)?\s*\Z",
    re.IGNORECASE,
)
_OPENERS = (
    r"[*_`\"'$(\[{\u201c\u2018\u00ab\u2039\u3010\u300c\u300e]|</?[a-z]{1,10}>"
    r"|\\(?:text|mathrm|mathbf|textbf|textit|mathit|textrm|textsf|emph|f?box|boxed|mathsf)\{"
    r"|\\[(\[,]"
)
_FILLER = re.compile(
    rf"(?:\s+|[:=>\u2013\u2014\u2192\u21d2\u27a1\u279c\u2705\u2714\u2713\ufe0f-]|{_OPENERS}|(?:is|are|was|would|will|should|must|seems|to|be|therefore|thus"
    r"|clearly|definitely|option|choice|letter|question|problem|this|for|the|correct|best|right|final|answer|ist|est|es"
    r"|\u00e8)(?![A-Za-z\u00c0-\u024f])|\u662f|\u4e3a|\u70ba|\u306f){0,24}+",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"[A-Za-z](?![A-Za-z0-9_\u00c0-\u024f]|['\u2019][A-Za-z]|[-/&]\w|[+#(]|\s{0,4}[=^\u2264\u2265]"
    # an abbreviation, a species, a formula, a comparison
    r"|\.[A-Za-z](?![A-Za-z])|\.\s(?:coli|aureus|elegans|cerevisiae|sapiens|subtilis|pylori)\b"
    r"|[\u00b2\u00b3\u00b9\u2070-\u209c]"
    # a unit, a key, a thing that is named by a letter
    r"|\s?[\u00b0\u00ba\u2032\u2033\u266d-\u266f]|[%\u2030\u00b7\u22c5\u00d7\u00f7\u00b1\u2122\u00ae]"
    r"|[\u0300-\u036f\u2200-\u22ff]"
    r"|\s(?:vitamins?|major|minor|flat|sharp|cells?|rays?|waves?|chromosomes?|clef)(?![A-Za-z])"
    r"|\s{0,4}[<>](?!/?[a-z]{1,10}>)(?=\s{0,4}[\w-]))"
)
_CLOSING = r"[*_`\"'$)\]}>\u201d\u2019\u201c\u00bb\u203a\u3011\u300d\u300f]|</?[a-z]{1,10}>|\\[)\]]"
_CLOSERS = re.compile(rf"(?:{_CLOSING}){{0,12}}+")
_VOID = re.compile(
    r"(?:none|neither|both|all\s+of|nothing|unknown|unclear|n/a|not\s+(?:sure|listed|given))\b",
    re.IGNORECASE,
)
_JOIN = re.compile(
    r"(?:\s{0,8}+(?:[,/&+;|\u3001\uff0c]|\(?(?:or|and|nor|oder|und|ou|et|y|o|as\s{1,4}well\s{1,4}as)\b"
    r"|\\(?:text|mathrm)\s?\{\s{0,4}(?:or|and)\s{0,4}\}|\u6216|\u548c)){1,4}+"
    rf"\s{{0,8}}+(?:{_OPENERS}|(?:option|choice|letter|answer|also|maybe|perhaps)\s{{1,4}}){{0,8}}+"
    r"|[ \t]{0,4}[(\[](?=[A-Z][)\]])",
    re.IGNORECASE,
)
_NEXT_ALONE = re.compile(r"[ \t]+[A-Z](?=[ \t]*(?:[.!]?[ \t]*$))", re.MULTILINE)
_DENIED = re.compile(
    r"\s+(?:is|was|are|would\s+be|seems)\s+(?:not\b|wrong|incorrect|false|invalid|out\b)"
    r"|\s+(?:isn|wasn|can)['\u2019]t|\s+cannot\b",
    re.IGNORECASE,
)
_QUESTIONED = re.compile(r"\s{0,4}\?|\s{1,4}(?:only\s{1,4})?(?:if|unless)(?![A-Za-z])")
_GOES_ON = re.compile(
    r"[ \t]+(?!(?:because|since|as|and|or|is|was|which|for|due|but|while|with|where|given|would"
    r"|seems|by|from|has|can)\b|not\s[A-Z]\b|rather\sthan|instead\sof)[a-z0-9]"
)
_TWO = "two letters in one claim"
_SPOKEN = re.compile(r"\w")
_MAX_BESIDE = 80  # characters looked at on either side of a lone letter
_LINE = re.compile(r"[^\r\n]+")
_ALONE = re.compile(
    rf"(?:[ \t#>-]|{_OPENERS}){{0,12}}+(?P<letter>[A-Za-z])"
    rf"(?:{_CLOSING}|[.:!,;\u3002\uff0c\uff1b]|\s){{0,12}}+\Z"
)
_SAID = re.compile(
    r"\s{0,8}+(?:(?:so|thus|hence|therefore),?\s{1,4})?(?:(?:it|this|that)\s{1,4}is|(?:it|that)['\u2019]s"
    r"|option|choice|letter)\s{1,4}",
    re.IGNORECASE,
)
_HEADED = re.compile(
    rf"(?:[ \t#>]|{_OPENERS}){{0,8}}+(?P<letter>[A-Z])(?!\.[ \t][a-z])"
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
    bare = plain(reply[begin:])
    text = bare.text
    # what is called the answer outranks what is only called correct: that may be a statement
    cued = list(_cued(text)) or list(_stated(text))
    last = cued[-1][1] if cued else None
    alone = _line_alone(text)
    if alone is not None and (not cued or alone.start > cued[-1][0]):
        last = nothing(_TWO) if _is_beside(text, last, alone) else alone
    last = last or _headed(text) or nothing("no claim of a letter")
    if last.found and last.text not in letters:
        return nothing(f"the letter {last.text} is not one of {letters[0]}-{letters[-1]}")
    if not last.found:
        return nothing(last.rule)
    place = begin + bare.place(last.start)
    return msgspec.structs.replace(last, start=place, end=place + 1)


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


def _cued(text: str) -> Iterator[tuple[int, Extracted]]:
    """Yield place and claim behind each cue: a letter, or that it names none or several."""
    in_turn = are_told_in_turn(text)
    for cue in _CUE.finditer(text):
        begin = max(0, cue.start() - _MAX_CLAUSE)
        if _REJECTED.search(text[max(0, cue.start() - 16) : cue.start()]):
            continue
        if _is_hedged(text, cue.start()) or _OTHERS.search(text, begin, cue.start()):
            continue
        filler = _FILLER.match(text, cue.end())
        place = filler.end() if filler else cue.end()
        if _VOID.match(text, place):
            yield place, nothing(f"no letter behind {cue.group()!r}")
        elif _is_claim(text, place) and not (
            heads_options(text, cue.span(), place)
            or is_only_named(text, cue, place, in_turn=in_turn)
        ):
            yield place, _judged(text, place, f"behind {cue.group()!r}")


def _stated(text: str) -> Iterator[tuple[int, Extracted]]:
    """Yield the letters that a sentence calls the right ones."""
    for said in _STATED.finditer(text):
        place = said.start("letter")
        before = text[max(0, place - 16) : place]
        if _WORD_BEFORE.search(before) and not _NO_NAME_BEFORE.search(before):
            continue
        if _is_hedged(text, place) or _ASKED.match(text, said.end()):
            continue
        if _PAIRED.search(before):
            yield place, nothing(_TWO)
            continue
        yield (
            place,
            Extracted(text=said.group("letter"), start=place, end=place + 1, rule="called correct"),
        )


def _is_hedged(text: str, place: int) -> bool:
    """Say whether the clause that leads here denies, doubts or only supposes."""
    left = text[max(0, place - _MAX_CLAUSE) : place]
    clause = 0
    for border in _CLAUSE.finditer(left):
        clause = border.end()
    return _HEDGED.search(left, clause) is not None


def _is_claim(text: str, place: int) -> bool:
    """Say whether a letter stands here by itself and is not an article or a pronoun."""
    if not _LETTER.match(text, place):
        return False
    closers = _CLOSERS.match(text, place + 1)
    end = closers.end() if closers else place + 1
    if _DENIED.match(text, end) or _QUESTIONED.match(text, end):
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
    if join and second and not is_spoken_of(text, join.end() + 1):
        return nothing(_TWO)
    if _NEXT_ALONE.match(text, end) or is_joined(text, place):
        return nothing(_TWO)
    return Extracted(text=text[place].upper(), start=place, end=place + 1, rule=rule)


def _line_alone(text: str) -> Extracted | None:
    """Find a letter that is the whole last line, or else the whole first line."""
    ending, opening = text.rstrip(), len(text) - len(text.lstrip())
    last = max(ending.rfind("\n"), ending.rfind("\r")) + 1
    for start, rule in ((last, "alone on the last line"), (opening, "alone on the first line")):
        line = _LINE.match(text, start)
        if line is None:
            continue
        said = _SAID.match(line.group())
        alone = _ALONE.match(line.group(), said.end() if said else 0)
        if alone and not (said and alone.group("letter").islower()):
            place = start + alone.start("letter")
            found = Extracted(text=text[place].upper(), start=place, end=place + 1, rule=rule)
            if _neighbours(text, line, found.text):
                return msgspec.structs.replace(nothing(_TWO), start=place, end=place)
            return found
    return None


def _is_beside(text: str, last: Extracted | None, alone: Extracted) -> bool:
    """Say whether nothing stands between two claims of different letters."""
    if last is None or not last.found or last.text == alone.text:
        return False
    between = text[last.end : alone.start]
    return len(between) <= _MAX_BESIDE and not _SPOKEN.search(between)


def _neighbours(text: str, line: re.Match[str], letter: str) -> bool:
    """Say whether the line next to a lone letter is a lone letter too, and another one."""
    before = text[max(0, line.start() - _MAX_BESIDE) : line.start()].rstrip()
    place = max(before.rfind("\n"), before.rfind("\r")) + 1
    after = text[line.end() : line.end() + _MAX_BESIDE].lstrip().splitlines()
    others = [_ALONE.match(before, place), _ALONE.match(after[0]) if after else None]
    return any(one and one.group("letter").upper() != letter for one in others)


def _headed(text: str) -> Extracted | None:
    """Find the letter that heads the one option a reply repeats: ``B) Paris``."""
    places = [
        line.start() + head.start("letter")
        for line in _LINE.finditer(text)
        if (head := _HEADED.match(line.group()))
    ]
    if len(places) != 1:
        return None
    place = places[0]
    if heads_options(text, (place, place), place):
        return None
    return Extracted(
        text=text[place], start=place, end=place + 1, rule="heads the only option named"
    )
