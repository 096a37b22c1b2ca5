"""What an extraction says: the text it took, from where, and by which rule.

The readers themselves are one file each (farm.scoring.letter, farm.scoring.number,
farm.scoring.code); here is the value they return, and what they share about replies.
"""

from __future__ import annotations

import re

import msgspec


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule took out of a reply.

    `text` is what was taken, `start` and `end` the place of it in the reply in characters;
    where the rule rewrote what it found (a letter raised to upper case, code brought to
    the margin) the place is that of the source. Nothing found: `found` is false, `text` is
    empty, and `rule` says what was missing.
    """

    text: str
    start: int
    end: int
    rule: str
    found: bool = True


def nothing(rule: str) -> Extracted:
    """Say that a rule found nothing to take."""
    return Extracted(text="", start=0, end=0, rule=rule, found=False)


_THINKING_OPENS = re.compile(
    r"\s*(?:<(think|thinking|reasoning)>|\[(think|thinking)\])", re.IGNORECASE
)
_THINKING_CLOSES = re.compile(r"</think>|\[/think\]", re.IGNORECASE)
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
# the marks that go with Arabic digits: percent, decimal point, thousands, comma
_WIDE |= {0x066A: ord("%"), 0x066B: ord("."), 0x066C: ord(","), 0x060C: ord(",")}


def answer_start(reply: str) -> int | None:
    """Return where the answer of a reply begins: 0, or behind its thinking.

    Tags are read in any letter case, in angle brackets or as ``[THINK]``. Only a reply that
    begins with a thinking block has one. A block that is never closed is a reply whose
    answer never came: None.
    """
    opens = _THINKING_OPENS.match(reply)
    closing = _THINKING_CLOSES
    if opens:
        tag = f"</{opens.group(1)}>" if opens.group(1) else f"[/{opens.group(2)}]"
        closing = re.compile(re.escape(tag), re.IGNORECASE)
    end = None
    for closes in closing.finditer(reply):
        end = closes.end()  # the last one counts: thinking may speak of its own tags
    if end is not None:
        return end
    return None if opens else 0


def narrow(text: str) -> str:
    """Turn full-width ASCII and Arabic marks into ASCII, one for one, so that places hold."""
    return text if text.isascii() else text.translate(_WIDE)
