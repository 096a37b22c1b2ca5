"""The cases of a report page: packed into compressed blocks that open one at a time.

A page of a hundred thousand cases must open at once, so the browser reads only an index of
columns at the start, and a block of texts when somebody looks at a case or searches.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator

from msgspec import Struct

from farm.report.charts import outcome_class

BLOCK = 500  # cases: small enough to unpack in a blink, large enough to compress well
_LEVEL = 6
_NUMBER = re.compile("([0-9]+)")


class CaseRow(Struct, frozen=True, kw_only=True):
    """One case as the page shows it; every text is foreign.

    `expected` holds the targets, one a line where there are several. `extracted` is what the
    scorer took from the response, `steps` what it did to both sides, `rule` what decided. `score`
    is None where there is none.
    """

    model: str
    id: str
    prompt: str
    expected: str
    response: str
    extracted: str | None = None
    rule: str = ""
    steps: tuple[str, ...] = ()
    category: str = ""
    outcome: str
    score: float | None


def pack_cases(cases: Iterable[CaseRow]) -> Iterator[str]:
    """Yield the script elements of the blocks, then of the index; one block in memory at a time.

    The index (model, id, outcome and score of every case) is the only thing that grows. Cases may
    come in any order: the index ranks them by id, numbers in ids by their value, then by model.
    """
    index = _Index()
    block: list[list[object]] = []
    for case in cases:
        index.add(case)
        block.append(
            [
                case.prompt,
                case.expected,
                case.response,
                case.extracted,
                case.rule,
                case.steps,
                case.category,
            ]
        )
        if len(block) == BLOCK:
            yield _element(f"cases-{index.blocks}", block)
            index.blocks += 1
            block = []
    if block:
        yield _element(f"cases-{index.blocks}", block)
    yield _element("case-index", index.columns())


class _Index:
    """The columns of the cases seen so far; model names and outcomes as numbers."""

    def __init__(self) -> None:
        self.blocks = 0
        self._models: dict[str, int] = {}
        self._outcomes: dict[str, int] = {}
        self._model: list[int] = []
        self._outcome: list[int] = []
        self._ids: list[str] = []
        self._scores: list[float | None] = []

    def add(self, case: CaseRow) -> None:
        self._model.append(self._models.setdefault(case.model, len(self._models)))
        self._outcome.append(self._outcomes.setdefault(case.outcome, len(self._outcomes)))
        self._ids.append(case.id)
        self._scores.append(case.score)

    def columns(self) -> dict[str, object]:
        return {
            "size": BLOCK,
            "models": list(self._models),
            "outcomes": list(self._outcomes),
            "classes": [outcome_class(name) for name in self._outcomes],
            "model": self._model,
            "outcome": self._outcome,
            "id": self._ids,
            "score": self._scores,
            "rank": self._ranks(),
        }

    def _ranks(self) -> list[int]:
        """Return each case's place among all, in the order a reader expects them."""
        keys = [_reading_order(one) for one in self._ids]
        order = sorted(range(len(keys)), key=lambda at: (keys[at], self._model[at]))
        ranks = [0] * len(order)
        for rank, at in enumerate(order):
            ranks[at] = rank
        return ranks


def _reading_order(text: str) -> list[str | int]:
    """Return the text as words and whole numbers by turns, so that case-9 is before case-10."""
    return [int(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(text))]


def _element(identity: str, value: object) -> str:
    # ASCII JSON, because a model may have written half a surrogate pair, which UTF-8 cannot hold
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    packed = base64.b64encode(zlib.compress(plain, _LEVEL)).decode()
    # base64 holds no "<": no text of a case can end this element
    return f'<script type="text/plain" id="{identity}">{packed}</script>\n'
