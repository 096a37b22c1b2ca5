"""Models without a network: mocks, scripts, recordings, and adapters of the user's own."""

from __future__ import annotations

import ast
import asyncio
import json
import math
import threading
from pathlib import Path

import msgspec
import pytest

from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.lift import LiftedEndpoint
from farm.adapters.mock import BiasedAdapter, NoisyAdapter, RuleBasedAdapter, wrong_answer
from farm.adapters.protocol import ModelAdapter
from farm.adapters.recorded import RecordedAdapter, read_recorded
from farm.adapters.scripted import ScriptedAdapter
from farm.adapters.settings import MockSettings, PluginSettings, Step
from farm.core.generation import Failure, Generation, Usage, request_digest
from farm.core.task import TaskSpec, validate_lines
from farm.errors import Halted, SpecError
from farm.store.cache import GenerationCache
from tests.adapters.asking import Clock, task
from tests.adapters.loopback import run

TASKS = validate_lines(
    enumerate(
        (Path(__file__).parents[1] / "vectors" / "fixture_tasks.jsonl").read_bytes().splitlines(),
        start=1,
    )
).tasks


def right(adapter: RuleBasedAdapter | NoisyAdapter | BiasedAdapter, one: TaskSpec) -> bool:
    """Judge an answer by the target itself; a program by running its assertions."""
    text = adapter.generate(one.prompt, one).text
    if one.category != "code_exec":
        return text in one.targets
    source = text.removeprefix("```python\n").removesuffix("\n```")
    space: dict[str, object] = {}
    exec(compile(source, "answer", "exec"), space)  # written by the mock itself
    try:
        for target in one.targets:
            exec(compile(ast.parse(target), "target", "exec"), space)
    except AssertionError:
        return False
    return True


def test_the_three_mocks_are_what_their_names_say() -> None:
    """On the ten fixture tasks; noisy's three right ones are those its seed draws."""
    assert len(TASKS) == 10
    assert [one.task_id for one in TASKS if not right(RuleBasedAdapter(), one)] == []
    assert sum(right(NoisyAdapter(), one) for one in TASKS) <= 5
    assert {one.category for one in TASKS if right(BiasedAdapter(), one)} == {"arithmetic"}


def test_the_noisy_mock_is_overconfident() -> None:
    """Always over 0.9, on average right far less often: that is what calibration must show."""
    samples = [
        NoisyAdapter().generate(one.prompt, one, sample=sample)
        for one in TASKS
        for sample in range(100)
    ]
    confidences = [generation.confidence or 0.0 for generation in samples]
    assert min(confidences) >= 0.9
    assert max(confidences) < 0.99
    hits = [
        generation.text in one.targets
        for one, generation in zip([o for o in TASKS for _ in range(100)], samples, strict=True)
        if one.category != "code_exec"
    ]
    assert 0.2 < sum(hits) / len(hits) < 0.4  # 800 draws at 0.3: over six deviations wide


def test_mocks_say_the_same_every_time() -> None:
    """The same seed, task and sample; another seed says something else somewhere."""
    one, same, other = NoisyAdapter(), NoisyAdapter(), NoisyAdapter(seed=1)
    said = [one.generate(t.prompt, t) for t in TASKS]
    assert said == [same.generate(t.prompt, t) for t in TASKS]
    assert said != [other.generate(t.prompt, t) for t in TASKS]
    assert said != [one.generate(t.prompt, t, sample=1) for t in TASKS]


def test_a_script_is_played_step_by_step() -> None:
    """Twice busy, then an answer for ever; a task of its own has its own steps."""
    steps = [
        Step(failure="busy", retry_after_s=0.5, times=2),
        Step(text="four", confidence=0.5),
        Step(task="t2", text="five"),
    ]
    adapter = ScriptedAdapter(steps)

    async def story() -> list[str]:
        said = []
        for name in ("t1", "t1", "t2", "t1", "t1"):
            generation = await adapter.generate("p", task(name))
            said.append(generation.failure.kind if generation.failure else generation.text)
        return said

    assert run(story()) == ["busy", "busy", "five", "four", "four"]
    assert adapter.calls == [("t1", 0), ("t1", 0), ("t2", 0), ("t1", 0), ("t1", 0)]


