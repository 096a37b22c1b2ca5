"""Every program of the corpus ends as it should and does no harm, as any user, at any level."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.sandbox.lockdown import Walls
from farm.sandbox.runner import Sandbox, Settings, checked_work
from tests.sandbox import corpus

ROOT = Path(corpus.__file__).resolve().parent.parent.parent
NOBODY = 65534
PROGRAMS = corpus.programs()


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[corpus.Witness]:
    monkeypatch.setenv(corpus.CANARY, "canary-5c1f")
    opened = corpus.Witness(tmp_path)
    yield opened
    opened.close()


def test_the_corpus_is_whole() -> None:
    """60 hostile and 20 benign programs: a vector file cut short must not look like success."""
    kinds = [program["kind"] for program in PROGRAMS]
    assert (kinds.count("hostile"), kinds.count("benign")) == (60, 20)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])
def test_a_program_ends_as_it_should_and_does_no_harm(
    program: dict, sandbox: Sandbox, witness: corpus.Witness
) -> None:
    """Outcome and harm checks as the corpus states them, at the default limit of 3 s."""
    assert witness.run(sandbox, program, timeout_s=3.0) == []
    # the slot that ran it is as good as new
    after = sandbox.run(checked_work("def f(x): return x + 1", "f(1) == 2", timeout_s=3.0))
    assert after.outcome == "pass"


@pytest.mark.parametrize(
    "walls",
    [Walls(namespaces=False), Walls(namespaces=False, landlock=False)],
    ids=["os-enforced", "partial"],
)
def test_no_program_does_harm_at_the_weaker_levels(walls: Walls, witness: corpus.Witness) -> None:
    """Without namespaces nothing changes; without Landlock files can be read, never changed.

    There a benign program that writes files fails, and attacks that only read succeed.
    """
    hostile = [one for one in PROGRAMS if one["kind"] == "hostile"]
    if not walls.landlock:
        # these look at what was not refused; reading is not refused at this level
        hostile = [one for one in hostile if "parent_cmdline" not in one["name"]]
    wrong = {}
    with Sandbox(Settings(imports="allow", walls=walls)) as weaker:
        for program in hostile:
            found = witness.run(weaker, program, timeout_s=2.0)
            if found:
                wrong[program["name"]] = found
    assert wrong == {}


def test_programs_that_name_a_denied_import_end_in_error(witness: corpus.Witness) -> None:
    """With the policy on, naming a denied module is an error with its name in it; score 0."""
    # read off the corpus by hand
    denied = {
        "deny_ctypes_null_deref", "deny_ctypes_syscall", "forge_async_exception_in_harness",
        "forge_ctypes_heap_scan", "forge_pickle_payload", "fs_delete_victim", "net_listen",
        "net_socketpair_sendto_escape", "net_udp_loopback", "proc_os_system",
        "proc_subprocess_touch",
    }  # fmt: skip
    with Sandbox(Settings(imports="deny")) as policed:
        for program in [one for one in PROGRAMS if one["name"] in denied]:
            code = witness.staged(program["code"])
            result = policed.run(checked_work(code, program["assertions"], timeout_s=3.0))
            assert (result.outcome, result.score) == ("error", 0.0), program["name"]
            assert result.detail.startswith("denied import "), program["name"]


def _interpreter_for_everybody() -> str:
    """An interpreter another user can run: the system's, or this one where it is open to all."""
    for path in ("/usr/bin/python3", os.path.realpath(sys.executable)):
        parents = [Path(path), *Path(path).resolve().parents] if os.path.exists(path) else []
        if parents and all(os.stat(part).st_mode & stat.S_IXOTH for part in parents):
            command = [path, "-c", "import sys; print(sys.version_info >= (3, 11))"]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            if answer.stdout.strip() == "True":
                return path
    pytest.skip("no Python from 3.11 on that another user may run")


@pytest.mark.timeout(300)
def test_the_corpus_holds_for_an_unprivileged_user() -> None:
    """The same programs and checks from an environment of a user who is not root."""
    if os.getuid() != 0:
        pytest.skip("the whole suite is run by an unprivileged user already")
    python = _interpreter_for_everybody()
    with tempfile.TemporaryDirectory(prefix="farm-test-") as home:
        os.chmod(home, 0o755)
        subprocess.run([python, "-m", "venv", "--without-pip", f"{home}/venv"], check=True)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "farm", f"{home}/lib/farm", ignore=ignore)
        for part in ("tests/__init__.py", "tests/sandbox/__init__.py", "tests/sandbox/corpus.py"):
            target = Path(home, "lib", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, target)
        shutil.copytree(corpus.VECTORS.parent, f"{home}/lib/tests/vectors")
        subprocess.run(["chmod", "-R", "a+rX", f"{home}/lib"], check=True)
        work = Path(home, "work")
        work.mkdir()
        os.chown(work, NOBODY, NOBODY)
        answer = subprocess.run(
            [f"{home}/venv/bin/python", "-B", "-m", "tests.sandbox.corpus", str(work)],
            cwd=f"{home}/lib",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", corpus.CANARY: "canary-77aa"},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 0, answer.stderr[-2000:]
    told = json.loads(answer.stdout)
    assert told["user"] == NOBODY
    assert told["level"] in ("os-enforced", "os-enforced+ns")
    assert told["wrong"] == {}


def test_nothing_is_left_after_a_sandbox_is_closed(tmp_path: Path) -> None:
    """No process, no directory: what a program left is deleted, however it was made."""
    before = corpus.farm_processes()
    code = (
        "import os\n"
        "for depth in range(200):\n    os.mkdir('d'); os.chdir('d')\n"
        "open('deep', 'w').write('x')\n"
        "os.mkdir('locked', 0)\n"
        "def f(): return 1\n"
    )
    old = tempfile.tempdir
    tempfile.tempdir = str(tmp_path)
    try:
        for walls in (Walls(), Walls(namespaces=False)):
            with Sandbox(Settings(walls=walls), slots=1) as opened:
                for _ in range(3):
                    assert opened.run(checked_work(code, "f() == 1", timeout_s=3.0)).score == 1.0
    finally:
        tempfile.tempdir = old
    assert list(tmp_path.iterdir()) == []
    assert corpus.farm_processes() == before
