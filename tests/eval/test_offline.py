"""`farm eval` on the fixture tasks with the three mocks, by the installed command."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.core.plan import seed_of
from farm.report.envelope import build_envelope, to_json
from farm.stats.evalrun import EvalRun
from tests.acceptance.shell import Done, farm, fingerprint, strict_json
from tests.eval.asking import (
    FIXTURE,
    SAMPLES,
    Evaluation,
    everything_in,
    figures,
    mocks,
    write_tasks,
)

OS_ENFORCED = ("--require-isolation", "os-enforced")
# Of the ten tasks two are arithmetic. `biased` is right in these; `noisy` says "I am sure" by its
# seed, and is right in none of them but for a part of one summary.
MEANS = {"rule_based": 1.0, "biased": 0.21, "noisy": 0.11}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, Done]:
    """The three mocks on the fixture tasks, done."""
    folder = tmp_path_factory.mktemp("mocks")
    evaluation = Evaluation(
        store=str(folder / "store"), tasks=FIXTURE, models=mocks(folder), more=OS_ENFORCED
    )
    done = evaluation.run()
    assert done.code == 0, done.err
    return evaluation, done


def rebuilt(lines: list[dict[str, Any]], report: dict[str, Any]) -> Any:
    """The statistics of a report, from the lines of its stream."""
    rows = [msgspec.convert(line, EvalRun) for line in lines]
    run = next(iter(report["runs"].values()))
    seed = seed_of([run["tasks_sha256"]], report["identity"]["scorer"])
    return strict_json(to_json(build_envelope(rows, seed=seed)))


def assert_rebuilds(lines: list[dict[str, Any]], report: dict[str, Any]) -> None:
    again = rebuilt(lines, report)
    for part in ("leaderboard", "pairwise", "calibration", "perplexity", "accuracy", "outcomes"):
        assert again[part] == report[part], part


def test_the_mocks_are_ranked_by_what_they_can(finished: tuple[Evaluation, Done]) -> None:
    """Markdown on stdout, the same as report.md; three formats in the store."""
    evaluation, done = finished
    report = evaluation.report()
    assert {row["model_id"]: round(row["mean_score"], 3) for row in report["leaderboard"]} == MEANS
    assert [row["rank"] for row in report["leaderboard"]] == [1, 2, 3]
    assert done.out == evaluation.path("report.md").read_bytes()
    assert b"| 1 | rule_based | 1.000 |" in done.out
    page = evaluation.path("report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "rule_based" in page
    assert done.events[-1]["event"] == "run.completed"
    assert done.failures == []


def test_a_report_says_what_its_figures_are_of(finished: tuple[Evaluation, Done]) -> None:
    """Each model has its own ten cases, of which all were scored; programs ran isolated."""
    report = finished[0].report()
    for model, run in report["runs"].items():
        assert run["cases"] == len(report["cases"][model]) == 10
        assert run["complete"] is True
        assert run["isolation"]["level"] == "os-enforced+ns"
    assert report["summary"]["task_runs"] == 30
    assert 0 < report["summary"]["wall_seconds"] < 60
    assert report["calibration"]["rule_based"]["ece"] == pytest.approx(0.03)  # sure to 0.97
    total = report["costs"]["total"]
    assert (total["calls"], total["answered"], total["wasted"]) == (30, 30, 0)


def test_json_on_stdout_is_the_report_of_the_store(finished: tuple[Evaluation, Done]) -> None:
    """A complete store needs neither tasks nor models."""
    evaluation, _ = finished
    done = farm("eval", "--store", evaluation.store, "--format", "json", "--quiet")
    assert done.code == 0
    assert done.json == evaluation.report()
    assert done.err == ""


def test_the_same_command_again_changes_nothing(finished: tuple[Evaluation, Done]) -> None:
    """No file of the store is touched, and the same is printed."""
    evaluation, first = finished
    before = fingerprint(evaluation.store)
    again = evaluation.run()
    assert again.code == 0
    assert again.out == first.out
    assert fingerprint(evaluation.store) == before


@pytest.mark.parametrize("to_stdout", [True, False])
def test_the_stream_of_a_finished_run_rebuilds_its_report(
    finished: tuple[Evaluation, Done], to_stdout: bool, tmp_path: Path
) -> None:
    """All 30 trials, with what was answered; on stdout they stand instead of the report."""
    evaluation, first = finished
    file = tmp_path / "stream.jsonl"
    done = evaluation.run("--stream", "-" if to_stdout else str(file))
    assert done.code == 0
    assert to_stdout or done.out == first.out
    data = done.out if to_stdout else file.read_bytes()
    lines = [strict_json(line) for line in data.splitlines()]
    assert len(lines) == 30
    assert_rebuilds(lines, evaluation.report())
    one = next(x for x in lines if (x["model_id"], x["task_id"]) == ("rule_based", "mcq_001"))
    assert (one["response"], one["outcome"], one["confidence"]) == ("B", "correct", 0.97)


def test_a_stream_grows_while_the_run_goes(tmp_path: Path) -> None:
    """A new store's trials are written as their shards are done; a JSON line each."""
    evaluation = Evaluation(
        store=str(tmp_path / "s"), tasks=write_tasks(tmp_path, 40), models=mocks(tmp_path)
    )
    done = evaluation.run("--stream", "-", "--samples", "2")
    assert done.code == 0, done.err
    assert len(done.lines) == 240
    assert_rebuilds(done.lines, evaluation.report())


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(
    "place",
    ["s/events.jsonl", "s/new", "tasks.jsonl", "mocks.toml", "prices.toml", "c.sqlite",
     "c.sqlite-wal", "answers.jsonl", "log", "link", "hard"],
)  # fmt: skip
def test_a_stream_is_never_written_over_what_the_run_is_made_of(
    place: str, begun: bool, tmp_path: Path
) -> None:
    """Exit code 2, and every file is as it was; links lead to the same files."""
    (tmp_path / "prices.toml").write_text("[models.m]\ninput = 1\noutput = 1\n")
    (tmp_path / "answers.jsonl").write_text('{"task_id": "t0", "text": "right"}\n')
    (tmp_path / "log").write_text("")
    tasks, models = write_tasks(tmp_path, 2), mocks(tmp_path)
    with open(models, "a", encoding="utf-8") as file:
        answers = str(tmp_path / "answers.jsonl")
        file.write(f'[models.old]\nadapter = "recorded"\nfile = "{answers}"\n')
    evaluation = Evaluation(
        store=str(tmp_path / "s"),
        tasks=tasks,
        models=models,
        more=("--prices", str(tmp_path / "prices.toml"), "--cache", str(tmp_path / "c.sqlite"),
              "--log-file", str(tmp_path / "log"), "--model", "noisy"),
    )  # fmt: skip
    if begun:
        assert evaluation.run().code == 0
    elif place.startswith("s/"):
        return
    (tmp_path / "link").symlink_to(tmp_path / "tasks.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "mocks.toml")
    before = everything_in(tmp_path)
    done = evaluation.run("--stream", str(tmp_path / place))
    assert (done.code, len(done.failures)) == (2, 1), done.err
    assert "--stream" in done.failures[0]
    assert everything_in(tmp_path) == before


def test_a_stream_spares_a_cache_that_only_the_store_knows(tmp_path: Path) -> None:
    """The store remembers where its answers are; a hard link to its own file is one too."""
    cache = str(tmp_path / "c.sqlite")
    evaluation = Evaluation(
        store=str(tmp_path / "s"), tasks=write_tasks(tmp_path, 2), models=mocks(tmp_path)
    )
    assert evaluation.run("--cache", cache).code == 0
    (tmp_path / "hard").hardlink_to(evaluation.path("events.jsonl"))
    before = everything_in(tmp_path)
    for place in (cache, str(tmp_path / "hard")):
        assert evaluation.run("--stream", place).code == 2
    assert everything_in(tmp_path) == before


def test_samples_give_pass_at_k(tmp_path: Path) -> None:
    """`noisy` draws anew for each sample: sometimes right of five, hardly ever always.

    pass^k can only fall with k, pass@k only rise, and both begin at the mean of correct.
    """
    tasks = write_tasks(tmp_path, 12)
    evaluation = Evaluation(store=str(tmp_path / "s"), tasks=tasks, models=mocks(tmp_path))
    done = evaluation.run("--samples", "5", "--model", "noisy", "--format", "json")
    assert done.code == 0, done.err
    report = done.json
    assert [row["model_id"] for row in report["leaderboard"]] == ["noisy"]
    assert report["summary"]["task_runs"] == 60
    passes = report["passes"]["noisy"]
    some, every = ([one[f] for one in passes] for f in ("pass_at_k", "pass_hat_k"))
    assert next(one["k"] for one in passes) == 1
    assert some == sorted(some)
    assert every == sorted(every, reverse=True)
    assert some[0] == every[0]
    assert some[-1] > 0.5 > every[-1]


def test_tasks_are_selected_by_limit_and_category(tmp_path: Path) -> None:
    """The limit counts after the categories."""
    evaluation = Evaluation(store=str(tmp_path / "s"), tasks=FIXTURE, models=mocks(tmp_path))
    chosen = ("--category", "mcq", "--category", "arithmetic", "--limit", "3")
    done = evaluation.run(*chosen, "--model", "biased", "--model", "noisy", "--format", "json")
    assert done.code == 0, done.err
    tasks = {case["id"].split("|")[1] for case in done.json["cases"]["biased"]}
    assert tasks == {"arithmetic_001", "arithmetic_002", "mcq_001"}
    assert set(done.json["cases"]) == {"biased", "noisy"}
    again = evaluation.run(*chosen, "--model", "biased", "--model", "noisy")
    assert again.code == 0, again.err


def test_bad_tasks_are_refused_together_or_left_out_and_named(tmp_path: Path) -> None:
    """Nothing is made before all is right; with leave, the good ones are asked."""
    good = Path(write_tasks(tmp_path, 2)).read_text()
    tasks = tmp_path / "mixed.jsonl"
    tasks.write_text(good + '{"task_id": "x"}\nnot json\n')
    store = tmp_path / "s"
    evaluation = Evaluation(store=str(store), tasks=str(tasks), models=mocks(tmp_path))
    refused = evaluation.run()
    assert refused.code == 1
    assert "--allow-bad-tasks" in refused.err
    assert "line 3" in refused.err
    assert "line 4" in refused.err
    assert not store.exists()
    done = evaluation.run("--allow-bad-tasks", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["summary"]["tasks"] == 2
    assert sum("left out" in line for line in done.failures) >= 2
    bad = Evaluation(
        store=str(store), tasks=str(SAMPLES / "tasks_bad.jsonl"), models=mocks(tmp_path)
    ).run()
    assert bad.code == 1
    assert "problems in the tasks" in bad.err


def store_of(folder: Path) -> Evaluation:
    """A finished small evaluation."""
    evaluation = Evaluation(
        store=str(folder / "s"), tasks=write_tasks(folder, 4), models=mocks(folder)
    )
    done = evaluation.run()
    assert done.code == 0, done.err
    return evaluation


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """A finished small evaluation that is only read."""
    return store_of(tmp_path_factory.mktemp("small"))


def other_tasks(folder: Path, evaluation: Evaluation) -> list[str]:
    path = folder / "other.jsonl"
    path.write_text(Path(evaluation.tasks).read_text().replace("is this", "is that"))
    return ["--tasks", str(path), "--models", evaluation.models]


def other_metadata(folder: Path, evaluation: Evaluation) -> list[str]:
    path = folder / "limited.jsonl"
    line = '"metadata": {"timeout_s": 1}, "task_id"'
    path.write_text(Path(evaluation.tasks).read_text().replace('"task_id"', line))
    return ["--tasks", str(path), "--models", evaluation.models]


def other_settings(folder: Path, evaluation: Evaluation) -> list[str]:
    path = folder / "other.toml"
    path.write_text(Path(evaluation.models).read_text().replace('"noisy"\n', '"noisy"\nseed = 7\n'))
    return ["--tasks", evaluation.tasks, "--models", str(path)]


def test_a_store_of_something_else_is_refused_and_named(small: Evaluation, tmp_path: Path) -> None:
    """Nothing changes, and the message says which field has which two values."""
    evaluation = small
    same = ["--tasks", evaluation.tasks, "--models", evaluation.models]
    changes: list[tuple[list[str], str]] = [
        (other_tasks(tmp_path, evaluation), "prompt of task 't0'"),
        (other_metadata(tmp_path, evaluation), "metadata of task 't0'"),
        (other_settings(tmp_path, evaluation), "models.noisy.seed"),
        ([*same, "--samples", "2"], "samples"),
        ([*same, "--shards", "9"], "shards"),
        ([*same, "--model", "noisy"], "models"),
        ([*same, "--limit", "3"], "made for tasks"),
        (["--limit", "3"], "made for tasks"),
        (["--category", "mcq"], "no task"),
        (["--samples", "2"], "samples"),
        (["--model", "noisy"], "models"),
        (["--shards", "9"], "shards"),
    ]
    before = fingerprint(evaluation.store)
    for given, word in changes:
        done = farm("eval", "--store", evaluation.store, *given)
        assert (done.code, len(done.failures)) == (1, 1), (given, done.err)
        assert word in done.failures[0], (given, done.err)
        assert done.out == b""
        assert fingerprint(evaluation.store) == before, given


def test_settings_that_decide_on_no_answer_may_change(small: Evaluation, tmp_path: Path) -> None:
    """Pace, patience and prices are not what was evaluated."""
    evaluation = small
    path = tmp_path / "other.toml"
    slower = 'adapter = "noisy"\nconcurrency = 2\nrpm = 60\ntimeout_s = 5\nattempts = 2\n'
    path.write_text(Path(evaluation.models).read_text().replace('adapter = "noisy"\n', slower))
    before = fingerprint(evaluation.store)
    done = farm(
        "eval", "--store", evaluation.store, "--tasks", evaluation.tasks, "--models", str(path)
    )
    assert done.code == 0, done.err
    assert fingerprint(evaluation.store) == before


def test_every_other_command_reads_the_store_of_an_evaluation(
    finished: tuple[Evaluation, Done], tmp_path: Path
) -> None:
    """A trial is a case: what reads a store of recorded predictions reads this one."""
    evaluation, _ = finished
    store = evaluation.store
    before = fingerprint(store)
    status = farm("status", "--store", store)
    assert status.code == 0, status.err
    assert (status.json["complete"], status.json["evaluated"]) == (True, 30)
    # what three models answered to ten tasks is no evidence of thirty
    assert (status.json["accuracy"]["n"], status.json["mean_interval"]["n"]) == (10, 10)
    assert status.json["accuracy"]["method"] == "student_t"
    rules = "+".join(evaluation.report()["signature"]["post_processes"])
    assert f"|post:{rules}|n:30|missing:0|interval:student_t|" in status.json["signature"]
    report = farm("report", "--store", store)
    assert report.code == 0, report.err
    assert report.json["leaderboard"] == evaluation.report()["leaderboard"]
    assert report.json["cases"] == evaluation.report()["cases"]
    for kind in ("markdown", "html", "junit"):
        assert farm("report", "--store", store, "--format", kind).code == 0
    compared = farm("compare", f"{store}@noisy", f"{store}@rule_based")
    assert compared.code == 0, compared.err
    assert compared.json["difference"] == pytest.approx(0.89, abs=0.001)
    gate = farm("gate", "--baseline", f"{store}@rule_based", "--store", f"{store}@noisy")
    assert gate.code == 5, gate.err
    gate = farm("gate", "--baseline", f"{store}@noisy", "--store", f"{store}@rule_based")
    assert gate.code == 0, gate.err
    events = farm("events", "--store", store)
    assert events.code == 0
    assert [one["event"] for one in events.lines][-1] == "run.completed"
    verified = farm("verify", "--store", store)
    assert verified.code == 0, verified.out
    assert fingerprint(store) == before


def test_a_model_is_found_behind_the_first_mark_after_a_store(tmp_path: Path) -> None:
    """Names of models may hold an @, as those of served revisions do, and so may folders."""
    models = tmp_path / "models.toml"
    models.write_text(
        '[models."a@1"]\nadapter = "scripted"\nsteps = [{ text = "right" }]\n'
        '[models."a@2"]\nadapter = "scripted"\nsteps = [{ text = "wrong" }]\n'
    )
    (tmp_path / "x").mkdir()
    store = str(tmp_path / "x@home")
    evaluation = Evaluation(store=store, tasks=write_tasks(tmp_path, 3), models=str(models))
    assert evaluation.run().code == 0
    done = farm("compare", f"{store}@a@1", f"{store}@a@2")
    assert done.code == 0, done.err
    assert done.json["difference"] == -1.0
    done = farm("compare", f"{store}@a@1", f"{store}@a")
    assert done.code == 1
    assert f"{store!r} holds a@1, a@2" in done.failures[0]


def test_reports_are_their_owners_alone(small: Evaluation, tmp_path: Path) -> None:
    """They hold every answer; those that an earlier farm left readable are made private."""
    names = ("report.json", "report.md", "report.html")
    for name in names:
        assert stat.S_IMODE(small.path(name).stat().st_mode) == 0o600
    store = tmp_path / "copy"
    shutil.copytree(small.store, store)
    for name in names:
        (store / name).chmod(0o644)
    assert farm("eval", "--store", str(store)).code == 0
    for name in names:
        assert stat.S_IMODE((store / name).stat().st_mode) == 0o600


def unfinished(folder: Path) -> Evaluation:
    """An evaluation whose one model fails for now."""
    path = folder / "scripted.toml"
    steps = 'steps = [{failure = "server"}]'
    path.write_text(f'[models.s]\nadapter = "scripted"\nattempts = 1\n{steps}\n')
    evaluation = Evaluation(store=str(folder / "s"), tasks=write_tasks(folder, 4), models=str(path))
    done = evaluation.run("--format", "json")
    assert done.code == 1, done.err
    assert done.json["runs"]["s"]["complete"] is False
    return evaluation


def test_commands_for_recorded_predictions_refuse_and_name_eval(
    tmp_path: Path,
) -> None:
    """Asking is not scoring: the message says how to go on, and nothing changes."""
    evaluation = unfinished(tmp_path)
    before = fingerprint(evaluation.store)
    given = ["--store", evaluation.store]
    calls: tuple[list[str], ...] = (
        ["run", *given],
        ["worker", *given, "--worker-id", "hand"],
        ["rescore", *given, "--scorer", "exact_match", "--into", str(tmp_path / "new")],
    )
    for call in calls:
        done = farm(*call)
        assert done.code == 1, (call, done.err)
        assert len(done.failures) == 1, done.err
        assert "farm eval" in done.failures[0], done.err
    assert fingerprint(evaluation.store) == before
    assert not (tmp_path / "new").exists()


def test_eval_refuses_a_store_of_recorded_predictions(tmp_path: Path) -> None:
    """And the other way round."""
    given = ["--store", str(tmp_path / "s")]
    assert farm("init", *given, "--input", str(SAMPLES / "cases.json"), "--shards", "2").code == 0
    done = farm("eval", *given, "--tasks", FIXTURE, "--models", mocks(tmp_path))
    assert done.code == 1
    assert "farm run" in done.failures[0]


def edit_answer(data: bytes) -> bytes:
    return data.replace(b'"text":"right', b'"text":"wrong', 1)


def edit_verdict(data: bytes) -> bytes:
    return data.replace(b'"outcome":"wrong"', b'"outcome":"empty"', 1)


def edit_prompt(data: bytes) -> bytes:
    return data.replace(b"is this", b"is that", 1)


def edit_target(data: bytes) -> bytes:
    return data.replace(b'["right"]', b'["wrong"]', 1)


def edit_metric(data: bytes) -> bytes:
    return data.replace(b"exact_match", b"f1", 1)


def edit_metadata(data: bytes) -> bytes:
    """A limit of time in a task's metadata decides on verdicts as well."""
    return data.replace(b'"metric_name"', b'"metadata":{"timeout_s":1},"metric_name"', 1)


def edit_seed(data: bytes) -> bytes:
    return data.replace(b'"seed": 0', b'"seed": 9', 1)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("receipts/*", edit_answer),
        ("receipts/*", edit_verdict),
        ("tasks.jsonl", edit_prompt),
        ("tasks.jsonl", edit_target),
        ("tasks.jsonl", edit_metric),
        ("tasks.jsonl", edit_metadata),
        ("tasks.jsonl", lambda data: b""),
        ("models.json", edit_seed),
        ("models.json", lambda data: b"{}\n"),
        ("models.json", lambda data: b"none\n"),
        ("cases.jsonl", edit_prompt),
    ],
)
def test_verify_finds_what_was_edited(
    name: str, edit: Callable[[bytes], bytes], small: Evaluation, tmp_path: Path
) -> None:
    """Whatever decides on a figure, or says what it is of, is held against the plan."""
    store = shutil.copytree(small.store, tmp_path / "copy")
    paths = sorted(store.glob(name))
    for path in paths:
        before = path.read_bytes()
        after = edit(before)
        if after != before:
            path.write_bytes(after)
            break
    else:
        pytest.fail("the edit changed nothing")
    found = farm("verify", "--store", str(store))
    assert found.code == 1
    assert found.json["ok"] is False
    assert found.json["problems"], found.out


