"""Stores as rows, boards and sides: what becomes of optional fields, and what is refused."""

from __future__ import annotations

import pytest

from farm.errors import SpecError
from farm.report.compare import compare_runs
from farm.report.envelope import to_json
from farm.report.side import RunSide
from farm.runtime.board import envelope_of, gather
from farm.runtime.casebook import case_rows
from farm.runtime.sides import side_of
from tests.runtime.recordings import case, evaluation, recording

TEN = [case(f"c{i}", "yes" if i < 7 else "no") for i in range(10)]


def test_every_case_is_a_row_with_the_figures_its_record_gives() -> None:
    run = recording(
        [
            case("a", "yes", category="law", confidence=0.9, token_nll=1.5, token_count=3),
            case("b", "no", task="t", sample=2),
        ]
    )
    first, second = sorted(gather([run]).runs, key=lambda row: row.task_id)
    assert (first.model_id, first.task_id, first.sample) == ("m", "a", 0)
    assert (first.score, first.correct, first.outcome) == (1.0, True, "correct")
    assert (first.category, first.confidence) == ("law", 0.9)
    assert (first.token_nll, first.token_count) == (1.5, 3)
    assert (second.task_id, second.sample, second.score, second.outcome) == ("t", 2, 0.0, "wrong")
    assert (second.category, second.confidence, second.token_nll) == ("", None, None)


def test_a_case_that_cannot_be_scored_is_missing_and_not_wrong() -> None:
    """f1 finds no word in the target, so nothing could be right."""
    (row,) = gather([recording([case("a", "yes", expected="!!")], by="f1")]).runs
    assert (row.score, row.correct, row.outcome) == (None, None, "unscorable")


def test_a_run_that_is_not_complete_says_so_and_stands_below_complete_ones() -> None:
    """What has no verdict yet is pending: missing, never wrong."""
    whole = recording(TEN, model="whole")
    half = recording([case(f"c{i}", "yes") for i in range(10)], model="half", done=2)
    envelope = envelope_of([half, whole], gather([half, whole]), detail=False)
    assert [row.model_id for row in envelope.leaderboard] == ["whole", "half"]
    assert envelope.leaderboard[1].n_missing == envelope.outcomes["half"]["pending"] > 0
    assert envelope.error
    assert envelope.error.code == "incomplete"
    assert envelope.error.detail == "'half' has 2 of 3 shards done"
    assert envelope.runs
    assert [envelope.runs[model].complete for model in ("whole", "half")] == [True, False]


def test_samples_of_a_task_are_averaged_and_tasks_pair_across_other_ids() -> None:
    """a: (1 + 0) / 2 on t; b: 1 on t, under ids that share nothing."""
    a = recording([case("a1", "yes", task="t"), case("a2", "no", task="t", sample=1)], model="a")
    b = recording([case("b1", "yes", task="t")], model="b")
    envelope = envelope_of([a, b], gather([a, b]), detail=False)
    assert {row.model_id: row.mean_score for row in envelope.leaderboard} == {"a": 0.5, "b": 1.0}
    assert envelope.summary.tasks == 1
    assert "do not have the same set of cases" in envelope.warnings[0]


