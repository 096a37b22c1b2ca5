"""`run_eval`: one pass from adapters and tasks to rows and envelope, in this process."""

from __future__ import annotations

import asyncio
import json
import threading
from importlib.resources import files

import pytest

import farm
from farm import (
    BiasedAdapter,
    EvalReport,
    EvalRun,
    Generation,
    NoisyAdapter,
    RuleBasedAdapter,
    SpecError,
    TaskSpec,
    evaluation,
    run_eval,
)

TASKS = farm.validate_file(str(files("farm.data") / "tasks.jsonl")).tasks


def task(name: str, *targets: str, metric: str = "exact_match", rule: str = "none") -> TaskSpec:
    return TaskSpec(
        task_id=name,
        category="open",
        prompt=f"question {name}",
        targets=targets or ("4",),
        metric_name=metric,
        post_process=rule,
    )


class Says:
    """Answers the same to everything, and remembers what it was asked."""

    def __init__(self, text: str, *, name: str = "says", confidence: float | None = None) -> None:
        self.model_id = name
        self.asked: list[str] = []
        self._answer = Generation(text, confidence)

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        self.asked.append(task.task_id)
        return self._answer


def verdicts(report: EvalReport) -> list[tuple[str, str, int, float | None, str]]:
    return [(r.model_id, r.task_id, r.sample, r.score, r.outcome) for r in report.runs]


MOCKS = (RuleBasedAdapter(), NoisyAdapter(), BiasedAdapter())


def test_in_parallel_and_in_order_the_rows_are_the_same() -> None:
    """Adapters, then tasks, in the order given; program tasks too."""
    parallel = run_eval(MOCKS, TASKS)
    in_order = run_eval(MOCKS, TASKS, parallel=False)
    assert [row.metadata for row in parallel.runs if row.outcome == "error"] == []
    assert verdicts(parallel) == verdicts(in_order)
    assert [(r.model_id, r.task_id) for r in parallel.runs] == [
        (adapter.model_id, one.task_id) for adapter in MOCKS for one in TASKS
    ]
    ignoring_time = [
        {**report.envelope, "summary": {**report.envelope["summary"], "wall_seconds": 0}}
        for report in (parallel, in_order)
    ]
    assert ignoring_time[0] == ignoring_time[1]


def test_the_envelope_is_json_and_ranks_the_mocks() -> None:
    """The lesson's shape: leaderboard, pairwise, calibration and perplexity by model, summary."""
    report = run_eval(MOCKS, TASKS)
    envelope = json.loads(json.dumps(report.envelope, allow_nan=False))
    assert [row["model_id"] for row in envelope["leaderboard"]] == ["rule_based", "biased", "noisy"]
    assert envelope["leaderboard"][0]["mean_score"] == 1.0
    assert len(envelope["pairwise"]) == 3
    assert set(envelope["calibration"]) == set(envelope["perplexity"]) == {
        "rule_based", "biased", "noisy",
    }  # fmt: skip
    assert envelope["calibration"]["noisy"]["ece"] > envelope["calibration"]["rule_based"]["ece"]
    summary = envelope["summary"]
    assert (summary["tasks"], summary["models"], summary["task_runs"]) == (10, 3, 30)
    assert 0 < summary["wall_seconds"] < 60


