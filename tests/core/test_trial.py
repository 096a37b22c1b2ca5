"""Trials: ids, order, plan and what binds it."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.partition import bucket
from farm.core.plan import Plan
from farm.core.task import Example, TaskSpec
from farm.core.trial import (
    Trial,
    Trials,
    decode_tasks,
    default_trial_shards,
    encode_tasks,
    has_trials,
    plan_trials,
    read_trial,
)
from farm.errors import Corrupt, SpecError


def task(name: str = "a", **given: object) -> TaskSpec:
    fields: dict[str, object] = {
        "task_id": name,
        "category": "open",
        "prompt": "six by seven?",
        "targets": ("42",),
        "metric_name": "exact_match",
        "post_process": "none",
        **given,
    }
    return TaskSpec(**fields)  # type: ignore[arg-type]


def planned(*tasks: TaskSpec, models: tuple[str, ...] = ("m",), **given: int) -> tuple[Plan, bytes]:
    samples, shards = given.get("samples", 1), given.get("shards", 4)
    trials = Trials(tasks=tasks, models=models, samples=samples)
    return plan_trials(trials, shards=shards, version_of=lambda metric: "1")


NAMES = st.text(st.sampled_from("abcXYZ019._:/@+-"), min_size=1, max_size=20)


@given(
    model=NAMES,
    name=st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
    sample=st.integers(0, 999),
)
def test_an_id_reads_back_as_its_trial(model: str, name: str, sample: int) -> None:
    trial = Trial(model, name, sample)
    assert read_trial(trial.id) == trial
    assert trial.id == f"{model}|{name}|{sample}"  # the glossary's form
    assert trial.id.endswith(trial.question)


@pytest.mark.parametrize("id", ["", "a", "m|a", "m|a|x", "m|a|01", "m|a|-1", "m|a|b|0", "m|a|²"])
def test_what_is_no_id_of_a_trial_is_refused(id: str) -> None:
    with pytest.raises(SpecError, match="is no trial"):
        read_trial(id)


@pytest.mark.parametrize(
    ("trials", "shards"), [(1, 1), (16, 1), (17, 2), (10_000, 625), (16_384, 1024), (10**6, 1024)]
)
def test_a_shard_holds_sixteen_trials_up_to_the_most_shards(trials: int, shards: int) -> None:
    """min(1024, ceil(trials / 16))."""
    assert default_trial_shards(trials) == shards


def test_all_models_advance_together() -> None:
    """Samples outermost, then tasks, then models."""
    trials = Trials(tasks=(task("a"), task("b")), models=("m", "n"), samples=2)
    assert [trial.id for trial, _ in trials] == [
        "m|a|0", "n|a|0", "m|b|0", "n|b|0", "m|a|1", "n|a|1", "m|b|1", "n|b|1",
    ]  # fmt: skip
    assert trials.count == 8


def test_a_plan_holds_every_trial_once_in_the_shard_of_its_id() -> None:
    plan, data = planned(task("a"), task("b"), models=("m", "n"), samples=3)
    assert has_trials(plan)
    assert (plan.cases, plan.identity.models) == (12, ("m", "n"))
    seen = []
    for shard in plan.shards:
        ((offset, length),) = shard.extents
        block = data[offset : offset + length]
        assert sha256(block).hexdigest() == shard.sha256
        cases = [json.loads(line) for line in block.splitlines()]
        assert len(cases) == shard.cases
        for case in cases:
            assert shard.name == f"shard-{bucket(case['id'], 4)}"
            assert case["response"] == ""
            seen.append(case["id"])
    assert sorted(seen) == sorted(f"{m}|{t}|{s}" for m in "mn" for t in "ab" for s in range(3))


def test_worked_examples_are_part_of_the_prompt() -> None:
    _, data = planned(task(few_shot_examples=(Example(prompt="1+1?", completion="2"),)))
    assert json.loads(data)["prompt"] == "1+1? 2\n\nsix by seven?"


def test_other_models_share_the_tasks_and_not_the_run() -> None:
    one, two = planned(task(), models=("m",))[0], planned(task(), models=("n",))[0]
    assert one.tasks_sha256 == two.tasks_sha256
    assert one.identity.scorer == two.identity.scorer
    assert one.run_id != two.run_id


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "another"},
        {"targets": ("42", "forty-two")},
        {"metric_name": "f1"},
        {"post_process": "lower"},
    ],
)
def test_another_question_or_another_judgement_is_another_run(other: dict[str, object]) -> None:
    assert planned(task())[0].run_id != planned(task("a", **other))[0].run_id


def test_another_version_of_a_metric_is_another_scorer() -> None:
    trials = Trials(tasks=(task(),), models=("m",))
    first, _ = plan_trials(trials, shards=1, version_of=lambda metric: "1")
    second, _ = plan_trials(trials, shards=1, version_of=lambda metric: "2")
    assert first.identity.scorer != second.identity.scorer


def test_names_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(SpecError, match="must not hold"):
        planned(task(), models=("a|b",))
    with pytest.raises(SpecError, match="is there twice"):
        planned(task(), models=("a", "a"))
    with pytest.raises(SpecError, match="over 256 bytes"):
        planned(task("t" * 254))


def test_tasks_are_kept_whole() -> None:
    tasks = (
        task("a", metadata={"timeout_s": 3, "x": [1, None, "\u2028"]}),
        task("b", few_shot_examples=(Example(prompt="p", completion="c"),)),
    )
    assert decode_tasks(encode_tasks(tasks), path="tasks.jsonl") == tasks
    with pytest.raises(Corrupt, match="not the tasks of a run"):
        decode_tasks(b'{"task_id": 1}\n', path="tasks.jsonl")
