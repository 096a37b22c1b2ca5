"""Recorded runs in memory, judged in this process: what reports read, without any process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from farm.core.canonical import DatasetDigest, canonical
from farm.core.case import Case
from farm.core.change import Claim, Publish
from farm.core.partition import bucket, shard_name
from farm.core.plan import Identity, ScorerName, Shard, make_plan
from farm.core.receipt import encode_receipt, receipt_name, refer
from farm.runtime.trials import Recorded, recorded
from farm.runtime.worker import score_shard, scorer_of
from farm.scoring.registry import scorer
from farm.store.memory import MemoryStore


def case(id: str, response: str, *, expected: str = "yes", **more: Any) -> Case:
    """One record; by default the right answer is yes."""
    return Case(id=id, prompt=f"{id}?", expected=expected, response=response, **more)


def recording(
    cases: Sequence[Case],
    *,
    model: str = "m",
    by: str = "exact_match",
    shards: int = 3,
    done: int | None = None,
    grouped: bool = False,
) -> Recorded:
    """A run of these cases under a model's name, its first `done` shards judged (None: all).

    `grouped` is what the plan says of them.
    """
    digest = DatasetDigest()
    digest.update([canonical(one) for one in cases])
    texts: dict[str, bytes] = {}
    for one in sorted(cases, key=lambda one: bucket(one.id, shards)):
        name = shard_name(bucket(one.id, shards))
        texts[name] = texts.get(name, b"") + canonical(one) + b"\n"
    used = scorer(by)
    plan = make_plan(
        identity=Identity(
            dataset_sha256=digest.dataset_sha256,
            shards=shards,
            scorer=ScorerName(name=used.name, version=used.version),
        ),
        tasks_sha256=digest.tasks_sha256,
        cases=len(cases),
        shards=tuple(
            Shard(name=name, cases=text.count(b"\n"), sha256=sha256(text).hexdigest())
            for name, text in texts.items()
        ),
        grouped=grouped,
    )
    store = MemoryStore(plan, cases=texts)
    for shard in plan.shards[:done]:
        store.commit([Claim(worker="w", ttl=1_000_000)])
        receipt = score_shard(texts[shard.name], shard, scorer_of(plan), worker_pid=1)
        data = encode_receipt(receipt)
        store.put_receipts({receipt_name(shard.name, 1): data})
        store.commit(
            [Publish(shard=shard.name, worker="w", version=1, receipt=refer(receipt, data))]
        )
    return recorded(store, model=model)
