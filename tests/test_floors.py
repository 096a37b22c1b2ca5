"""The house stands: imports point down, there is no cycle, the core touches nothing outside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "farm"

# From the ground up. A module may import from its own room and from rooms on lower floors.
# Rooms on one floor do not know each other; what may is written in BESIDE.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("farm.errors", "farm.lean", "farm.data", "farm.version"),
    ("farm.core",),
    ("farm.scoring", "farm.stats"),
    ("farm.report",),
    ("farm.files", "farm.store", "farm.sandbox", "farm.adapters"),
    ("farm.runtime", "farm.qualify"),
    ("farm.engines",),
    (
        "farm.config",
        "farm.log",
        "farm.outlet",
        "farm.wiring",
        "farm.wiring_qualify",
        "farm.wiring_eval",
        "farm.wiring_evalreport",
        "farm.view",
        "farm.evaluation",
    ),
    ("farm.cli", "farm.runtime.worker_main", "farm.runtime.asker_main"),
    ("farm", "farm.__main__"),
)
BESIDE = {
    ("farm.store", "farm.files"),  # a directory store is made of files
    ("farm.wiring", "farm.config"),
    ("farm.wiring", "farm.log"),
    ("farm.wiring_qualify", "farm.config"),
    ("farm.wiring_eval", "farm.config"),
    ("farm.wiring_eval", "farm.wiring"),
    ("farm.wiring_evalreport", "farm.wiring_eval"),
    ("farm.view", "farm.config"),
    ("farm.runtime.asker_main", "farm.runtime.worker_main"),  # its private stdout, its watch
    ("farm.log", "farm.config"),
    ("farm.log", "farm.outlet"),
}
# The loops act through protocols; concrete doors are named in farm.wiring alone.
LOOPS = ("farm.runtime", "farm.qualify")
DOORS = ("farm.files", "farm.store", "farm.sandbox", "farm.adapters")
# The core decides; these would let it act.
CORE_FORBIDDEN = {
    "aiofiles", "anyio", "asyncio", "io", "logging", "multiprocessing", "os",
    "pathlib", "random", "secrets", "shutil", "socket", "structlog", "subprocess", "sys",
    "tempfile", "threading", "time", "uuid",
}  # fmt: skip
PURE = ("farm.core", "farm.scoring", "farm.stats", "farm.report")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(tree: ast.AST) -> set[str]:
    """Every module the tree imports, at the top or inside a function; TYPE_CHECKING too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if deeper in SOURCES else node.module)
    return found


TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in SOURCES.items()}
IMPORTS = {name: imports_of(tree) for name, tree in TREES.items()}


def room_of(module: str) -> tuple[int, str]:
    """The floor and the room of a module: the longest room name that contains it."""
    best: tuple[int, str] | None = None
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            inside = module == room or (room != "farm" and module.startswith(room + "."))
            if inside and (best is None or len(room) > len(best[1])):
                best = (floor, room)
    assert best is not None, f"{module} stands on no floor; give it one in FLOORS"
    return best


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_imports_point_down(module: str) -> None:
    floor, room = room_of(module)
    for target in sorted(t for t in IMPORTS[module] if t == "farm" or t.startswith("farm.")):
        assert target != "farm", f"{module} imports the package itself, which is for users"
        target_floor, target_room = room_of(target)
        allowed = room == target_room or target_floor < floor or (room, target_room) in BESIDE
        assert allowed, f"{module} (floor {floor}) must not import {target} (floor {target_floor})"


@pytest.mark.parametrize("module", sorted(m for m in SOURCES if room_of(m)[1] in LOOPS))
def test_loops_know_doors_by_protocol_only(module: str) -> None:
    for target in sorted(IMPORTS[module]):
        if target.startswith(DOORS):
            assert target.endswith(".protocol"), f"{module} must not name the door {target}"


@pytest.mark.parametrize("module", sorted(m for m in SOURCES if m.startswith(PURE)))
def test_pure_rooms_do_not_act(module: str) -> None:
    tops = {name.split(".")[0] for name in IMPORTS[module]}
    assert not tops & CORE_FORBIDDEN
    for node in ast.walk(TREES[module]):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{module}:{node.lineno}"
        if isinstance(node.func, ast.Attribute):
            assert node.func.attr not in {"now", "utcnow", "today"}, f"{module}:{node.lineno}"


def test_the_import_graph_has_no_cycle() -> None:
    state: dict[str, str] = {}

    def visit(module: str, path: tuple[str, ...]) -> None:
        if state.get(module) == "done":
            return
        assert state.get(module) != "open", " -> ".join((*path, module))
        state[module] = "open"
        for target in sorted(IMPORTS[module] & SOURCES.keys()):
            visit(target, (*path, module))
        state[module] = "done"

    for module in sorted(SOURCES):
        visit(module, ())


def test_the_environment_is_read_in_one_place() -> None:
    """`os.environ` and `os.getenv` stand in farm.config alone (a worker passes its own on)."""
    for module, tree in TREES.items():
        if module == "farm.config":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
                pytest.fail(f"{module}:{node.lineno} reads the environment")
