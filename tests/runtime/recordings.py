"""Recorded runs in memory, judged in this process: what reports read, without any process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from farm.core.answer import encode_answers
from farm.core.canonical import DatasetDigest, canonical
from farm.core.case import Case
from farm.core.change import Claim, Publish
from farm.core.generation import Failure, Generation
from farm.core.partition import bucket, shard_name
from farm.core.plan import Identity, ScorerName, Shard, make_plan
from farm.core.receipt import Receipt, encode_receipt, receipt_name, refer
from farm.core.task import TaskSpec
from farm.core.trial import Trials, encode_tasks, plan_trials, read_trial
from farm.runtime.trials import Recorded, recorded, recordings
from farm.runtime.worker import decode_cases, score_shard, scorer_of
from farm.scoring.registry import scorer
from farm.scoring.trial import TrialJudge
from farm.store.memory import MemoryStore
from farm.store.protocol import TASKS_FILE


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
        _publish(store, shard, score_shard(texts[shard.name], shard, scorer_of(plan), worker_pid=1))
    return recorded(store, model=model)


def evaluation(words: dict[str, str], *, shards: int, done: int) -> Recorded:
    """A run of model m on tasks, its first `done` shards judged.

    A word a task, a letter a sample: c is right, w wrong, x an error.
    """
    tasks = [
        TaskSpec(
            task_id=name,
            category="open",
            prompt="?",
            targets=("c",),
            metric_name="exact_match",
            post_process="none",
        )
        for name in words
    ]
    trials = Trials(tasks=tuple(tasks), models=("m",), samples=len(next(iter(words.values()))))
    kept = {TASKS_FILE: encode_tasks(tasks)}
    plan, block = plan_trials(trials, shards=shards, version_of=lambda _: "1", files=kept)
    texts = {}
    for shard in plan.shards:
        ((start, size),) = shard.extents
        texts[shard.name] = block[start : start + size]
    store = MemoryStore(plan, cases=texts, kept=kept)
    judge = TrialJudge()
    for shard in plan.shards[:done]:
        asked = [read_trial(one.id) for one in decode_cases(texts[shard.name], shard)]
        letters = [words[trial.task][trial.sample] for trial in asked]
        failure = Failure(kind="invalid", detail="no")
        answers = [
            Generation(letter, failure=failure if letter == "x" else None) for letter in letters
        ]
        verdicts = [
            judge(trial.id, tasks[list(words).index(trial.task)], answer)[0]
            for trial, answer in zip(asked, answers, strict=True)
        ]
        receipt = Receipt(
            worker_pid=1,
            cases=verdicts,
            correct=sum(one.correct for one in verdicts),
            total=len(verdicts),
            answers=encode_answers(answers),
        )
        _publish(store, shard, receipt)
    return recordings(store, names=("m",))[0]


def _publish(store: MemoryStore, shard: Shard, receipt: Receipt) -> None:
    store.commit([Claim(worker="w", ttl=1_000_000)])
    data = encode_receipt(receipt)
    store.put_receipts({receipt_name(shard.name, 1): data})
    store.commit([Publish(shard=shard.name, worker="w", version=1, receipt=refer(receipt, data))])