def recording(folder: Path, *lines: object) -> str:
    path = folder / "recorded.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return str(path)


def test_recorded_answers_are_replayed_by_task_and_sample(tmp_path: Path) -> None:
    """With all they hold; what was not recorded is a failure that is never asked again."""
    path = recording(
        tmp_path,
        {"task": "t1", "text": "four", "confidence": 0.5, "usage": {"prompt_tokens": 3}},
        {"task": "t1", "sample": 1, "text": "five", "note": "passed over"},
        {"task": "t1", "model": "other", "text": "six"},
    )
    adapter = RecordedAdapter(read_recorded(path, model="mine"), model_id="r")

    async def story() -> list[Generation]:
        return [await adapter.generate("p", task(), sample=sample) for sample in range(3)]

    first, second, third = run(story())
    usage = Usage(prompt_tokens=3)
    assert first == Generation("four", 0.5, confidence_source="reported", usage=usage)
    assert second == Generation("five")
    assert third.failure is not None
    assert third.failure.kind == "unrecorded"
    assert third.failure.final


def test_every_bad_line_of_a_recording_is_named(tmp_path: Path) -> None:
    """Not JSON, a missing field, a value out of range, and a second answer to one question."""
    path = recording(
        tmp_path,
        {"task": "t1", "text": "four"},
        {"task": "t1"},
        {"task": "t2", "text": "x", "confidence": 1.5},
        {"task": "t1", "text": "again"},
    )
    with open(path, "ab") as file:
        file.write(b"{\n\xff\n")
    with pytest.raises(SpecError) as caught:
        read_recorded(path)
    places = [problem.place for problem in caught.value.problems]
    assert places == ["line 2", "line 3", "line 4", "line 5", "line 6"]
    assert "stands on line 1 already" in str(caught.value)
    assert "jSON" not in str(caught.value)


class Plain:
    """The least that is an adapter."""

    model_id = "plain"

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        self.threads.add(threading.get_ident())
        return Generation(f"{prompt}/{task.task_id}", 0.5)


class Awaited:
    model_id = "awaited"

    async def generate(self, prompt: str, task: TaskSpec, sample: int = 0) -> Generation:
        await asyncio.sleep(0)
        return Generation(f"{prompt}/{task.task_id}/{sample}")


class Wrong:
    model_id = "wrong"

    def generate(self, prompt: str, task: TaskSpec) -> str:
        return "four"


def composed(adapter: ModelAdapter) -> ComposedModel:
    clock = Clock()
    around = Surroundings(clock=clock, sleep=clock.sleep)
    return ComposedModel(LiftedEndpoint(adapter), MockSettings(adapter="x"), around)


def test_any_object_with_an_id_and_generate_is_a_model() -> None:
    """A plain one is called in threads of its own, a coroutine where it is; samples by name."""
    plain = Plain()

    async def story() -> list[str]:
        async with composed(plain) as one, composed(Awaited()) as other:
            said = [await one.ask("p", task(), sample=3), await other.ask("q", task(), sample=3)]
            return [generation.text for generation in said]

    assert run(story()) == ["p/t1", "q/t1/3"]
    assert threading.get_ident() not in plain.threads


def test_what_is_no_generation_is_refused_by_name() -> None:
    """Not scored as if the model had said nothing: the run ends as pending."""

    async def story() -> None:
        async with composed(Wrong()) as model:  # type: ignore[arg-type]
            await model.ask("p", task())

    with pytest.raises(Halted, match="wrong: generate gave str, not a Generation") as caught:
        run(story())
    assert caught.value.reason == "adapter"


class Raising:
    """An adapter with a fault."""

    model_id = "raising"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        raise self._error


class RaisingLater(Raising):
    """The same, as a coroutine."""

    async def generate(self, prompt: str, task: TaskSpec) -> Generation:  # type: ignore[override]
        raise self._error


