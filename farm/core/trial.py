"""Trials: the (model, task, sample) cases of an evaluation, and the plan that they make.

An evaluation is a run like any other. Its cases have no response yet: the receipts bring the
answers along (`farm.core.answer`). Which metric judges a trial is said by its task, so the
run's scorer is the list of tasks with their metrics, and its version a digest of that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from farm.core.canonical import DatasetDigest, canonical, canonical_lines, digest_of
from farm.core.case import MAX_ID_BYTES, Case
from farm.core.partition import MAX_SHARDS, bucket, shard_name
from farm.core.plan import TASKS, Identity, Plan, ScorerName, Shard, make_plan
from farm.core.task import TaskSpec, render_prompt
from farm.errors import Corrupt, SpecError

_TRIALS_PER_SHARD: Final = 16
_MARK: Final = "|"  # neither models nor tasks may have it in their names


class Trial(NamedTuple):
    """Which question a case puts to which model; samples count from 0."""

    model: str
    task: str
    sample: int

    @property
    def id(self) -> str:
        """The case's id."""
        return f"{self.model}{_MARK}{self.task}{_MARK}{self.sample}"

    @property
    def question(self) -> str:
        """The id without the model: what two models' trials share."""
        return f"{self.task}{_MARK}{self.sample}"


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation before anything is asked: its tasks, its models, and how often each asks."""

    tasks: tuple[TaskSpec, ...]
    models: tuple[str, ...]
    samples: int = 1

    @property
    def count(self) -> int:
        """How many trials there are."""
        return len(self.tasks) * len(self.models) * self.samples

    def __iter__(self) -> Iterator[tuple[Trial, TaskSpec]]:
        """Yield all trials: samples outermost, then tasks, then models, so that all advance."""
        for sample in range(self.samples):
            for task in self.tasks:
                for model in self.models:
                    yield Trial(model, task.task_id, sample), task


def read_trial(id: str) -> Trial:
    """Read a case's id; raises `SpecError` for one that `Trial.id` would not have written."""
    parts = id.split(_MARK)
    if len(parts) == 3 and parts[2].isascii() and parts[2].isdigit() and len(parts[2]) <= 9:
        trial = Trial(parts[0], parts[1], int(parts[2]))
        if trial.id == id:
            return trial
    raise SpecError(f"case {id!r} is no trial: its id is not model|task|sample")


def has_trials(plan: Plan) -> bool:
    """Say whether a plan is an evaluation's: its cases are asked, not recorded."""
    return plan.identity.scorer.name == TASKS


def default_trial_shards(trials: int) -> int:
    """Return the shard count when none was asked for: one for 16 trials, at most 1,024."""
    return max(1, min(MAX_SHARDS, -(-trials // _TRIALS_PER_SHARD)))


def plan_trials(
    trials: Trials,
    *,
    shards: int | None = None,
    version_of: Callable[[str], str],
    files: Mapping[str, bytes] | None = None,
) -> tuple[Plan, bytes]:
    """Return the plan of an evaluation and the canonical records of its cases, shard by shard.

    `version_of` gives a metric's version, `files` are kept beside the plan and sealed by it. The
    plan's `tasks_sha256` covers the questions without the models, so runs of other models on the
    same tasks share it. Raises `SpecError` for ids that are too long or name two trials.
    """
    asked = default_trial_shards(trials.count) if shards is None else shards
    _check_names(trials)
    buckets: dict[int, list[Case]] = {}
    for trial, task in trials:
        buckets.setdefault(bucket(trial.id, asked), []).append(_case(trial, task))
    digest = DatasetDigest()
    blocks: list[bytes] = []
    placed: list[Shard] = []
    offset = 0
    for index, cases in sorted(buckets.items()):
        block = canonical_lines(cases)
        digest.update(block.split(b"\n")[:-1])
        placed.append(
            Shard(
                name=shard_name(index),
                cases=len(cases),
                sha256=sha256(block).hexdigest(),
                extents=((offset, len(block)),),
            )
        )
        blocks.append(block)
        offset += len(block)
    identity = Identity(
        dataset_sha256=digest.dataset_sha256,
        shards=asked,
        scorer=scorer_of(trials.tasks, version_of),
        models=trials.models,
    )
    plan = make_plan(
        identity=identity,
        tasks_sha256=questions_digest(trials),
        cases=trials.count,
        shards=tuple(placed),
        files=files,
    )
    return plan, b"".join(blocks)


def encode_tasks(tasks: Sequence[TaskSpec]) -> bytes:
    """Give the bytes of a store's tasks file."""
    return b"".join(canonical(task) + b"\n" for task in tasks)


def decode_tasks(data: bytes, *, path: str) -> tuple[TaskSpec, ...]:
    """Read a store's tasks file; raises `Corrupt` on anything but what was written."""
    try:
        return tuple(_tasks.decode_lines(data))
    except msgspec.DecodeError as error:
        raise Corrupt(path=path, reason=f"not the tasks of a run: {error}") from error


_tasks = msgspec.json.Decoder(TaskSpec)


def _case(trial: Trial, task: TaskSpec) -> Case:
    return Case(
        id=trial.id,
        prompt=render_prompt(task),
        response="",
        task=trial.task,
        sample=trial.sample,
        category=task.category,
        targets=task.targets,
    )


def _check_names(trials: Trials) -> None:
    met: set[str] = set()
    for name in trials.models:
        if _MARK in name:
            raise SpecError(f"model {name!r}: a name must not hold {_MARK!r}")
        if name in met:
            raise SpecError(f"model {name!r} is there twice: give each a name of its own")
        met.add(name)
    longest = max((len(Trial(m, "", trials.samples).id.encode()) for m in trials.models), default=0)
    for task in trials.tasks:
        if longest + len(task.task_id.encode()) > MAX_ID_BYTES:
            raise SpecError(
                f"task {task.task_id!r}: with the longest model name its trials' ids are over "
                f"{MAX_ID_BYTES} bytes: shorten one of them"
            )


def scorer_of(tasks: Sequence[TaskSpec], version_of: Callable[[str], str]) -> ScorerName:
    """Name what judges the trials of these tasks: a digest of each task's metric and rule."""
    metrics = [
        (task.task_id, f"{task.metric_name}@{version_of(task.metric_name)}", task.post_process)
        for task in tasks
    ]
    return ScorerName(name=TASKS, version=digest_of(sorted(metrics))[:16])


def questions_digest(trials: Trials) -> str:
    """Return the digest of what is asked, whichever models are asked: a plan's `tasks_sha256`."""
    digest = sha256()
    for task in trials.tasks:
        digest.update(canonical((task.task_id, render_prompt(task), task.targets)))
    digest.update(b"%d" % trials.samples)
    return digest.hexdigest()
