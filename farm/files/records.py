"""Read prediction files: bytes in, checked cases out, every bad record named.

The fast reader decodes whole blocks and proves with a few tests over the block that nothing is
wrong with it; where a test fails, each record of the block is judged alone, and the bad ones go
to `farm.files.exact`, which says why. The tests never accept what the exact way refuses:

- each line is shown to be one record by itself, so none can lean on its neighbour;
- a record of at most `max_text_bytes` bytes cannot hold a longer text, since no JSON escape is
  shorter than the UTF-8 it stands for;
- a repeated key is taken in silence by the decoder, but leaves its quotes behind: each key and
  each string has two quotes that no backslash stands before, a canonical record has every key
  once, so as many such quotes in a block as in its canonical form prove that no key repeats.

Opening and decompressing is `farm.files.source`; writing what was read is `farm.store`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET

from farm.core.canonical import canonical, canonical_lines
from farm.core.case import MAX_ID_BYTES, Breach, Case, broken_rules
from farm.errors import Problem, SpecError
from farm.files.elements import Elements, split_array
from farm.files.exact import Broken, examine
from farm.files.lines import BLANK, LineBlock, LongLine, count_records, line_blocks, line_too_long
from farm.files.mapping import Rules
from farm.files.repeats import SeenIds
from farm.files.source import Source

PROBLEMS_KEPT: Final = 100
_PLAIN: Final = Rules()
_DECODER: Final = msgspec.json.Decoder(Case)
_DECODE: Final = _DECODER.decode
_BRACE: Final = 0x7B
_QUOTE: Final = 0x22


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some cases in file order, with their ids and their canonical bytes, a line each."""

    cases: Sequence[Case]
    ids: Sequence[str]
    lines: bytes


def batch_of(cases: Sequence[Case]) -> Batch:
    """Return cases that are known to be valid as a batch."""
    return Batch(cases=cases, ids=[case.id for case in cases], lines=canonical_lines(cases))


def read_cases(source: Source, rules: Rules = _PLAIN) -> Iterator[Batch]:
    """Yield the cases of an input in file order, in batches of some MiB.

    Raises SpecError at the end of the input, with every problem found: the first
    `PROBLEMS_KEPT` and the count of all. Once a record was refused, no more batches are
    yielded, only problems collected. Ids that repeat are found at the end; so a caller must not
    rely on any batch before the iterator is exhausted. JSON Lines need memory for a block and
    nine bytes a record; an array is held whole.
    """
    problems = _Problems(source)
    seen = SeenIds()
    try:
        for block in _blocks(source, rules, problems):
            batch = _batch(block, rules, problems, seen)
            if batch.cases and not problems.total:
                yield batch
    except SpecError as error:  # the source broke off: what was found before still counts
        problems.take(error)
    if suspects := seen.suspects():
        _find_repeats(source, rules, suspects, problems)
    problems.settle()


