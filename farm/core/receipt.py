"""What a worker publishes for a shard: its pid, the ordered verdicts, the totals.

A receipt is an immutable file; the ledger holds a reference to it (digest, size, totals), and
only the reference makes it count. The wire form is compact JSON, so that equal verdicts give
equal bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from farm.core.isolation import Isolation
from farm.core.result import CaseResult
from farm.errors import Corrupt


class ReceiptReference(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What the ledger keeps of an accepted receipt; `isolation` as in `Receipt`."""

    sha256: str
    bytes: int
    worker_pid: int
    total: int
    correct: int
    outcomes: dict[str, int]  # outcome -> number of cases, by name; the values sum to `total`
    isolation: Isolation | None = None


class Receipt(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The verdicts of one shard, in the order of its cases.

    `isolation` is what all programs that were run for it had around them at least; None, and
    not written, where no program was run. Like the pid it is a fact of the attempt. `answers`
    are what models said, one for each case, where they were asked; see `farm.core.answer`.
    `evidence_sha256` is the digest of the record that the verdicts were read from, where there
    is one beside the receipt.
    """

    worker_pid: int
    cases: Sequence[CaseResult]
    correct: int
    total: int
    isolation: Isolation | None = None
    answers: tuple[msgspec.Raw, ...] = ()
    evidence_sha256: str | None = None


class _Verdict(msgspec.Struct, frozen=True, gc=False):
    """The part of a verdict that totals need; decoding it skips the rest."""

    correct: bool
    outcome: str


class _Verdicts(msgspec.Struct, frozen=True):
    worker_pid: int
    cases: list[_Verdict]
    correct: int
    total: int
    isolation: Isolation | None = None


_encoder = msgspec.json.Encoder()


def receipt_name(shard: str, version: int) -> str:
    """Give the file name of a shard's receipt under a version: ``shard-7.v2.json``."""
    return f"{shard}.v{version}.json"


def build_receipt(
    results: Sequence[CaseResult],
    *,
    worker_pid: int,
    isolation: Isolation | None = None,
    answers: tuple[msgspec.Raw, ...] = (),
    evidence_sha256: str | None = None,
) -> Receipt:
    """Make a receipt of verdicts; the totals are counted here and nowhere else."""
    correct = [result.correct for result in results].count(True)
    return Receipt(
        worker_pid=worker_pid,
        cases=results,
        correct=correct,
        total=len(results),
        isolation=isolation,
        answers=answers,
        evidence_sha256=evidence_sha256,
    )


def encode_receipt(receipt: Receipt) -> bytes:
    """Give the exact bytes that a receipt file holds."""
    return _encoder.encode(receipt)


def refer(receipt: Receipt, data: bytes) -> ReceiptReference:
    """Make the ledger's reference to `receipt`, whose bytes are `data`."""
    return ReceiptReference(
        sha256=sha256(data).hexdigest(),
        bytes=len(data),
        worker_pid=receipt.worker_pid,
        total=receipt.total,
        correct=receipt.correct,
        outcomes=_count(receipt.cases),
        isolation=receipt.isolation,
    )


def read_receipt(data: bytes, reference: ReceiptReference, *, path: str) -> Receipt:
    """Decode receipt bytes that the ledger refers to; raise `Corrupt` when they are others."""
    check_bytes(data, reference, path=path)
    try:
        return msgspec.json.decode(data, type=Receipt)
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"not a receipt: {error}") from error


def check_bytes(data: bytes, reference: ReceiptReference, *, path: str) -> None:
    """Hold receipt bytes against the size and digest in the ledger; raises `Corrupt`."""
    if len(data) != reference.bytes:
        reason = f"{len(data)} bytes where the ledger has {reference.bytes}"
        raise Corrupt(path=path, reason=reason)
    digest = sha256(data).hexdigest()
    if digest != reference.sha256:
        raise Corrupt(path=path, reason=f"sha256 {digest} where the ledger has {reference.sha256}")


def recount(data: bytes, *, path: str) -> ReceiptReference:
    """Derive a reference anew from receipt bytes, totals counted from the verdicts.

    Raises `Corrupt` when they are not a receipt.
    """
    try:
        verdicts = msgspec.json.decode(data, type=_Verdicts)
    # the decoder skips foreign fields by recursion, however deep they are
    except (msgspec.DecodeError, RecursionError) as error:
        raise Corrupt(path=path, reason=f"not a receipt: {error}") from error
    return ReceiptReference(
        sha256=sha256(data).hexdigest(),
        bytes=len(data),
        worker_pid=verdicts.worker_pid,
        total=len(verdicts.cases),
        correct=[verdict.correct for verdict in verdicts.cases].count(True),
        outcomes=_count(verdicts.cases),
        isolation=verdicts.isolation,
    )


def _count(cases: Sequence[CaseResult] | Sequence[_Verdict]) -> dict[str, int]:
    return dict(sorted(Counter([case.outcome for case in cases]).items()))
