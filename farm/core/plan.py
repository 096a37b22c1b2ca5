"""What is to be done: the identity of a run and the shards its cases fall into.

Two runs are the same run when dataset, shard count, scorer and model set are equal; `run_id` is
a digest of just these. The plan is written once and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.errors import Corrupt, IdentityMismatch

SCHEMA = 1
TASKS = "tasks"  # the scorer of a plan whose cases are asked of models: each task names its metric


class ScorerName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scorer as part of a run's identity: another version is another scorer."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


# Whose cases are tasks of a served model: judged when they are measured, by no metric.
QUALIFICATION: Final = ScorerName(name="qualification", version="1")


class Shard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bucket of cases and where the store keeps them."""

    name: str
    cases: int
    sha256: str  # of its canonical records, each ended by a newline, in file order
    extents: tuple[tuple[int, int], ...] = ()  # (offset, length) in bytes, in file order


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes two runs the same run."""

    dataset_sha256: str
    shards: int  # the number asked for; buckets that hold no case are not in the plan
    scorer: ScorerName
    models: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of a run before anything is done."""

    schema_version: int = SCHEMA
    run_id: str
    identity: Identity
    tasks_sha256: str
    cases: int
    shards: tuple[Shard, ...]
    files: dict[str, str] | UnsetType = UNSET  # SHA-256 of what an evaluation keeps, by name
    grouped: bool | UnsetType = UNSET  # whether a case names a cluster or its sample
    checksum: str = ""

    def seals(self, name: str, data: bytes) -> bool:
        """Say whether a file of this name and these bytes is kept beside the plan."""
        digests = {} if isinstance(self.files, UnsetType) else self.files
        return digests.get(name) == sha256(data).hexdigest()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Plan)


def run_id_of(identity: Identity) -> str:
    """Give the first 16 hex digits of the SHA-256 of the identity's compact JSON."""
    return sha256(_encoder.encode(identity)).hexdigest()[:16]


def seed_of(tasks: Iterable[str], scorer: str) -> int:
    """Give the seed of a report's random generators, from digests of tasks and ``name@version``.

    32 bits, the same for every model's run of the same tasks, in whatever order runs are given.
    """
    text = "\n".join([*sorted(set(tasks)), scorer])
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")


def make_plan(
    *,
    identity: Identity,
    tasks_sha256: str,
    cases: int,
    shards: tuple[Shard, ...],
    files: Mapping[str, bytes] | None = None,
    grouped: bool = False,
) -> Plan:
    """Put a plan together and seal it with a checksum over all its other fields.

    `files` are the bytes of what is kept beside it and decides on answers and verdicts. `grouped`
    says that cases may belong together, so that whoever counts them must look.
    """
    digests = {name: sha256(data).hexdigest() for name, data in (files or {}).items()}
    plan = Plan(
        run_id=run_id_of(identity),
        identity=identity,
        tasks_sha256=tasks_sha256,
        cases=cases,
        shards=shards,
        files=digests or UNSET,
        grouped=grouped or UNSET,
    )
    return msgspec.structs.replace(plan, checksum=_seal(plan))


def first_ledger(plan: Plan) -> Ledger:
    """Give the ledger of a run on which nothing was done yet."""
    leases = tuple(Lease(shard=shard.name) for shard in plan.shards)
    return Ledger(run_id=plan.run_id, leases=leases)


def encode_plan(plan: Plan) -> bytes:
    """Give the bytes of the plan file."""
    return _encoder.encode(plan) + b"\n"


def decode_plan(data: bytes, *, path: str) -> Plan:
    """Read a plan file; raise `Corrupt` on anything but what was written."""
    try:
        plan = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"not a plan: {error}") from error
    if plan.schema_version != SCHEMA:
        raise Corrupt(path=path, reason=f"schema {plan.schema_version}, this farm reads {SCHEMA}")
    # the checksum is of values, so the bytes are compared too: no other spelling passes for ours
    own = plan.checksum == _seal(plan) and data == encode_plan(plan)
    if not own or plan.run_id != run_id_of(plan.identity):
        raise Corrupt(path=path, reason="edited: its checksum does not match")
    return plan


def check_identity(stored: Identity, given: Identity, *, store: str) -> None:
    """Refuse to mix two runs in one store; raises `IdentityMismatch`, naming the difference."""
    for field in ("dataset_sha256", "shards", "scorer", "models"):
        old, new = getattr(stored, field), getattr(given, field)
        if old != new:
            raise IdentityMismatch(store=store, field=field, stored=_plain(old), given=_plain(new))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, ScorerName) else value


def _seal(plan: Plan) -> str:
    bare = msgspec.structs.replace(plan, checksum="")
    return sha256(_encoder.encode(bare)).hexdigest()
