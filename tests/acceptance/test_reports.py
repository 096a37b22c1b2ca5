"""`farm report`, `farm compare` and `farm gate` on the stores of real runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from farm.core.change import Claim, Fail
from farm.store.directory import DirectoryStore
from tests.acceptance.shell import SAMPLE, farm, fingerprint, strict_json
from tests.report.browser import chromium

CASES = 60
HOSTILE = "</script><script>window.ran=1</script>\u202e|\n@all"


def write(path: Path, *, wrong: range, **more: Any) -> str:
    """Predictions of 60 tasks, those in `wrong` answered wrongly."""
    records = [
        {
            "id": f"case-{i}", "prompt": f"{HOSTILE} task {i}?", "expected": "yes",
            "response": "no" if i in wrong else " YES ",
            "category": ("law", "maths")[i % 2], "confidence": 0.9,
            "token_nll": 2.0, "token_count": 4, **more,
        }
        for i in range(CASES)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def run(folder: Path, name: str, *, wrong: range, options: tuple[str, ...] = ()) -> str:
    given = write(folder / f"{name}.jsonl", wrong=wrong)
    store = str(folder / name)
    done = farm("run", "--store", store, "--input", given, "--quiet", *options)
    assert done.code == 0, done.err
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """good: 55 of 60. bad: 42 of 60, 13 broken and none fixed. near: 53 of 60, 2 broken."""
    folder = tmp_path_factory.mktemp("reports")
    return {
        "good": run(folder, "good", wrong=range(5)),
        "bad": run(folder, "bad", wrong=range(18)),
        "near": run(folder, "near", wrong=range(7)),
    }


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of which one shard of three is done."""
    folder = tmp_path_factory.mktemp("partial")
    given = write(folder / "in.jsonl", wrong=range(5))
    store = str(folder / "partial")
    farm("init", "--store", store, "--input", given, "--shards", "3", "--quiet")
    assert farm("worker", "--store", store, "--worker-id", "w").code == 0
    return store


def board(*names: str, **stores: str) -> list[str]:
    return [word for name in names for word in ("--store", stores[name])]


# report


def test_one_store_is_a_board_of_one_model_named_by_its_folder(stores: dict[str, str]) -> None:
    done = farm("report", "--store", stores["good"])
    assert (done.code, done.err) == (0, "")
    report = done.json
    (row,) = report["leaderboard"]
    assert (row["rank"], row["model_id"]) == (1, "good")
    assert row["mean_score"] == pytest.approx(55 / 60)
    assert row["ci_method"] == "wilson"
    assert report["summary"] == {
        "tasks": 60, "models": 1, "task_runs": 60, "wall_seconds": None,
    }  # fmt: skip
    assert report["outcomes"]["good"]["wrong"] == 5
    assert report["calibration"]["good"]["brier"] == pytest.approx((55 * 0.01 + 5 * 0.81) / 60)
    assert report["perplexity"]["good"]["total_tokens"] == 240
    assert len(report["cases"]["good"]) == 60
    assert "error" not in report


def test_names_come_from_the_store_or_from_the_command(
    stores: dict[str, str], tmp_path: Path
) -> None:
    named = str(tmp_path / "x")
    farm("run", "--store", named, "--input", SAMPLE, "--name", "mistral", "--quiet")
    assert farm("report", "--store", named).json["leaderboard"][0]["model_id"] == "mistral"
    given = farm("report", "--store", named, "--name", "other").json
    assert given["leaderboard"][0]["model_id"] == "other"
    wrong = farm("report", "--store", named, "--store", stores["good"], "--name", "one")
    assert (wrong.code, wrong.out) == (2, b"")
    assert "1 --name for 2 models in 2 --store: give one for each" in wrong.failures[0]


