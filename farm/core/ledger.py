"""The ledger: the durable snapshot of all leases of a run, and its wire form.

The wire form is JSON that ends in a checksum over everything before it, so that a reader can
tell a torn, edited or foreign file from a snapshot.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from farm.core.lease import Lease
from farm.errors import Corrupt

SCHEMA = 1


class Ledger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All leases of a run at one revision, in plan order."""

    schema_version: int = SCHEMA
    run_id: str
    revision: int = 0  # rises by one with every commit
    previous: str = ""  # checksum of the snapshot this one replaced
    leases: tuple[Lease, ...]

    @property
    def complete(self) -> bool:
        """Tell whether every shard has its receipt."""
        return all(lease.done for lease in self.leases)

    @property
    def settled(self) -> bool:
        """Tell whether every shard is done or quarantined."""
        return all(lease.settled for lease in self.leases)

    def lease(self, shard: str) -> Lease:
        """Find a lease by its shard's name; raises `KeyError`."""
        for lease in self.leases:
            if lease.shard == shard:
                return lease
        raise KeyError(shard)


def state_of(lease: Lease) -> str:
    """Name the state of a lease in one word: done, quarantined, leased or open."""
    if lease.done:
        return "done"
    if lease.quarantined:
        return "quarantined"
    return "leased" if lease.worker else "open"


_decoder = msgspec.json.Decoder(Ledger)
_encoder = msgspec.json.Encoder()
_SEAL = b',"checksum":"'
_END = b'"}\n'
_SEALED_TAIL = len(_SEAL) + 64 + len(_END)


def encode_ledger(ledger: Ledger) -> tuple[bytes, str]:
    """Give the snapshot's bytes and its checksum (hex SHA-256 of all that stands before it)."""
    body = _encoder.encode(ledger)[:-1]
    checksum = sha256(body).hexdigest()
    return b"".join((body, _SEAL, checksum.encode(), _END)), checksum


def decode_ledger(data: bytes, *, path: str) -> tuple[Ledger, str]:
    """Read a snapshot and its checksum; raise `Corrupt` on anything but what was written."""
    body, seal = data[:-_SEALED_TAIL], data[-_SEALED_TAIL:]
    if not seal.startswith(_SEAL) or not seal.endswith(_END):
        raise Corrupt(path=path, reason="truncated: the checksum at its end is missing")
    checksum = sha256(body).hexdigest()
    if seal[len(_SEAL) : -len(_END)] != checksum.encode():
        raise Corrupt(path=path, reason="edited or torn: its checksum does not match")
    try:
        ledger = _decoder.decode(body + b"}")
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"not a ledger: {error}") from error
    if ledger.schema_version != SCHEMA:
        reason = f"schema {ledger.schema_version}, this farm reads {SCHEMA}"
        raise Corrupt(path=path, reason=reason)
    return ledger, checksum