def test_verify_finds_calls_and_answers_that_were_edited(small: Evaluation, tmp_path: Path) -> None:
    """Both are beside what the ledger seals; nothing is mended, and nothing but that is told."""
    store = tmp_path / "copy"
    shutil.copytree(small.store, store)
    costs = store / "costs.jsonl"
    lines = costs.read_bytes().splitlines(keepends=True)
    costs.write_bytes(b"".join([lines[0], b"{}\n", b"what?\n", *lines[1:], b'{"cut']))
    with closing(sqlite3.connect(store / "generations.sqlite")) as connection, connection:
        connection.execute(
            "UPDATE generations SET value = replace(value, 'right', 'wrong') "
            "WHERE rowid = (SELECT min(rowid) FROM generations)"
        )
    before = fingerprint(str(store))
    done = farm("verify", "--store", str(store))
    assert (done.code, done.json["ok"]) == (1, False)
    problems = done.json["problems"]
    assert [line.split(": ", 1)[1] for line in problems[:2]] == [
        "line 2 is not an entry",
        "line 3 is not an entry",
    ]
    assert len(problems) == 3, problems
    assert "generations.sqlite: the answer " in problems[2]
    assert fingerprint(str(store)) == before


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_verify_finds_an_answer_file_that_is_none(
    size: int, small: Evaluation, tmp_path: Path
) -> None:
    """A file of other bytes is told; one that was just made holds no answer yet, and is whole."""
    store = tmp_path / "copy"
    shutil.copytree(small.store, store)
    (store / "generations.sqlite").write_bytes(b"x" * size)
    before = fingerprint(str(store))
    done = farm("verify", "--store", str(store))
    assert len(done.json["problems"]) == (1 if size else 0), done.json
    assert fingerprint(str(store)) == before