def test_several_stores_are_one_leaderboard(stores: dict[str, str]) -> None:
    """Exact McNemar of 13 broken and none fixed is 2 / 2^13, times 3 by Holm."""
    report = farm("report", *board("bad", "good", "near", **stores)).json
    assert [row["model_id"] for row in report["leaderboard"]] == ["good", "near", "bad"]
    pair = next(x for x in report["pairwise"] if {x["model_a"], x["model_b"]} == {"bad", "good"})
    assert (pair["test"], pair["significant"]) == ("mcnemar_exact", True)
    assert pair["p_value"] == pytest.approx(2 / 2**13)
    assert pair["p_holm"] == pytest.approx(6 / 2**13)
    assert report["runs"]["bad"]["tasks_sha256"] == report["runs"]["good"]["tasks_sha256"]


def test_reports_are_equal_bytes_for_any_workers_and_any_order(
    stores: dict[str, str], tmp_path: Path
) -> None:
    """One worker, four, and shards judged by hand from several processes; stores either way."""
    given = write(tmp_path / "good.jsonl", wrong=range(5))
    made = []
    for workers in ("1", "4"):
        store = str(tmp_path / workers / "good")
        os.makedirs(os.path.dirname(store))
        farm("run", "--store", store, "--input", given, "--workers", workers, "--quiet",
             "--shards", "4", "--shards-per-process", workers)  # fmt: skip
        made.append(store)
    by_hand = str(tmp_path / "hand" / "good")
    os.makedirs(os.path.dirname(by_hand))
    farm("init", "--store", by_hand, "--input", given, "--shards", "4", "--quiet")
    for worker in ("a", "b"):
        farm("worker", "--store", by_hand, "--worker-id", worker)
    assert farm("run", "--store", by_hand, "--quiet").code == 0
    made.append(by_hand)
    for kind in ("json", "markdown", "html", "junit"):
        texts = {farm("report", "--store", store, "--format", kind).out for store in made}
        assert len(texts) == 1, kind
        one = farm("report", *board("good", "bad", **stores), "--format", kind, "--title", "t")
        other = farm("report", *board("bad", "good", **stores), "--format", kind, "--title", "t")
        assert one.out == other.out, kind


def test_markdown_and_junit_say_the_same(stores: dict[str, str]) -> None:
    text = farm("report", "--store", stores["good"], "--format", "markdown").out.decode()
    assert (
        text.splitlines()[0] == "| Rank | Model | Mean | 95% CI | Win rate | Tasks | ECE | Brier |"
    )
    assert "| 1 | good | 0.917 | [0.819, 0.964] | 1.000 | 60 |" in text
    root = ElementTree.fromstring(
        farm("report", "--store", stores["good"], "--format", "junit").out.decode()
    )
    assert (root[0].get("tests"), root[0].get("failures")) == ("60", "5")


