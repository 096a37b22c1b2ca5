"""What the README says of asking models is what a newcomer sees."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.acceptance.shell import farm

ROOT = Path(__file__).resolve().parents[2]
SECTION = (
    (ROOT / "README.md").read_text("utf-8").partition("## Ask models")[2].partition("\n## ")[0]
)


def test_the_table_of_the_mock_models_is_the_one_shown(tmp_path: Path) -> None:
    """The command is taken from the README, and so are the lines it is said to print."""
    block = re.search(r"```console\n\$ farm (.*?) \| head -5\n(.*?)```", SECTION, re.DOTALL)
    assert block is not None
    words = shlex.split(block[1])
    words[words.index("./my-eval")] = str(tmp_path / "my-eval")
    words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in words]
    done = farm(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out.decode().splitlines()[:5] == block[2].splitlines()
    for name in ("report.json", "report.md", "report.html"):
        assert (tmp_path / "my-eval" / name).stat().st_size > 0

    pair = re.search(r"`farm (compare \./my-eval@\S+ \./my-eval@\S+)`", SECTION)
    assert pair is not None
    sides = [side.replace("./my-eval", str(tmp_path / "my-eval")) for side in pair[1].split()]
    assert farm(*sides).json["n"] == 10


def test_the_example_of_the_python_interface_runs() -> None:
    """The block in API.md, as it stands, from the root of the repository."""
    api = (ROOT / "API.md").read_text("utf-8")
    block = re.search(r"```python\n(import farm\n+class Echo.*?)```", api, re.DOTALL)
    assert block is not None
    source, _, last = block[1].rstrip().rpartition("\n")
    source = source.replace('"samples/tasks.jsonl"', repr(str(ROOT / "samples" / "tasks.jsonl")))
    names: dict[str, object] = {}
    exec(source, names)
    ranked = eval(last, names)
    assert [name for name, _ in ranked] == ["rule_based", "echo"]
