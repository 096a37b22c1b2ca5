"""A case: one thing to be judged, and the rules a record must keep to be one.

This room says what a valid case is. Reading records from files, with line numbers and flags,
is `farm.files.records`; the canonical bytes are `farm.core.canonical`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Protocol

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_ID_BYTES: Final = 256
MAX_TEXT_BYTES: Final = 100_000  # the default of --max-text-bytes, for each text of a record
MAX_COUNT: Final = 2**63 - 1  # what every reader of the canonical form can hold

FilledText = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Nll = Annotated[float, Meta(ge=0)]
Targets = Annotated[tuple[FilledText, ...], Meta(min_length=1)]


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One recorded prediction, its fields in the order of the canonical form.

    Optional fields that a record does not have are UNSET, never null. At least one of
    `expected` and `targets` is there; `broken_rules` checks this and the byte limits, which
    the field types cannot say. `confidence` is any finite number: one outside [0, 1] is kept
    here, and counted and left out by the calibration report. `token_nll` is a sum in nats.
    """

    id: FilledText
    prompt: str
    expected: FilledText | UnsetType = UNSET
    response: str
    task: str | UnsetType = UNSET
    sample: Count | UnsetType = UNSET
    category: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    token_nll: Nll | UnsetType = UNSET
    token_count: Count | UnsetType = UNSET
    targets: Targets | UnsetType = UNSET


class ScoredInput(Struct, frozen=True, kw_only=True, gc=False):
    """The part of a case that scoring looks at; decoding skips every other field.

    Meant for records that were already checked: unknown fields pass.
    """

    id: str
    expected: str | UnsetType = UNSET
    response: str
    targets: tuple[str, ...] | UnsetType = UNSET


class ProgramInput(ScoredInput, frozen=True, kw_only=True, gc=False):
    """What scoring looks at where the response is a program: also what was asked for."""

    prompt: str = ""


class Breach(Struct, frozen=True, kw_only=True):
    """One rule that one record breaks: the field, the rule's stable word, the explanation."""

    field: str
    rule: str
    detail: str


class Answered(Protocol):
    """Any view of a record that has its right answers."""

    @property
    def expected(self) -> str | UnsetType: ...  # noqa: D102  as in Case

    @property
    def targets(self) -> tuple[str, ...] | UnsetType: ...  # noqa: D102  as in Case


def targets_of(case: Answered) -> tuple[str, ...]:
    """Return every text that counts as right: `expected` first, then the targets unlike it.

    The order of `targets` is kept and each text appears once.
    """
    if case.targets is UNSET:
        return () if case.expected is UNSET else (case.expected,)
    head = () if case.expected is UNSET else (case.expected,)
    return tuple(dict.fromkeys((*head, *case.targets)))


class Grouped(Protocol):
    """Any view of a record that has what it shares with others."""

    @property
    def task(self) -> str | UnsetType: ...  # noqa: D102  as in Case

    @property
    def cluster(self) -> str | UnsetType: ...  # noqa: D102  as in Case


def group_of(case: Grouped) -> str | None:
    """Name what a case belongs to: its cluster, else the task that it is a sample of."""
    if case.cluster:
        return f"cluster {case.cluster}"
    return f"task {case.task}" if case.task else None


def joined(groups: dict[str, str]) -> dict[str, str]:
    """Return the groups of cases by id, none at all where no two cases share one."""
    return groups if len(set(groups.values())) < len(groups) else {}


def texts_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield (field, text) for each text a byte limit applies to; the id has its own limit."""
    yield "prompt", case.prompt
    if case.expected is not UNSET:
        yield "expected", case.expected
    yield "response", case.response
    for field, text in (
        ("task", case.task),
        ("category", case.category),
        ("cluster", case.cluster),
    ):
        if text is not UNSET:
            yield field, text
    if case.targets is not UNSET:
        for index, text in enumerate(case.targets):
            yield f"targets[{index}]", text


def broken_rules(case: Case, *, max_text_bytes: int) -> list[Breach]:
    """List the rules a case breaks that its field types cannot say; none means it is valid.

    Lengths are counted in UTF-8 bytes.
    """
    found = []
    if case.expected is UNSET and case.targets is UNSET:
        found.append(NOTHING_EXPECTED)
    size = len(case.id.encode())
    if size > MAX_ID_BYTES:
        found.append(too_long("id", size, limit=MAX_ID_BYTES))
    for field, text in texts_of(case):
        # a character takes four bytes at most, so most texts need not be encoded
        if len(text) * 4 > max_text_bytes and (size := len(text.encode())) > max_text_bytes:
            found.append(too_long(field, size, limit=max_text_bytes))
    return found


NOTHING_EXPECTED: Final = Breach(
    field="expected",
    rule="missing_field",
    detail="is missing and there are no targets: give one of the two",
)


def too_long(field: str, size: int, *, limit: int) -> Breach:
    """Say that a text of `size` UTF-8 bytes is over its limit."""
    way_out = "shorten it" if field == "id" else "shorten it or raise --max-text-bytes"
    return Breach(
        field=field, rule="too_long", detail=f"has {size} bytes, the limit is {limit}: {way_out}"
    )
