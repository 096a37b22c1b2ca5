"""What `import farm` gives: a fixed list of names, each loaded by its first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import farm
from farm import errors

GOLDEN = Path(__file__).resolve().parent / "golden" / "public_names.txt"
NAMES = GOLDEN.read_text("utf-8").split()


def test_the_public_names_are_those_of_the_golden_list() -> None:
    """A name taken away breaks programs, a name added is a promise: both change the list."""
    assert farm.__all__ == NAMES
    assert set(NAMES) <= set(dir(farm))


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_under_that_name(name: str) -> None:
    assert getattr(farm, name).__name__ == name


def test_the_whole_error_tree_is_public() -> None:
    tree = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.FarmError)
    }
    assert tree <= set(NAMES)


def test_readers_of_types_see_the_same_names_from_the_same_modules() -> None:
    """The names under TYPE_CHECKING are what mypy sees, the table is what runs."""
    tree = ast.parse(Path(farm.__file__).read_text("utf-8"))
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("farm.")
        for alias in node.names
    }
    assert seen == farm._HOMES


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"no name 'run_evil'; it has BadNumbers, Biased"):
        farm.run_evil  # noqa: B018


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules)-before)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(ran.stdout.split())


def test_importing_farm_loads_nothing_of_it() -> None:
    """Every worker process imports the package; it pays for none of the public names."""
    loaded = loaded_by("import typing, farm")
    assert {name for name in loaded if name.startswith("farm")} == {"farm"}
    assert not loaded & {"numpy", "msgspec", "importlib.metadata", "ast"}


def test_a_name_loads_its_own_module_and_no_statistics() -> None:
    assert "numpy" not in loaded_by("from farm import run_candidate, extract_code, score")