def test_clusters_widen_the_interval_and_a_case_without_one_is_its_own() -> None:
    runs = [
        case(f"c{i}", "yes" if i < 7 else "no", **({"cluster": f"g{i // 2}"} if i < 8 else {}))
        for i in range(10)
    ]
    board = gather([recording(runs)])
    assert board.clusters is not None
    assert board.clusters["c0"] == board.clusters["c1"] != board.clusters["c2"]
    assert len(set(board.clusters.values())) == 6
    (row,) = envelope_of([recording(runs)], board, detail=False).leaderboard
    assert row.ci_method == "clustered_t"


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (
            [case("a", "yes", task="t"), case("b", "no", task="t")],
            r"cases '[ab]' and '[ab]' are both sample 0 of task 't': number repeated answers",
        ),
        (
            [
                case("a", "yes", task="t", cluster="x"),
                case("b", "no", task="t", sample=1, cluster="y"),
            ],
            r"task 't' is in 'cluster [xy]' by case '[ab]', elsewhere in 'cluster [xy]'",
        ),
    ],
)
def test_what_has_two_meanings_is_refused_by_name(cases: list, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        gather([recording(cases)])


def test_runs_that_cannot_be_ranked_together_are_refused() -> None:
    one = recording(TEN, model="a")
    with pytest.raises(SpecError, match=r"by 'exact_match@1' and 'b' by 'f1@1'.*`farm rescore`"):
        gather([one, recording(TEN, model="b", by="f1")])
    with pytest.raises(SpecError, match=r"two stores hold predictions of 'a'.*--name"):
        gather([one, recording(TEN, model="a")])
    other = recording([case("c0", "yes", expected="no")], model="b")
    with pytest.raises(SpecError, match="'c0' has other right answers in the run of 'b'"):
        gather([one, other])


def test_an_evaluation_is_not_sent_to_be_scored_again() -> None:
    """`farm rescore` refuses evaluations: there is no other way than apart."""
    asked = evaluation({"a": "c"}, shards=1, done=1)
    for runs in ([asked, recording(TEN, model="b")], [recording(TEN, model="b"), asked]):
        with pytest.raises(SpecError, match="cannot be scored again, report each alone"):
            gather(runs)
        with pytest.raises(SpecError, match=r"judged by its tasks and cannot be scored again$"):
            compare_runs(*map(side_of, runs))


def report(*runs_in_order: int, shards: int) -> bytes:
    made = [
        recording(TEN, model="a", shards=shards),
        recording([case(f"c{i}", "yes") for i in range(10)], model="b", shards=shards),
    ]
    runs = [made[place] for place in runs_in_order]
    return to_json(envelope_of(runs, gather(runs), detail=True))


def test_neither_the_order_of_stores_nor_that_of_cases_shows_in_a_report() -> None:
    """The number of shards changes run_id, which is part of the identity; nothing else."""
    assert report(0, 1, shards=3) == report(1, 0, shards=3)

    def figures(shards: int) -> bytes:
        run = recording(TEN, shards=shards)
        envelope = envelope_of([run], gather([run]), detail=True)
        return to_json(envelope).replace(run.plan.run_id.encode(), b"RUN")

    assert figures(1) == figures(3) == figures(64)


def test_the_seed_is_that_of_tasks_and_scorer() -> None:
    """Two models' runs of the same tasks resample alike; another scorer resamples anew."""
    a, b = recording(TEN), recording([case(f"c{i}", "no") for i in range(10)])
    by_f1 = recording(TEN, by="f1")
    first, second, third = (
        envelope_of([run], gather([run]), detail=False).signature.seed for run in (a, b, by_f1)
    )
    assert first == second != third


def test_bleu_4_is_reported_with_the_published_figures_and_its_warning() -> None:
    """sacrebleu's own answer for two perfect lines is 100, which is 1."""
    line = "the quick brown fox jumps over it"
    run = recording([case(c, line, expected=line) for c in "ab"], by="bleu_4")
    envelope = envelope_of([run], gather([run]), detail=False)
    assert envelope.corpus
    figures = {figure.name: figure.score for figure in envelope.corpus["m"]}
    assert figures == {"corpus_bleu": 1.0, "chrf": 1.0}
    assert "flatters short answers" in envelope.warnings[0]
    plain = recording(TEN)
    assert envelope_of([plain], gather([plain]), detail=False).warnings == ()


def test_a_page_shows_why_a_case_was_judged_so() -> None:
    """The span that was read, the steps of both sides, the rule; long steps are cut."""
    run = recording(
        [case("a", "I think it is 1,000.", expected="1000"), case("b", "?", expected="7")],
        by="number",
    )
    rows = {row.id: row for row in case_rows([run])}
    assert rows["a"].extracted == "1,000"
    assert rows["a"].rule == "number@2: target 1 is the same number"
    assert "response, exact value: '1000'" in rows["a"].steps
    assert (rows["b"].outcome, rows["b"].extracted, rows["b"].score) == ("unparsed", None, 0.0)
    (long,) = case_rows([recording([case("a", "x" * 5000)])])
    assert long.steps[0].endswith("' and 4,000 more characters")
    assert len(long.response) == 5000


def test_a_page_shows_cases_without_a_verdict_as_pending() -> None:
    outcomes = [row.outcome for row in case_rows([recording(TEN, done=1)])]
    assert set(outcomes) == {"correct", "wrong", "pending"}


def test_cases_that_belong_together_are_compared_as_clusters() -> None:
    """Eight copies of one fact, all broken: exact McNemar would say p = 2 / 2^8 = 0.008."""

    def run(answer: str, **more: str) -> RunSide:
        cases = [case(f"c{i}", answer, **more) for i in range(8)]
        cases += [case(f"d{i}", "yes") for i in range(3)]
        return side_of(recording(cases))

    alone = compare_runs(run("yes"), run("no"))
    assert (alone.test, alone.p_value, alone.significant) == ("mcnemar_exact", 2 / 2**8, True)
    together = compare_runs(run("yes", cluster="fact"), run("no", cluster="fact"))
    assert (together.test, together.significant) == ("clustered_t", False)
    samples = compare_runs(
        *(
            side_of(recording([case(f"c{i}", said, task="t", sample=i) for i in range(8)]))
            for said in ("yes", "no")
        )
    )
    assert (samples.n, samples.p_value) == (1, 1.0)  # one task, whatever its samples say


def test_a_side_of_a_partial_run_holds_what_was_judged() -> None:
    side = side_of(recording(TEN, done=1))
    assert not side.complete
    assert 0 < len(side.cases) < 10
    assert (side.planned, side.pending) == (10, 10 - len(side.cases))
    assert side.scorer == "exact_match@1"
