"""Summary and comparison of runs that were measured before; no server is asked."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.errors import SpecError
from farm.files.runfiles import read_fixtures, read_run
from farm.qualify.compare import compare_runs, differ
from farm.qualify.summary import range_of, summarize
from farm.report.qualification import summary_markdown
from farm.report.qualification_page import render_page
from tests.qualify.servers import farm, scripted_server, write_config, write_lease


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One real run of the scripted server: two concurrencies, two repeats, cold and primed."""
    folder = tmp_path_factory.mktemp("measured")
    with scripted_server("--pause-s", "0.01", "--drafts") as url:
        config = write_config(
            folder, url=url, concurrency=[1, 2], repeats=2, quantization="<b>Q4</b>"
        )
        output = folder / "run"
        done = farm(
            "qualify", "run", config, "--lease", write_lease(folder), "--output", str(output)
        )
        assert done.returncode == 0, done.stderr
        yield output


def copy_of(run: Path, to: Path, *, provenance: Any = None, config: Any = None) -> Path:
    """Copy a run and change what its provenance says."""
    shutil.copytree(run, to)
    path = to / "provenance.json"
    document = json.loads(path.read_bytes())
    document["provenance"] |= provenance or {}
    document["config"] |= config or {}
    path.write_text(json.dumps(document), "utf-8")
    return to


def compared(one: Path, other: Path, across: tuple[str, ...] = ()):
    return compare_runs(
        read_run(str(one)),
        read_run(str(other)),
        fixtures=(read_fixtures(str(one)), read_fixtures(str(other))),
        names=("one", "other"),
        across=across,
    )


def test_a_summary_has_a_row_for_each_cell_over_its_repeats(measured: Path) -> None:
    """4 rows: 2 concurrencies, cold and primed; n is streams times repeats, of waves repeats."""
    found = summarize(*read_run(str(measured)))
    assert found.complete
    places = [(row.concurrency, row.cache, row.success) for row in found.rows]
    assert places == [
        (1, "cold", "2/2"), (1, "primed", "2/2"), (2, "cold", "4/4"), (2, "primed", "4/4"),
    ]  # fmt: skip
    for row in found.rows:
        requests = row.metrics["initial.ttft_any_s"]
        assert requests.n == row.concurrency * 2
        assert requests.min is not None
        assert requests.median is not None
        assert requests.max is not None
        assert requests.min <= requests.median <= requests.max
        assert row.metrics["aggregate_tokens_s"].n == 2
        assert row.draft_acceptance == 0.5
        assert ("prime.ttft_any_s" in row.metrics) == (row.cache == "primed")


def test_a_failed_repeat_is_left_out_and_marks_the_row(measured: Path) -> None:
    """Three repeats, the second truncated at 0.01 s: the median of 0.5 and 0.7 is 0.6, 2 of 3."""
    lines, provenance = read_run(str(measured))
    rows = []
    for place, (status, ttft) in enumerate([("ok", 0.5), ("truncated", 0.01), ("ok", 0.7)]):
        cell = json.loads(lines[0])
        cell |= {"repeat": place, "measurement_valid": status == "ok"}
        cell["measurement_reasons"] = [] if status == "ok" else ["initial_truncated"]
        cell["tasks"][0]["success"] = status == "ok"
        metrics = cell["tasks"][0]["phases"]["initial"]["metrics"]
        metrics |= {"status": status, "ttft_any_s": ttft}
        rows.append(json.dumps(cell).encode())
    (row,) = summarize(rows, provenance).rows
    assert row.success == "2/3"
    assert row.metrics["initial.ttft_any_s"].median == pytest.approx(0.6)
    assert row.measurement_valid is False
    assert row.measurement_reasons == {"initial_truncated": 1}


@pytest.mark.parametrize("form", ["markdown", "json", "html"])
def test_a_summary_is_printed_in_every_form(measured: Path, form: str) -> None:
    """Foreign text is made safe in each."""
    done = farm("qualify", "summary", str(measured), "--format", form)
    assert done.returncode == 0, done.stderr
    if form == "json":
        assert json.loads(done.stdout)["provenance"]["quantization"] == "<b>Q4</b>"
        return
    assert "<b>Q4</b>" not in done.stdout
    assert "&lt;b&gt;Q4&lt;/b&gt;" in done.stdout
    assert "no general quality rank" in done.stdout


def test_the_page_runs_no_script_and_draws_every_row(measured: Path) -> None:
    """Nothing is fetched; a bar for each row and figure."""
    found = summarize(*read_run(str(measured)))
    page = "".join(render_page(found))
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "default-src 'none'" in page
    assert page.count("<svg") == 6 * len(found.rows)
    assert page == "".join(render_page(found))


def test_a_table_row_has_as_many_cells_as_the_head(measured: Path) -> None:
    """A stray bar in a text would tear the table."""
    text = summary_markdown(summarize(*read_run(str(measured))))
    table = [line for line in text.splitlines() if line.startswith("| ")][:5]
    assert len({line.count(" |") for line in table}) == 1


def test_a_run_against_itself_differs_in_nothing(measured: Path) -> None:
    """Every difference is 0 and no range is separated."""
    found = compared(measured, measured)
    assert found.comparable
    assert found.differs == ()
    assert found.fixtures_identical == found.fixtures_shared == 6
    assert len(found.cells) == 4
    for cell in found.cells:
        for one in cell.metrics.values():
            assert one.difference in (0, None)
            assert not one.separated