@pytest.mark.parametrize("kind", [Raising, RaisingLater])
def test_what_an_adapter_raises_ends_the_run_and_is_named_with_its_place(
    kind: type[Raising],
) -> None:
    """A fault of foreign code is no answer, and no reason to lose the answers of others."""

    async def story(error: BaseException) -> None:
        async with composed(kind(error)) as model:
            await model.ask("p", task())

    with pytest.raises(Halted) as caught:
        run(story(KeyError("lost")))
    said = str(caught.value)
    assert said.startswith(f"raising: generate raised KeyError('lost') in {__file__}:")
    assert "on task 't1'" in said
    assert "mend the adapter" in said
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(SpecError, match="its own word"):
        run(story(SpecError("its own word")))


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (Generation(4), "text is 4"),  # type: ignore[arg-type]
        (Generation("4", 1.5), "confidence is 1.5"),
        (Generation("4", math.nan), "confidence is nan"),
        (Generation("4", "high"), "confidence is 'high'"),  # type: ignore[arg-type]
        (Generation("4", 0.5, math.inf, 1), "token_nll is inf"),
        (Generation("4", 0.5, math.nan, 1), "token_nll is nan"),
        (Generation("4", 0.5, 0.1, -1), "token_count is -1"),
        (Generation("4", 0.5, 0.1, 1.5), "token_count is 1.5"),  # type: ignore[arg-type]
        (Generation("a\ud800"), "not a text of Unicode"),
        (Generation("4", usage=Usage(prompt_tokens=2**70)), "usage"),
        (Generation("4", usage=Usage(prompt_tokens=-5)), "usage"),
        (Generation("4", finish_reason=object()), "finish_reason is"),  # type: ignore[arg-type]
        (Generation("", failure=Failure(kind="tired", detail="d")), "tired"),
    ],
)
def test_a_generation_that_cannot_be_kept_is_a_failure_and_is_not_kept(
    given_: Generation, said: str, tmp_path: Path
) -> None:
    """It would else stand in the cache for ever, or end the run as it is kept."""

    class Careless:
        model_id = "careless"

        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            return given_

    async def story() -> tuple[Generation, int]:
        cache = GenerationCache(str(tmp_path / "c"))
        settings = msgspec.convert({"adapter": "careless", "attempts": 1}, PluginSettings)
        endpoint = LiftedEndpoint(Careless(), name="careless")
        async with ComposedModel(endpoint, settings, Surroundings(cache=cache)) as model:
            generation = await model.ask("p", task())
        count = cache.count()
        cache.close()
        return generation, count

    generation, kept = run(story())
    assert kept == 0
    assert generation.failure is not None
    assert generation.failure.kind == "program"
    assert said in generation.failure.detail


@pytest.mark.parametrize("target", ["--5", "\u00b2", "9" * 5000, "-", "\u0663"])
def test_a_target_that_looks_like_a_number_is_answered_wrong_all_the_same(target: str) -> None:
    """`isdigit` takes more for a number than `int` does."""
    assert wrong_answer(task(targets=(target,))) == "neither of them"


def test_requests_differ_in_all_that_a_plain_adapter_could_look_at() -> None:
    """Settings, and the whole task: an answer kept for another question is a wrong one."""

    def digest(given: TaskSpec, **identity: object) -> str:
        endpoint = LiftedEndpoint(Plain(), identity=identity)
        return request_digest(endpoint.request("p", given, sample=0))

    same = digest(task(), seed=1)
    assert digest(task(), seed=1) == same
    others = {
        digest(task(), seed=2),
        digest(task(targets=("5",)), seed=1),
        digest(task(metadata={"hint": "four"}), seed=1),
    }
    assert len(others) == 3
    assert same not in others


def test_the_first_four_fields_of_a_generation_may_be_given_by_place() -> None:
    """The contract of adapter authors; every other field needs its name."""
    assert Generation("4", 0.9, 0.1, 1) == Generation(
        text="4", confidence=0.9, token_nll=0.1, token_count=1
    )
    with pytest.raises(TypeError):
        Generation("4", 0.9, 0.1, 1, "reported")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Generation("4").text = "5"  # type: ignore[misc]
    assert msgspec.structs.asdict(Generation("4"))["failure"] is None