def count_cases(source: Source, rules: Rules = _PLAIN) -> int:
    """Return how many records an input has, valid or not, without parsing lines."""
    if source.form == "array":
        return len(_whole_array(source).items)
    blocks = line_blocks(source.blocks(), limit=rules.max_line_bytes)
    return sum(1 if isinstance(b, LongLine) else count_records(b) for b in blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Consecutive records as bytes: elements of an array, or lines, some of them blank."""

    first: int  # the number of the first one
    elements: Sequence[msgspec.Raw] = ()
    lines: LineBlock | None = None

    @property
    def items(self) -> Sequence[bytes | msgspec.Raw]:
        """Each record's own bytes; cutting lines apart is done only on demand."""
        return self.elements if self.lines is None else self.lines.lines()

    def longest(self) -> int:
        """Return the size of the longest record in bytes, at most one too many."""
        return max(map(len, self.elements)) if self.lines is None else self.lines.longest()

    @property
    def open(self) -> bool:
        """Whether the file ended inside the last record."""
        return self.lines is not None and self.lines.open


@dataclass(slots=True)
class _Problems:
    """What is wrong with one input: the first hundred problems, and how many there are."""

    source: Source
    kept: list[Problem] = field(default_factory=list)
    total: int = 0

    def add(self, breach: Breach, number: int | None = None) -> None:
        self.total += 1
        if len(self.kept) < PROBLEMS_KEPT:
            self.kept.append(self.source.problem(breach, number))

    def take(self, error: SpecError) -> None:
        self.total += error.total
        self.kept.extend(error.problems[: PROBLEMS_KEPT - len(self.kept)])

    def settle(self) -> None:
        if self.total:
            raise SpecError(problems=self.kept, total=self.total)


def _blocks(source: Source, rules: Rules, problems: _Problems) -> Iterator[_Block]:
    """Yield the records of an input undecoded; what cannot be cut out is a problem."""
    if source.form == "lines":
        for lines in line_blocks(source.blocks(), limit=rules.max_line_bytes):
            if isinstance(lines, LongLine):
                problems.add(lines.breach(rules.max_line_bytes), lines.number)
            else:
                yield _Block(first=lines.first, lines=lines)
        return
    array = _whole_array(source)
    size = sum(map(len, array.items))
    step = max(1, len(array.items) * source.block_bytes // (size + 1))
    for start in range(0, len(array.items), step):
        yield _Block(first=start, elements=array.items[start : start + step])
    if array.breach:
        problems.add(array.breach, array.broken_at)
    elif not array.items:
        detail = "the array is empty: give at least one record"
        problems.add(Breach(field="", rule="empty_file", detail=detail))


def _whole_array(source: Source) -> Elements:
    data = bytearray()  # grows in place: joining the blocks would hold the file twice
    for block in source.blocks():
        data += block
    return split_array(data)


def _batch(block: _Block, rules: Rules, problems: _Problems, seen: SeenIds) -> Batch:
    """Return the good cases of a block: all at once if nothing is wrong, else one by one.

    Notes the ids of all its records, also of those that something else is wrong with.
    """
    if rules.plain and (batch := _sound_batch(block, rules)):
        seen.add(batch.ids)
        return batch
    cases = []
    broken_ids = []
    items = block.items
    last = block.first + len(items) - 1
    for number, item in enumerate(items, block.first):
        cut = block.open and number == last
        found = _judge(item, rules, cut=cut)
        if isinstance(found, Case):
            cases.append(found)
        elif found is not None:
            for breach in found.breaches:
                problems.add(breach, number)
            if found.id:
                broken_ids.append(found.id)
    batch = batch_of(cases)
    seen.add(batch.ids)
    seen.add(broken_ids)
    return batch


def _sound_batch(block: _Block, rules: Rules) -> Batch | None:
    """Return the block's cases if it can be proved that nothing is wrong with any, else None."""
    try:
        cases = [*map(_DECODE, block.items)] if block.lines is None else _one_a_line(block.lines)
    except msgspec.DecodeError:
        return None
    if not cases or block.longest() > rules.max_text_bytes:
        return None
    if any(c.targets is UNSET for c in [c for c in cases if c.expected is UNSET]):
        return None
    batch = batch_of(cases)
    # a character takes four bytes at most
    if max(map(len, batch.ids)) * 4 > MAX_ID_BYTES and any(
        len(text.encode()) > MAX_ID_BYTES for text in batch.ids
    ):
        return None
    data = b"".join(block.items) if block.lines is None else block.lines.data
    if structural_quotes(data) != structural_quotes(batch.lines):
        return None
    return batch


def _one_a_line(block: LineBlock) -> list[Case]:
    """Decode a block of lines in one call, or return nothing unless each line is one record.

    The decoder alone would let a record run over several lines. But a case holds no object, and
    no string holds a raw newline, so a brace that begins a line begins a record and no record
    is open there. If every line begins with a brace and there are as many records as lines,
    each line is exactly one.
    """
    if not block.each_begins_with(_BRACE):
        return []
    cases = _DECODER.decode_lines(block.data)
    return cases if len(cases) == len(block.starts) else []


def _judge(item: bytes | msgspec.Raw, rules: Rules, *, cut: bool) -> Case | Broken | None:
    """Return the case one record stands for, or what is wrong with it; None if it is blank."""
    if len(item) > rules.max_line_bytes:
        return Broken(breaches=[line_too_long(len(item), limit=rules.max_line_bytes)])
    data = bytes(item)
    if rules.plain:
        try:
            case = _DECODE(data)
        except msgspec.DecodeError:
            pass
        else:
            quotes = structural_quotes(canonical(case))
            sound = not broken_rules(case, max_text_bytes=rules.max_text_bytes)
            if sound and structural_quotes(data) == quotes:
                return case
    if not data.strip(BLANK):
        return None
    return examine(data, rules, cut=cut)


def structural_quotes(data: bytes) -> int:
    """Count the quotes that begin or end a string in valid JSON text.

    These are all but the ones a backslash escapes. Pairs of backslashes are taken out first,
    from the left as JSON reads them, so that one left before a quote does escape it.
    """
    quotes = int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _QUOTE))
    if b"\\" not in data:
        return quotes
    return quotes - data.replace(b"\\\\", b"").count(b'\\"')


def _find_repeats(
    source: Source, rules: Rules, suspects: frozenset[int], problems: _Problems
) -> None:
    """Read the input again and name every id that repeats, with its first place."""
    first_places: dict[str, int] = {}
    ignored = _Problems(source)
    try:
        for block in _blocks(source, rules, ignored):
            for number, item in enumerate(block.items, block.first):
                found = _judge(item, rules, cut=False)
                if not (found and found.id) or hash(found.id) not in suspects:
                    continue
                first = first_places.setdefault(found.id, number)
                if first != number:
                    problems.add(_duplicate_id(found.id, source.unit, first, rules), number)
    except SpecError as error:
        if not problems.total:  # else it broke off the first time as well, which was told
            problems.take(error)


def _duplicate_id(id: str, unit: str, first: int, rules: Rules) -> Breach:
    made = rules.auto_id and id.startswith("sha256:")
    way_out = "the contents are equal, remove one" if made else "give each record its own"
    detail = f"{id!r} is also the id of {unit} {first}: {way_out}"
    return Breach(field="id", rule="duplicate_id", detail=detail)