def test_verify_holds_an_unfinished_evaluation(tmp_path: Path) -> None:
    """Also before any receipt is there."""
    assert farm("verify", "--store", unfinished(tmp_path).store).code == 0


def test_many_shards_and_workers_give_the_report_of_one(tmp_path: Path) -> None:
    """How the work is divided decides nothing."""
    tasks = write_tasks(tmp_path, 30)
    reports = []
    for name, given in (("one", ()), ("many", ("--shards", "40", "--workers", "3"))):
        evaluation = Evaluation(store=str(tmp_path / name), tasks=tasks, models=mocks(tmp_path))
        done = evaluation.run(*given)
        assert done.code == 0, done.err
        reports.append(figures(evaluation.report()))
    for part in ("leaderboard", "pairwise", "calibration", "accuracy", "outcomes", "cases"):
        assert reports[0][part] == reports[1][part], part


def test_paths_with_spaces_and_foreign_letters_work(tmp_path: Path) -> None:
    """The command that continues is quoted for a shell."""
    folder = tmp_path / "ein Ordner für Läufe"
    folder.mkdir()
    evaluation = store_of(folder)
    assert farm("verify", "--store", evaluation.store).code == 0


@pytest.mark.parametrize(
    "given",
    [
        ["--samples", "0"],
        ["--limit", "0"],
        ["--category", "poems"],
        ["--concurrency", "0"],
        ["--max-cost", "much"],
        ["--max-cost", "-1"],
        ["--max-cost", "NaN"],
        ["--max-tokens", "0"],
        ["--deadline-s", "-1"],
        ["--shards", "1025"],
    ],
)
def test_options_out_of_bounds_are_wrong_usage(given: list[str], tmp_path: Path) -> None:
    """Exit code 2, and no store."""
    done = farm("eval", "--store", str(tmp_path / "s"), *given)
    assert done.code == 2, done.err
    assert not (tmp_path / "s").exists()


