"""What is sent: archive records that look like work, made from a seed and the same everywhere.

A fixture is the first conversation of a task with the archive in it. Its id stands at its very
start, so that no two tasks share a prefix beyond the template's own: what a cache may know of
one says nothing of another. Only hashes choose; no random generator's version matters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from farm.errors import SpecError

WINDOW: Final = 64  # tokens by which a fixture may be over its target, and a server's count off
KEY: Final = "sku-73"
TOOL_NAME: Final = "read_record"
BYTES_PER_TOKEN: Final = 3  # of the archive, in fixed_bytes; low, so that most contexts hold it
_BASE_TOKENS: Final = 224  # what a fixture holds beside its archive, about
_MAX_COUNTS: Final = 40

_VERBS: Final = (
    "merge", "split", "rank", "trim", "shift", "group", "parse", "round", "scan", "fold",
    "pack", "sort", "label", "count", "batch", "route",
)  # fmt: skip
_NOUNS: Final = (
    "orders", "rows", "ledger", "events", "stock", "prices", "routes", "tags", "parts", "bins",
    "lots", "bills", "slots", "pages", "cards", "items",
)  # fmt: skip
_ENDS: Final = (
    "return [row for row in {noun} if row > {a}]",
    "return sorted({noun})[{a}:{b}]",
    "return sum({noun}) + {a} * {b}",
    "return {{row: {a} for row in {noun}}}",
    "return max({noun}, default={a}) - {b}",
    "return [row + {a} for row in {noun}[:{b}]]",
)

TOOLS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "Read one private record of the shop.",
            "parameters": {
                "type": "object",
                "properties": {"key": {"type": "string"}},
                "required": ["key"],
                "additionalProperties": False,
            },
        },
    },
)


class PrivateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record that comes in the tool's response alone, and the quantity after compaction."""

    key: str
    unit_price_cents: int
    quantity: int
    changed_quantity: int

    @property
    def total(self) -> int:
        """The total of the record, in cents."""
        return self.unit_price_cents * self.quantity

    @property
    def changed_total(self) -> int:
        """The total for the changed quantity, in cents."""
        return self.unit_price_cents * self.changed_quantity


