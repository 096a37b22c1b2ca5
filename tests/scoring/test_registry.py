"""Names are a closed vocabulary; scorers are loaded by their first use; plugins come lazily."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from farm.core.vocabulary import METRICS
from farm.errors import SpecError
from farm.scoring import registry
from farm.scoring.explain import explain
from farm.scoring.registry import scorer, scorer_names

PLUGIN = """
from farm.scoring.registry import Scorer

length = Scorer(
    name="length", version="3", graded=True,
    function=lambda prediction, targets: min(1.0, len(prediction) / 10),
)
f1 = Scorer(name="f1", version="99", function=lambda prediction, targets: 1.0)
raises = Scorer(name="raises", version="1", function=lambda prediction, targets: 1 / 0)
leaves_bounds = Scorer(name="leaves_bounds", version="1", function=lambda *_: 2.0)
misnamed = length
not_a_scorer = 7
"""
POINTS = """[farm.scorers]
length = farm_plugin:length
f1 = farm_plugin:f1
raises = farm_plugin:raises
leaves_bounds = farm_plugin:leaves_bounds
f1@x = farm_plugin:f1
other = farm_plugin:misnamed
seven = farm_plugin:not_a_scorer
gone = farm_plugin:gone
nowhere = farm_no_such_module:x
broken = farm_broken_plugin:x
leaves = farm_leaving_plugin:x
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with entry points, installed on a path of its own."""
    (tmp_path / "farm_plugin.py").write_text(PLUGIN, "utf-8")
    (tmp_path / "farm_broken_plugin.py").write_text("x = 1 / 0\n", "utf-8")
    (tmp_path / "farm_leaving_plugin.py").write_text("raise SystemExit(3)\n", "utf-8")
    info = tmp_path / "farm_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: farm-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_LOADED", {})


def test_the_table_is_the_vocabulary_tasks_are_checked_against() -> None:
    assert tuple(registry._MAKERS) == METRICS
    for name in METRICS:
        assert scorer(name).name == name
        assert scorer(name).version


def test_only_code_exec_needs_more_than_texts() -> None:
    assert {name: scorer(name).needs for name in METRICS if scorer(name).needs} == {
        "code_exec": ("sandbox",)
    }


def test_an_unknown_name_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(SpecError) as refused:
        scorer("blue_4")
    assert str(refused.value) == (
        "metric 'blue_4' is not known; the metrics are exact_match, accuracy, f1, bleu_4, rouge_l, "
        "code_exec, normalized_match, lenient_match, squad_em, squad_f1, number, letter, contains"
    )


@pytest.mark.usefixtures("plugin")
def test_a_plugin_is_found_by_its_name() -> None:
    found = scorer("length")
    assert (found.name, found.version, found.function("abcde", [])) == ("length", "3", 0.5)
    assert "length" in scorer_names()
    assert scorer_names()[: len(METRICS)] == METRICS


@pytest.mark.usefixtures("plugin")
def test_a_plugin_is_not_explained_in_words_of_other_metrics() -> None:
    """What it compares, and how, only the plugin knows."""
    assert explain("length", "abcde", ["x"]).rule == "target 1 gives the score"
    for failing in ("raises", "leaves_bounds"):
        told = explain(failing, "abcde", ["x"])
        assert (told.outcome, told.rule) == (
            "unscorable",
            f"{failing} failed, or its score left [0, 1]",
        )


@pytest.mark.usefixtures("plugin")
def test_a_plugin_cannot_take_a_name_of_farm() -> None:
    assert scorer("f1").version == "1"
    assert scorer_names().count("f1") == 1


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("f1@x", "is not known"),
        ("other", "is no Scorer of that name"),
        ("seven", "is no Scorer of that name"),
        ("gone", "cannot be loaded"),
        ("nowhere", "cannot be loaded"),
        ("broken", "cannot be loaded: ZeroDivisionError 'division by zero'"),
        ("leaves", "cannot be loaded: SystemExit '3'"),
    ],
)
def test_a_plugin_that_is_none_is_refused(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        scorer(name)


def loaded_after(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


HEAVY = {"numpy", "rapidfuzz", "sacrebleu", "importlib.metadata", "ast", "click", "rich",
         "asyncio", "anyio", "structlog"}  # fmt: skip


def test_a_worker_loads_only_the_scorer_it_uses() -> None:
    """Workers start through the registry; each module it pulls in is paid by every worker."""
    base = loaded_after("import msgspec")
    lean = loaded_after(
        "from farm.scoring.registry import scorer; from farm.scoring.score import case_judge; "
        "case_judge(scorer('normalized_match'))('x', 'a', ['b'])"
    )
    assert not (lean - base) & HEAVY
    scorers = {name for name in lean if name.startswith("farm.scoring.")}
    assert scorers == {
        "farm.scoring.registry", "farm.scoring.score", "farm.scoring.postprocess",
        "farm.scoring.extract", "farm.scoring.match", "farm.scoring.steps",
    }  # fmt: skip


def test_rapidfuzz_comes_with_rouge_l_alone() -> None:
    assert "rapidfuzz" not in loaded_after(
        "from farm.scoring.score import score; score('f1', 'a', ['a'])"
    )
    assert "rapidfuzz" in loaded_after(
        "from farm.scoring.score import score; score('rouge_l', 'a', ['a'])"
    )