def test_in_order_calls_are_made_one_by_one_in_this_thread() -> None:
    threads: set[int] = set()

    class Watched(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            threads.add(threading.get_ident())
            return super().generate(prompt, task)

    watched = Watched("4")
    names = [f"t{number}" for number in range(20)]
    run_eval([watched], [task(name) for name in names], parallel=False)
    assert watched.asked == names
    assert threads == {threading.get_ident()}


def test_in_parallel_as_many_calls_are_out_as_there_are_workers() -> None:
    """Three calls that wait for each other can only end if they are out together."""
    together = threading.Barrier(3)

    class Waits(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            together.wait(timeout=30)
            return super().generate(prompt, task)

    report = run_eval([Waits("4")], [task(f"t{n}") for n in range(6)], max_workers=3)
    assert [run.outcome for run in report.runs] == ["correct"] * 6


@pytest.mark.parametrize("parallel", [True, False])
def test_coroutines_are_adapters_too(parallel: bool) -> None:
    class Async:
        model_id = "async"

        async def generate(self, prompt: str, task: TaskSpec) -> Generation:
            await asyncio.sleep(0)
            return Generation("4")

    async def from_a_running_loop() -> EvalReport:
        return run_eval([Async()], [task("a"), task("b")], parallel=parallel)

    for report in (
        run_eval([Async()], [task("a"), task("b")], parallel=parallel),
        asyncio.run(from_a_running_loop()),
    ):
        assert [run.outcome for run in report.runs] == ["correct", "correct"]


@pytest.mark.parametrize("parallel", [True, False])
def test_what_an_adapter_raises_is_an_error_and_no_wrong_answer(parallel: bool) -> None:
    class Fails(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            if task.task_id == "b":
                raise ConnectionError("no route")
            return super().generate(prompt, task)

    report = run_eval([Fails("4")], [task("a"), task("b"), task("c")], parallel=parallel)
    failed = report.runs[1]
    assert (failed.outcome, failed.score, failed.correct) == ("error", None, None)
    assert failed.metadata["error"] == "program: ConnectionError: no route"
    assert report.envelope["leaderboard"][0]["mean_score"] == 1.0
    assert report.envelope["accuracy"]["says"]["not_scored"] == 1


class OfItsOwn(BaseException):
    """What a library may raise past `except Exception`."""


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "error", [SpecError("odd"), asyncio.CancelledError(), OfItsOwn("odd"), StopIteration("odd")]
)
def test_whatever_an_adapter_raises_is_an_error(
    error: BaseException, waits: bool, parallel: bool
) -> None:
    """Our own errors and cancellations of its own making as well."""

    class Raises(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            if task.task_id == "b":
                raise error
            return super().generate(prompt, task)

    class Waits(Raises):
        async def generate(self, prompt: str, task: TaskSpec) -> Generation:  # type: ignore[override]
            return super().generate(prompt, task)

    adapter = Waits("4") if waits else Raises("4")
    report = run_eval([adapter], [task("a"), task("b"), task("c")], parallel=parallel)
    assert [run.outcome for run in report.runs] == ["correct", "error", "correct"]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), SystemExit(3)])
def test_what_is_meant_for_the_whole_process_passes(error: BaseException, waits: bool) -> None:
    """From a coroutine too, whose loop it would end without anybody hearing of it."""

    class Raises(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            raise error

    class Waits(Says):
        async def generate(self, prompt: str, task: TaskSpec) -> Generation:  # type: ignore[override]
            raise error

    with pytest.raises(type(error)):
        run_eval([Waits("4") if waits else Raises("4")], [task("a")], parallel=False)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Generation(None), "text is None"),  # type: ignore[arg-type]
        (Generation(4), "text is 4"),  # type: ignore[arg-type]
        (Generation(b"4"), "text is b'4'"),  # type: ignore[arg-type]
        (Generation("4\ud800"), "text is"),
        (Generation("4", "0.5"), "confidence is '0.5'"),  # type: ignore[arg-type]
        (Generation("4", float("nan")), "confidence is nan"),
        (Generation("4", 1.5), "confidence is 1.5"),
        (Generation("4", True), "confidence is True"),
        (Generation("4", token_nll=float("inf")), "token_nll is inf"),
        (Generation("4", token_nll=-1.0), "token_nll is -1.0"),
        (Generation("4", token_count=-1), "token_count is -1"),
        (Generation("4", token_count=2.5), "token_count is 2.5"),  # type: ignore[arg-type]
        (Generation("4", usage={"prompt_tokens": 1}), "usage is"),  # type: ignore[arg-type]
        (Generation("4", finish_reason=7), "finish_reason is 7"),  # type: ignore[arg-type]
        (Generation("4", finish_reason=["stop"]), "finish_reason is ['stop']"),  # type: ignore[arg-type]
        (Generation("4", warnings=(1,)), "warnings is (1,)"),  # type: ignore[arg-type]
        (Generation("4", tool_calls=None), "tool_calls is None"),  # type: ignore[arg-type]
        (Generation("4", failure="no"), "failure is 'no'"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("parallel", [True, False])
def test_fields_that_break_their_contract_are_an_error_of_that_trial(
    answer: Generation, word: str, parallel: bool
) -> None:
    """The contract of each field stands at `Generation`; nobody else is harmed."""

    class Odd(Says):
        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            return answer if task.task_id == "b" else super().generate(prompt, task)

    report = run_eval([Odd("4")], [task("a"), task("b"), task("c")], parallel=parallel)
    assert [run.outcome for run in report.runs] == ["correct", "error", "correct"]
    assert str(report.runs[1].metadata["error"]).startswith(f"malformed: {word}")


def test_names_are_checked_in_a_time_that_grows_as_they_do() -> None:
    """Each of 3,000 names is compared with few others: 9 million comparisons would be all."""
    compared = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Counted(f"t{number}") for number in range(3_000)]
    found = evaluation._twice(names)
    assert found is None
    assert compared < 30_000
    assert evaluation._twice([*names, Counted("t7")]) == "t7"