class Fixture(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared conversation; `tokens` is what the counter said of it, None when not counted."""

    request_id: str
    target: int
    mode: Literal["equal_tokens", "fixed_bytes"]
    records: int
    filler: int  # short words after the last record
    tokens: int | None
    archive_sha256: str
    messages: tuple[Mapping[str, Any], ...]


# Counts the tokens of a conversation with its tools, as the server will see it.
Count = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Awaitable[int]]


def request_id_of(*, seed: int, context: int, concurrency: int, repeat: int, stream: int) -> str:
    """Return the stable identifier of a request, 16 hex digits."""
    place = f"farm-qualify|{seed}|{context}|{concurrency}|{repeat}|{stream}"
    return sha256(place.encode()).hexdigest()[:16]


def private_record(request_id: str) -> PrivateRecord:
    """Return the private record of a request: small numbers that no prompt gives away."""
    chosen = _digest(request_id, "record")
    quantity = 3 + chosen[0] % 17
    changed = 3 + chosen[1] % 16
    return PrivateRecord(
        key=KEY,
        unit_price_cents=105 + 5 * (chosen[2] % 160),
        quantity=quantity,
        changed_quantity=changed + (changed >= quantity),  # never the same
    )


def archive_record(request_id: str, index: int) -> str:
    """Return one record of the archive: a small function, different for each request and index."""
    chosen = _digest(request_id, f"archive|{index}")
    noun = _NOUNS[chosen[1] % len(_NOUNS)]
    body = _ENDS[chosen[2] % len(_ENDS)].format(noun=noun, a=chosen[3] % 90, b=chosen[4] % 90)
    return f"def {_VERBS[chosen[0] % len(_VERBS)]}_{noun}_{index}({noun}):\n    {body}\n"


def archive(request_id: str, *, records: int, filler: int = 0) -> str:
    """Return the first `records` records, and a comment of `filler` short words."""
    text = "".join(archive_record(request_id, index) for index in range(records))
    words = (_NOUNS[_digest(request_id, f"filler|{i}")[0] % len(_NOUNS)] for i in range(filler))
    return text + ("# " + " ".join(words) + "\n" if filler else "")


def messages_of(request_id: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """Return the first conversation of a task around an archive."""
    return (
        {"role": "system", "content": f"{request_id}\nYou keep a shop's archive. Be exact."},
        {
            "role": "user",
            "content": (
                f"Archive:\n{text}\n"
                f'Call the tool {TOOL_NAME} with {{"key": "{KEY}"}} now, nothing else. '
                "When its record arrives, multiply unit_price_cents by quantity and answer "
                "with one line: TOTAL_CENTS=<number>"
            ),
        },
    )


async def prepare(
    request_id: str,
    *,
    target: int,
    mode: Literal["equal_tokens", "fixed_bytes"],
    count: Count,
) -> Fixture:
    """Make a fixture of `target` tokens to `target` + 64, or of a fixed number of records.

    In fixed_bytes the number of records depends on the target alone, and the count is only
    noted. Raises `SpecError` when no number of records and words gives the target.
    """
    records, filler = fixed_records(target), 0
    if mode == "equal_tokens":
        records, filler, tokens = await _search(request_id, target=target, count=count)
    text = archive(request_id, records=records, filler=filler)
    messages = messages_of(request_id, text)
    if mode == "fixed_bytes":
        tokens = await count(messages, TOOLS)
    return Fixture(
        request_id=request_id,
        target=target,
        mode=mode,
        records=records,
        filler=filler,
        tokens=tokens,
        archive_sha256=sha256(text.encode()).hexdigest(),
        messages=messages,
    )


def fixed_records(target: int) -> int:
    """Return the number of records for a target in fixed_bytes; a record is about 60 bytes."""
    return max(1, (target - _BASE_TOKENS) * BYTES_PER_TOKEN // 60)


async def _search(request_id: str, *, target: int, count: Count) -> tuple[int, int, int]:
    """Find records and words whose tokens lie in the window; counts rise with both."""
    asked: dict[tuple[int, int], int] = {}

    async def tokens(records: int, filler: int = 0) -> int:
        place = (records, filler)
        if place not in asked:
            if len(asked) >= _MAX_COUNTS:
                raise _no_fit(target, asked)
            text = archive(request_id, records=records, filler=filler)
            asked[place] = await count(messages_of(request_id, text), TOOLS)
        return asked[place]

    low, high = 0, max(8, target // 24)  # counts at `low` are below the window
    if await tokens(0) > target + WINDOW:
        raise SpecError(
            f"a context of {target} tokens is too small: the task alone takes {asked[0, 0]}"
        )
    while await tokens(high) < target:
        if high > target:  # more records than tokens: no tokenizer counts so few
            raise _no_fit(target, asked)
        low, high = high, high * 2
    while high - low > 1:
        # where the line between the two ends meets the middle of the window
        share = (target + WINDOW // 2 - asked[low, 0]) / max(1, asked[high, 0] - asked[low, 0])
        middle = min(high - 1, max(low + 1, low + round(share * (high - low))))
        found = await tokens(middle)
        if target <= found <= target + WINDOW:
            return middle, 0, found
        low, high = (middle, high) if found < target else (low, middle)
    for records in (high, low):
        if target <= asked[records, 0] <= target + WINDOW:
            return records, 0, asked[records, 0]
    # one record is longer than the window: fill up with words, of few tokens each
    filler = 1
    while (found := await tokens(low, filler)) < target:
        filler += max(1, (target - found) // 3)
    if found > target + WINDOW:
        raise _no_fit(target, asked)
    return low, filler, found


def _no_fit(target: int, asked: Mapping[tuple[int, int], int]) -> SpecError:
    nearest = min(asked.values(), key=lambda tokens: abs(tokens - target))
    return SpecError(
        f"no archive gives {target} to {target + WINDOW} tokens, the nearest has {nearest}: "
        "the token counter does not rise with the text, check it"
    )


def _digest(request_id: str, place: str) -> bytes:
    return sha256(f"{request_id}|{place}".encode()).digest()