@pytest.mark.parametrize(
    ("change", "dimension"),
    [
        ({"protocol": "responses"}, "protocol"),
        ({"template_sha256": "9" * 64}, "template"),
        ({"reasoning_mode": "high"}, "reasoning_mode"),
        ({"quantization": "Q8"}, "quantization"),
        ({"draft_model": "d"}, "draft_model"),
        ({"draft_sha256": "9" * 64}, "draft_model"),
        ({"engine_commit": "other"}, "engine"),
        ({"engine_binary_sha256": "9" * 64}, "engine"),
    ],
)
def test_two_experiments_are_not_mixed(
    measured: Path, tmp_path: Path, change: dict[str, Any], dimension: str
) -> None:
    """The dimension is named, no cell is compared, and the caller may name it too."""
    other = copy_of(measured, tmp_path / "other", provenance=change)
    found = compared(measured, other)
    assert not found.comparable
    assert [one.name for one in found.differs] == [dimension]
    assert found.cells == ()
    named = compared(measured, other, across=(dimension,))
    assert named.comparable
    assert named.attributable_to == dimension
    assert len(named.cells) == 4


def told(run: Path, *servers: dict[str, Any]) -> Path:
    """Change what the servers of a run's invocations told of themselves."""
    path = run / "provenance.json"
    document = json.loads(path.read_bytes())
    (entry,) = document["invocations"]
    document["invocations"] = [{**entry, "server": server} for server in servers]
    path.write_text(json.dumps(document), "utf-8")
    return run


@pytest.mark.parametrize(
    ("field", "dimension"),
    [
        ("template_sha256", "template"),
        ("build_info", "engine"),
        ("version", "engine"),
        ("model_ftype", "quantization"),
    ],
)
def test_servers_that_told_different_things_are_two_experiments(
    measured: Path, tmp_path: Path, field: str, dimension: str
) -> None:
    """Both configurations declare the same; what was met is known to differ."""
    one = told(copy_of(measured, tmp_path / "one"), {field: "a"})
    other = told(copy_of(measured, tmp_path / "other"), {field: "b"})
    found = compared(one, other)
    assert not found.comparable
    (differs,) = found.differs
    assert (differs.name, differs.baseline, differs.candidate) == (dimension, "a", "b")
    assert compared(one, other, across=(dimension,)).attributable_to == dimension
    # a run that went on at another server is no equal of one that did not
    both = told(copy_of(measured, tmp_path / "both"), {field: "a"}, {field: "b"}, {})
    assert [one.candidate for one in compared(one, both).differs] == [["a", "b"]]
    # silence says nothing
    silent = told(copy_of(measured, tmp_path / "silent"), {})
    assert compared(one, silent).comparable


def test_a_comparison_carries_the_warnings_of_both_runs(measured: Path, tmp_path: Path) -> None:
    """They say what makes a figure doubtful, and doubt is passed on to a difference."""
    warned = copy_of(measured, tmp_path / "warned")
    path = warned / "provenance.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "warnings": ["another server"]}), "utf-8")
    assert "the candidate: another server" in compared(measured, warned).notes
    assert "the baseline: another server" in compared(warned, measured).notes


def test_the_command_refuses_with_exit_code_1(measured: Path, tmp_path: Path) -> None:
    """What differs is on stdout, why it was refused on stderr."""
    other = copy_of(measured, tmp_path / "other", provenance={"engine_commit": "x"})
    done = farm("qualify", "compare", str(measured), str(other))
    assert done.returncode == 1
    assert json.loads(done.stdout)["differs"][0]["name"] == "engine"
    assert "--across" in done.stderr
    again = farm("qualify", "compare", str(measured), str(other), "--across", "engine")
    assert again.returncode == 0, again.stderr


def test_two_dimensions_at_once_are_put_down_to_neither(measured: Path, tmp_path: Path) -> None:
    """Also when the caller knows of both."""
    change = {"engine_commit": "x", "nodes": ["elsewhere"]}
    other = copy_of(measured, tmp_path / "other", provenance=change)
    found = compared(measured, other, across=("engine",))
    assert found.attributable_to is None
    assert any("no difference can be put down to one" in note for note in found.notes)


@pytest.mark.parametrize("name", ["fixture_mode", "fixture_seed", "max_tokens"])
def test_other_fixtures_are_refused(measured: Path, tmp_path: Path, name: str) -> None:
    """Both runs must have measured the same work."""
    other = copy_of(measured, tmp_path / "other", config={name: "else"})
    with pytest.raises(SpecError, match="did not measure the same fixtures"):
        compared(measured, other)


def test_a_difference_has_the_ends_that_any_pair_gives() -> None:
    """[1, 2, 3] against [5, 6, 9]: medians 4 apart, at least 2, at most 8."""
    found = differ(range_of([1.0, 2.0, 3.0]), range_of([5.0, 6.0, 9.0]))
    assert (found.difference, found.least, found.most, found.ratio) == (4.0, 2.0, 8.0, 3.0)
    assert found.separated is True
    assert differ(range_of([1.0, 5.0]), range_of([5.0])).separated is False
    assert differ(range_of([]), range_of([5.0])).difference is None


@pytest.mark.parametrize(
    "document",
    [
        {"config": 3},
        {"config": {"contexts": 3}},
        {"config": {"contexts": [1], "concurrency": [1], "repeats": "x"}},
        {"run_id": 5},
        {"warnings": "none"},
        {"provenance": []},
    ],
)
def test_a_provenance_of_another_shape_is_named(
    measured: Path, tmp_path: Path, document: dict[str, Any]
) -> None:
    """A file that was edited is the operator's matter, not a fault of the program."""
    run = copy_of(measured, tmp_path / "run")
    whole = json.loads((run / "provenance.json").read_bytes())
    (run / "provenance.json").write_text(json.dumps({**whole, **document}), "utf-8")
    for command in (["summary", str(run)], ["compare", str(measured), str(run)]):
        done = farm("qualify", *command)
        assert done.returncode == 1
        assert "provenance.json: Expected" in done.stderr
