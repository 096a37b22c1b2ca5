r"""Canonical JSON: one value, one sequence of bytes, one digest.

The form is compact UTF-8 with keys in declared order. ``<``, ``>``, ``&``, U+2028 and U+2029
are written as ``\u003c \u003e \u0026 \u2028 \u2029``, control characters as
``\b \f \n \r \t`` or ``\u00xx`` in lower case; this is what Go's encoding/json writes for
the same texts. Floats are the shortest decimal that reads back the same, always with a point
or an exponent. Inside a canonical string a quote always has a backslash before it, which makes
every ``,"`` the start of a member or of a target; the tasks view relies on that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from farm.core.case import Case

_ENCODER: Final = msgspec.json.Encoder()
# These bytes occur inside strings only, so a whole block can be rewritten at once.
_REWRITES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
_WIDE_REWRITES: Final = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_RESPONSE: Final = b',"response":"'
_BRACKET: Final = 0x5D
TARGETS: Final = b',"targets":['
_TOGETHER: Final = (b',"cluster":"', b',"sample":')


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a value: a case, or anything built of JSON types.

    Keys of a dict keep their order. Floats must be finite.
    """
    return _rewrite(_ENCODER.encode(value))


def canonical_lines(cases: Iterable[Case]) -> bytes:
    """Return the canonical bytes of many cases, each ended by a newline.

    A newline inside a text is escaped, so every newline of the block ends a record.
    """
    return _rewrite(_ENCODER.encode_lines(cases))


def digest_of(value: object) -> str:
    """Return the SHA-256 of a value's canonical bytes, 64 lower case hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def task_view(lines: Sequence[bytes]) -> bytes:
    """Return the records reduced to id, prompt, expected and targets, joined by commas.

    `lines` are canonical records without their newlines, each of two bytes at least. The
    response and what follows it are cut away; targets, always last, are put back.
    """
    plain = [line.partition(_RESPONSE)[0] for line in lines]
    # only a record with targets ends in a bracket before its brace
    if not any([line[-2] == _BRACKET for line in lines]):  # noqa: C419  # a list is twice as fast
        return b"},".join(plain) + b"}" if plain else b""
    return b",".join(
        head + (TARGETS + rest if found else b"}")
        for head, (_, found, rest) in zip(
            plain, (line.partition(TARGETS) for line in lines), strict=True
        )
    )


def names_groups(records: bytes) -> bool:
    """Tell whether any canonical record of a block names its cluster, or which sample it is."""
    return any(mark in records for mark in _TOGETHER)


class DatasetDigest:
    """The two identities of a dataset, computed while its records stream by.

    `dataset_sha256` is the SHA-256 of the compact JSON array of all canonical records in file
    order; `tasks_sha256` that of the same records reduced by `task_view`, so that predictions
    of two models on the same tasks share it. Neither depends on how records were blocked.
    """

    def __init__(self) -> None:
        self._records = hashlib.sha256(b"[")
        self._tasks = hashlib.sha256(b"[")
        self._begun = False

    def update(self, lines: Sequence[bytes]) -> None:
        """Add canonical records, given without their newlines."""
        self.update_joined(b",".join(lines), task_view(lines))

    def update_joined(self, records: bytes, tasks: bytes) -> None:
        """Add a block that was already joined by commas, and its task view.

        For callers that hash in another thread: on large blocks all the time is spent in two
        calls that let other threads run.
        """
        if not records:
            return
        if self._begun:
            self._records.update(b",")
            self._tasks.update(b",")
        self._begun = True
        self._records.update(records)
        self._tasks.update(tasks)

    @property
    def dataset_sha256(self) -> str:
        """The digest of the records so far, as a closed array."""
        return _closed(self._records)

    @property
    def tasks_sha256(self) -> str:
        """The digest of the task views so far, as a closed array."""
        return _closed(self._tasks)


def _closed(running: hashlib._Hash) -> str:
    end = running.copy()
    end.update(b"]")
    return end.hexdigest()


def _rewrite(block: bytes) -> bytes:
    for raw, escaped in _REWRITES:
        block = block.replace(raw, escaped)  # returns the same block when nothing is found
    if block.isascii():  # a far cheaper question than looking for three bytes in a row
        return block
    for raw, escaped in _WIDE_REWRITES:
        block = block.replace(raw, escaped)
    return block