def test_what_a_new_store_lacks_is_named(tmp_path: Path) -> None:
    """Both files, whichever is missing; an unknown model, with those there are."""
    store = str(tmp_path / "s")
    for given in ([], ["--tasks", FIXTURE], ["--models", mocks(tmp_path)]):
        done = farm("eval", "--store", store, *given)
        assert done.code == 1
        assert "give --tasks FILE and --models FILE" in done.failures[0]
    given = ["--tasks", FIXTURE, "--models", mocks(tmp_path), "--model", "nobody"]
    done = farm("eval", "--store", store, *given)
    assert done.code == 1
    assert "it has rule_based, noisy, biased" in done.failures[0]
    assert not Path(store).exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('adapter = "recorded"\nfile = "nope.jsonl"', "nope.jsonl: no such file"),
        (
            'adapter = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9"\nkey_env = "UNSET"',
            "UNSET, which is not set",
        ),
    ],
)
def test_a_mistake_in_the_models_makes_no_store(settings: str, said: str, tmp_path: Path) -> None:
    """A store is bound to its models: corrected, the same command would be refused."""
    models = tmp_path / "models.toml"
    models.write_text(f"[models.x]\n{settings}\n")
    store = tmp_path / "s"
    done = farm("eval", "--store", str(store), "--tasks", FIXTURE, "--models", str(models))
    assert done.code == 1
    assert said in done.failures[0]
    assert not store.exists()