def test_a_report_goes_to_a_file_and_to_the_summary_of_a_job(
    stores: dict[str, str], tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    given = ("report", "--store", stores["good"], "--format", "markdown", "--step-summary")
    done = farm(*given, "--output", str(tmp_path / "r.md"),
                variables={"GITHUB_STEP_SUMMARY": str(summary)})  # fmt: skip
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert (tmp_path / "r.md").read_text("utf-8").startswith("| Rank |")
    assert summary.read_text("utf-8").startswith("before\n## good\n\n**good**: mean 0.917")
    nowhere = farm(*given, variables={"GITHUB_STEP_SUMMARY": ""})
    assert (nowhere.code, nowhere.out) == (2, b"")


def test_a_partial_run_is_reported_as_far_as_it_is_and_ends_with_one(partial: str) -> None:
    done = farm("report", "--store", partial)
    assert done.code == 1
    assert (
        f"{partial!r} is not complete, 1 of 3 shards are done: continue with: farm run"
        in (done.failures[0])
    )
    report = done.json
    assert report["error"]["code"] == "incomplete"
    assert report["outcomes"]["partial"]["pending"] == report["leaderboard"][0]["n_missing"] > 0


def test_a_report_names_the_command_that_helps_a_quarantined_shard(tmp_path: Path) -> None:
    """1 while there is anything to run, 4 when only requeuing helps; `farm run` ends the same."""
    store = str(tmp_path / "store")
    farm("init", "--store", store, "--input", SAMPLE, "--shards", "4")
    with DirectoryStore(store) as opened:
        opened.commit([Claim(worker="w", ttl=9, limit=2, now=1)])
        opened.commit(
            [
                Fail(shard=shard, worker="w", version=1, max_attempts=1, reason="it died")
                for shard in ("shard-0", "shard-1")
            ]
        )
    told = (
        "2 are quarantined, open them again with: farm requeue --store "
        f"{store} --shard shard-0 (and --shard for each of the others), then continue with: "
        "farm run"
    )
    both = farm("report", "--store", store)
    assert both.code == 1
    assert told in both.failures[0]
    assert farm("run", "--store", store).code == 4
    settled = farm("report", "--store", store)
    assert settled.code == 4
    assert told in settled.failures[0]


def test_reading_a_store_changes_no_file_of_it(stores: dict[str, str]) -> None:
    before = fingerprint(stores["good"])
    farm("report", "--store", stores["good"], "--format", "html")
    farm("compare", stores["good"], stores["bad"])
    farm("gate", "--store", stores["good"], "--min-accuracy", "0.1")
    assert fingerprint(stores["good"]) == before


def test_damage_is_reported_and_a_file_that_was_there_stands(
    stores: dict[str, str], tmp_path: Path
) -> None:
    store = tmp_path / "good"
    shutil.copytree(stores["good"], store)
    receipt = next(iter(sorted((store / "receipts").iterdir())))
    receipt.write_bytes(receipt.read_bytes().replace(b"true", b"True", 1))
    page = tmp_path / "page.html"
    page.write_text("old")
    for command in (
        ("report", "--store", str(store), "--format", "html", "--output", str(page)),
        ("compare", str(store), stores["bad"]),
        ("gate", "--store", str(store), "--min-accuracy", "0"),
    ):
        done = farm(*command)
        assert (done.code, done.out, len(done.failures)) == (1, b"", 1), command
        assert receipt.name in done.failures[0]
    assert page.read_text() == "old"


def test_a_graded_scorer_is_reported_with_its_interval_and_bleu_with_its_warning(
    tmp_path: Path,
) -> None:
    store = str(tmp_path / "store")
    run_report = farm("run", "--store", store, "--input", SAMPLE, "--scorer", "bleu_4").json
    assert run_report["mean_interval"]["method"] == "student_t"
    assert run_report["mean_interval"]["flags"] == ["small_n"]
    assert [figure["name"] for figure in run_report["corpus"]] == ["corpus_bleu", "chrf"]
    assert "0.84" in run_report["warnings"][0]
    text = farm("report", "--store", store, "--format", "markdown").out.decode()
    assert "- store: chrf " in text
    assert "bleu_4 flatters short answers" in text


# the page


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as running:
        yield running


def test_the_page_of_real_stores_opens_a_case_to_the_rule_that_decided(
    stores: dict[str, str], browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """Nothing runs that a prompt holds, and nothing is fetched."""
    page = tmp_path / "page.html"
    farm("report", *board("good", "bad", **stores), "--format", "html", "--output", str(page))
    browser.get(page.as_uri())
    wait = WebDriverWait(browser, 20, poll_frequency=0.02)
    ready = "return document.getElementById('case-rows').dataset.ready === 'yes'"
    wait.until(lambda b: b.execute_script(ready))
    assert browser.title == "2 models compared"
    names = [row.text for row in browser.find_elements(By.CSS_SELECTOR, ".open-case")]
    assert names[:4] == ["case-0", "case-0", "case-1", "case-1"]
    browser.execute_script("document.querySelectorAll('.open-case')[30].click()")
    wait.until(lambda b: b.execute_script("return document.querySelector('.detail') !== null"))
    shown = browser.find_element(By.CSS_SELECTOR, ".detail").text
    for part in ("task 15?", "response, lower case:", "normalized_match@1:"):
        assert part in shown
    assert browser.execute_script("return window.ran === undefined")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


# compare


def test_two_stores_are_compared_case_by_case(stores: dict[str, str]) -> None:
    found = farm("compare", stores["good"], stores["bad"]).json
    assert (found["first"], found["second"], found["n"]) == ("good", "bad", 60)
    assert found["difference"] == pytest.approx(-13 / 60)
    assert found["p_value"] == pytest.approx(2 / 2**13)
    assert found["significant"] is True
    assert {change["id"] for change in found["broken"]} == {f"case-{i}" for i in range(5, 18)}
    assert found["fixed"] == []
    assert found["detectable"] > 0
    text = farm("compare", stores["good"], stores["bad"], "--format", "markdown").out.decode()
    assert "good is ahead beyond chance." in text
    assert "- case-5: correct to wrong" in text
    assert farm("compare", stores["good"], stores["bad"], "--output", "-").json == found
    assert not os.path.exists("-")


def test_saved_reports_stand_for_their_stores(stores: dict[str, str], tmp_path: Path) -> None:
    """Of `farm status` and of `farm report`; a comparison is the same but for the label."""
    stored = farm("compare", stores["good"], stores["bad"]).json
    for name, command in (("run", "status"), ("board", "report")):
        path = tmp_path / f"{name}.json"
        path.write_bytes(farm(command, "--store", stores["good"]).out)
        found = farm("compare", str(path), stores["bad"]).json
        assert {**found, "first": "good"} == stored
    path.write_bytes(path.read_bytes().replace(b'"case-', b'"other-'))
    apart = farm("compare", str(path), stores["bad"])
    assert (apart.code, apart.json["n"], apart.json["p_value"]) == (1, 0, None)
    assert apart.failures == ["farm: 'bad' and 'good' have no scored case in common"]
    brief = tmp_path / "brief.json"
    brief.write_bytes(farm("report", "--store", stores["good"], "--no-detail").out)
    refused = farm("compare", str(brief), stores["bad"])
    assert (refused.code, refused.out) == (1, b"")
    assert "save the report with --detail" in refused.failures[0]


def test_runs_of_other_tasks_or_scorers_are_refused_saying_which(
    stores: dict[str, str], tmp_path: Path
) -> None:
    """--common pairs what both have; another scorer is never compared."""
    given = write(tmp_path / "other.jsonl", wrong=range(2))
    lines = Path(given).read_text("utf-8").splitlines(keepends=True)
    Path(given).write_text("".join(lines[:40]), "utf-8")
    other, exact = str(tmp_path / "other"), str(tmp_path / "exact")
    farm("run", "--store", other, "--input", given, "--quiet")
    farm(
        "rescore", "--store", stores["good"], "--scorer", "exact_match", "--into", exact, "--quiet"
    )
    tasks = farm("status", "--store", other).json["tasks_sha256"]
    refused = farm("compare", stores["good"], other)
    assert (refused.code, refused.out) == (1, b"")
    assert tasks in refused.failures[0]
    assert "--common" in refused.failures[0]
    common = farm("compare", stores["good"], other, "--common").json
    assert (common["n"], len(common["only_first"])) == (40, 20)
    scored = farm("compare", stores["good"], exact, "--common")
    assert scored.code == 1
    assert "'normalized_match@1' and 'exact' by 'exact_match@1'" in scored.failures[0]
    board_refused = farm("report", "--store", stores["good"], "--store", exact)
    assert (board_refused.code, board_refused.out) == (1, b"")


def test_what_is_neither_store_nor_report_is_named(stores: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path, reason in (
        (str(tmp_path / "nowhere"), "is neither a store nor a saved report"),
        (str(tmp_path / "text"), "is no saved report"),
        (str(tmp_path), "is not a store"),
    ):
        for command in (("compare", stores["good"], path),
                        ("gate", "--store", stores["good"], "--baseline", path)):  # fmt: skip
            done = farm(*command)
            assert (done.code, done.out, len(done.failures)) == (1, b"", 1)
            assert repr(path) in done.failures[0]
            assert reason in done.failures[0]


# gate


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--store", "good", "--min-accuracy", "0.9"), 0, ""),
        (("--store", "bad", "--min-accuracy", "0.9"), 5, "accuracy 0.700 is below 0.9"),
        (("--store", "bad", "--baseline", "good"), 5, "regression: -0.217 against 'good'"),
        (("--store", "near", "--baseline", "good"), 0, ""),
        (("--store", "near", "--baseline", "good", "--max-regression", "0.01"), 5,
         "more than the allowed 0.01"),
        (("--store", "near", "--baseline", "good", "--max-regression", "0.05"), 0, ""),
        (("--store", "good", "--baseline", "bad"), 0, ""),
        (("--store", "partial", "--min-accuracy", "0.1"), 6, "'partial' is not complete"),
        (("--store", "good", "--baseline", "partial"), 6, "'partial' is not complete"),
        (("--store", "good"), 2, "give --baseline, --min-accuracy, or both"),
        (("--store", "good", "--min-accuracy", "0.5", "--max-regression", "0.1"), 2,
         "--max-regression needs a --baseline"),
        (("--store", "good", "--min-accuracy", "95"), 2, "must lie between 0 and 1"),
        (("--store", "good", "--min-accuracy", "nan"), 2, "must lie between 0 and 1"),
    ],
)  # fmt: skip
def test_the_gate_ends_with_0_5_or_6(
    stores: dict[str, str], partial: str, options: tuple[str, ...], code: int, said: str
) -> None:
    """0 passed, 5 a regression, 6 an incomplete run; 2 when nobody said what to judge by."""
    places = stores | {"partial": partial}
    done = farm("gate", *(places.get(word, word) for word in options))
    assert done.code == code, done.err
    assert said in done.err
    assert bool(done.failures) == (code != 0)
    if code != 2:
        assert done.json["exit_code"] == code
        assert done.json["verdict"] == {0: "passed", 5: "regression", 6: "incomplete"}[code]


def test_a_pass_for_lack_of_data_says_underpowered(stores: dict[str, str]) -> None:
    """Two broken of 60: p = 0.5, and 60 cases could not have shown a drop of 0.033."""
    found = farm("gate", "--store", stores["near"], "--baseline", stores["good"]).json
    assert (found["verdict"], found["underpowered"], found["n"]) == ("passed", True, 60)
    assert found["detectable"] > 2 / 60
    better = farm("gate", "--store", stores["good"], "--baseline", stores["bad"]).json
    assert better["underpowered"] is False


def test_the_gate_speaks_to_ci(stores: dict[str, str], tmp_path: Path) -> None:
    """JUnit with one failed test, Markdown, the job's summary; the reason on stderr as well."""
    summary = tmp_path / "summary.md"
    given = ("gate", "--store", stores["bad"], "--baseline", stores["good"])
    done = farm(*given, "--format", "junit", "--output", str(tmp_path / "gate.xml"),
                "--step-summary", variables={"GITHUB_STEP_SUMMARY": str(summary)})  # fmt: skip
    assert (done.code, done.out) == (5, b"")
    suite = ElementTree.fromstring((tmp_path / "gate.xml").read_text("utf-8"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert summary.read_text("utf-8").startswith("**Gate: regression**")
    assert farm(*given, "--format", "markdown").out.decode() + "\n" == summary.read_text("utf-8")


# schemas


def test_the_documents_keep_their_schemas(stores: dict[str, str], partial: str) -> None:
    """Strict: a document without one of its fields is another one."""
    good, bad = stores["good"], stores["bad"]
    shown: dict[str, list[tuple[str, ...]]] = {
        "leaderboard": [
            ("report", "--store", good), ("report", "--store", partial, "--no-detail"),
            ("report", "--store", good, "--store", bad),
        ],
        "comparison": [("compare", good, bad), ("compare", good, partial)],
        "gate": [("gate", "--store", bad, "--baseline", good),
                 ("gate", "--store", good, "--min-accuracy", "0.5")],
    }  # fmt: skip
    for name, commands in shown.items():
        schema = farm("schema", name).json
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        for command in commands:
            value = strict_json(farm(*command).out)
            assert [error.message for error in validator.iter_errors(value)] == [], command
        required = {"leaderboard": "summary", "comparison": "signature", "gate": "interval"}[name]
        assert not validator.is_valid({k: v for k, v in value.items() if k != required})