def test_the_answer_is_post_processed_and_timed() -> None:
    as_it_is, lowered = run_eval(
        [Says("YES")], [task("a", "yes"), task("b", "yes", rule="lower")]
    ).runs
    assert as_it_is.outcome == "wrong"
    run = lowered
    assert (run.outcome, run.score, run.correct) == ("correct", 1.0, True)
    assert run.latency_s is not None
    assert 0 <= run.latency_s < 60
    assert run.metadata["post_process"] == "lower"


def test_half_a_graded_score_is_correct() -> None:
    """The seed's threshold: 1.0 for exact_match-style metrics, 0.5 for graded ones."""
    both = [task("half", "a b", metric="f1"), task("less", "a b c d", metric="f1")]
    half, less = run_eval([Says("a")], both).runs
    assert [half.score, less.score] == pytest.approx([2 / 3, 0.4])
    assert (half.correct, less.correct) == (True, False)


def test_samples_are_asked_apart_and_make_pass_at_k() -> None:
    class Sometimes:
        model_id = "sometimes"

        def generate(self, prompt: str, task: TaskSpec, *, sample: int = 0) -> Generation:
            return Generation("4" if sample == 0 else "5")

    report = run_eval([Sometimes()], [task("a")], samples=2)
    assert verdicts(report) == [
        ("sometimes", "a", 0, 1.0, "correct"),
        ("sometimes", "a", 1, 0.0, "wrong"),
    ]
    # n=2, c=1: pass@1 = 1/2, pass@2 = 1, pass^1 = 1/2, pass^2 = 0
    assert report.envelope["passes"] == {
        "sometimes": [
            {"k": 1, "pass_at_k": 0.5, "pass_hat_k": 0.5, "tasks": 1},
            {"k": 2, "pass_at_k": 1.0, "pass_hat_k": 0.0, "tasks": 1},
        ]
    }


@pytest.mark.parametrize(("adapters", "tasks"), [([], TASKS), ([Says("4")], []), ([], [])])
def test_nothing_to_ask_gives_an_empty_report(
    adapters: list[Says], tasks: tuple[TaskSpec, ...]
) -> None:
    report = run_eval(adapters, tasks)
    assert report.runs == ()
    assert report.envelope["leaderboard"] == report.envelope["pairwise"] == []
    assert report.envelope["summary"]["task_runs"] == 0


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="model 'says' is there twice"):
        run_eval([Says("4"), Says("5")], [task("a")])
    with pytest.raises(SpecError, match="task 'a' is there twice"):
        run_eval([Says("4")], [task("a"), task("a")])


def test_what_is_no_generation_is_refused_by_name() -> None:
    class Text:
        model_id = "text"

        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            return "4"  # type: ignore[return-value]

    with pytest.raises(SpecError, match="model 'text': generate gave str, not a Generation"):
        run_eval([Text()], [task("a")])


def test_rows_are_plain_rows_of_statistics() -> None:
    """The runner does no arithmetic of the aggregator: from the rows the board comes again."""
    report = run_eval(MOCKS, TASKS)
    assert all(isinstance(run, EvalRun) for run in report.runs)
    again = farm.aggregate(report.runs, seed=report.envelope["signature"]["seed"])
    assert [(row.model_id, row.mean_score) for row in again] == [
        (row["model_id"], row["mean_score"]) for row in report.envelope["leaderboard"]
    ]


def test_answers_judged_by_bleu_4_are_reported_with_the_published_figures() -> None:
    """sacrebleu's own answer for perfect lines is 100, which is 1; other metrics' answers, and
    lines that the task's rule drops, are not part of it."""
    line = "the quick brown fox jumps over it"
    tasks = [
        task("a", line, metric="bleu_4", rule="extract_first_line"),
        task("b", line, metric="bleu_4", rule="extract_first_line"),
        task("c", "no such words at all here"),
    ]
    envelope = run_eval([Says(f"{line}\nand more")], tasks).envelope
    assert {one["name"]: one["score"] for one in envelope["corpus"]["says"]} == {
        "corpus_bleu": 1.0,
        "chrf": 1.0,
    }
    assert "flatters short answers" in envelope["warnings"][0]
    plain = run_eval([Says("4")], [task("c")]).envelope
    assert plain["warnings"] == []
    assert "corpus" not in plain


@pytest.mark.parametrize("thing", [object(), "gpt", None, Says, type("Nameless", (), {})()])
def test_what_is_no_adapter_or_no_task_is_refused_by_its_type(thing: object) -> None:
    """A mistake in a notebook: what was given and what belongs there."""
    with pytest.raises(SpecError, match=r"^adapters: a \w+ is no adapter: give objects with"):
        run_eval([thing], [task("t")])  # type: ignore[list-item]
    with pytest.raises(SpecError, match=r"^tasks: a \w+ is no task: give what TaskSpec"):
        run_eval([Says("4")], [thing])  # type: ignore[list-item]
