"""Small, whole values that tests of several rooms start from."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from farm.core.lease import Lease
from farm.core.ledger import Ledger, state_of
from farm.core.plan import Identity, Plan, ScorerName, Shard, make_plan
from farm.core.receipt import ReceiptReference, build_receipt, encode_receipt, refer
from farm.core.result import CaseResult

SAMPLE_DATASET = "60eb5c9ae5c3fce2a328d662094c3204689130101ad85c1f4563ce0cd27dd267"
SCORER = ScorerName(name="normalized_match", version="1")


def states(ledger: Ledger) -> dict[str, int]:
    """Count the leases by state: done, quarantined, leased, open."""
    return dict(sorted(Counter(map(state_of, ledger.leases)).items()))


def shard_named(plan: Plan, name: str) -> Shard:
    """The shard of that name."""
    return next(shard for shard in plan.shards if shard.name == name)


def verdict(id: str, *, correct: bool = True) -> CaseResult:
    """One verdict, right or wrong."""
    outcome = "correct" if correct else "wrong"
    return CaseResult(id=id, correct=correct, score=float(correct), outcome=outcome)


def receipt_bytes(*ids: str, wrong: tuple[str, ...] = (), pid: int = 7) -> bytes:
    """The receipt file of these cases; those in `wrong` are judged so."""
    results = [verdict(case, correct=case not in wrong) for case in ids]
    return encode_receipt(build_receipt(results, worker_pid=pid))


def reference(*ids: str, wrong: tuple[str, ...] = (), pid: int = 7) -> ReceiptReference:
    """The ledger's reference to what `receipt_bytes` gives for the same arguments."""
    results = [verdict(case, correct=case not in wrong) for case in ids or ("a",)]
    receipt = build_receipt(results, worker_pid=pid)
    return refer(receipt, encode_receipt(receipt))


def lines(shard: int) -> bytes:
    """The canonical record of the one case of a shard: ``case-<shard>``."""
    return b'{"id":"case-%d","prompt":"p","expected":"e","response":"e"}\n' % shard


def plan_of(shards: int = 3, *, models: tuple[str, ...] = ()) -> Plan:
    """A plan of so many shards with one case each; its cases are those of `lines`."""
    return make_plan(
        identity=Identity(
            dataset_sha256=SAMPLE_DATASET, shards=shards, scorer=SCORER, models=models
        ),
        tasks_sha256="a" * 64,
        cases=shards,
        shards=tuple(
            Shard(
                name=f"shard-{index}",
                cases=1,
                sha256=sha256(lines(index)).hexdigest(),
                extents=((index * len(lines(0)), len(lines(0))),),
            )
            for index in range(shards)
        ),
    )


FREE = Lease(shard="shard-0")
HELD = Lease(shard="shard-0", worker="w1", version=1, until=100)
DONE = Lease(shard="shard-0", worker="w1", version=1, until=100, receipt=reference())
QUARANTINED = Lease(shard="shard-0", version=3, attempts=3, quarantined=True)