def test_events_of_an_evaluation_keep_their_schema(finished: tuple[Evaluation, Done]) -> None:
    """The schema is printed by the same command that wrote them."""
    from jsonschema import Draft202012Validator

    schema = farm("schema", "events").json
    for event in finished[0].events():
        Draft202012Validator(schema).validate(event)
    assert json.dumps(schema)


def test_tasks_judged_by_bleu_4_bring_the_published_figures_along(tmp_path: Path) -> None:
    """The rule takes the first line; sacrebleu's own answer for a perfect line is 100."""
    line = "the quick brown fox jumps over it"
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"task": "t0", "sample": 0, "text": f"{line}\nand more"}) + "\n")
    models = tmp_path / "models.toml"
    models.write_text(f'[models.m]\nadapter = "recorded"\nfile = {json.dumps(str(answers))}\n')
    tasks = write_tasks(tmp_path, 1, category="summary", metric_name="bleu_4", targets=[line])
    evaluation = Evaluation(store=str(tmp_path / "store"), tasks=tasks, models=str(models))
    done = evaluation.run()
    assert done.code == 0, done.err
    report = evaluation.report()
    assert {one["name"]: one["score"] for one in report["corpus"]["m"]} == {
        "corpus_bleu": 1.0,
        "chrf": 1.0,
    }
    assert "flatters short answers" in report["warnings"][0]
    assert "flatters short answers" in evaluation.path("report.md").read_text("utf-8")
