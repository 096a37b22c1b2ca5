"""Parsing what models wrote: in threads, and whatever a process does with warnings."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from farm.scoring.syntax import parsed, tree_of

PROGRAM = "assert f(1, 2) == 3 and g([1, 2, 3]) == {'a': 1}\n" * 20


class Cycle:
    """Garbage that only a collection finds, and that runs Python when it is found."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(300):
            pass


@pytest.fixture
def collecting() -> Iterator[None]:
    """Collect garbage, and change threads, as often as can be: in the middle of a tree."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("collecting")
def test_threads_parse_at_once() -> None:
    """`ast.parse` itself fails here in one call of twelve: SystemError, "depth mismatch"."""

    def parse(_: int) -> int:
        Cycle(), Cycle()
        return len(tree_of(PROGRAM).body)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(parse, range(800))) == {20}


@pytest.mark.parametrize("action", ["error", "always"])
def test_odd_escapes_are_no_warning(action: str, capfd: pytest.CaptureFixture[str]) -> None:
    r"""`"\d"` warns where it is compiled; as an error it would be no program any more."""
    with warnings.catch_warnings():
        warnings.simplefilter(action)  # type: ignore[arg-type]
        assert parsed(r'pattern = "\d"') is not None
        assert capfd.readouterr().err == ""
        with pytest.warns(UserWarning, match="of somebody else"):
            warnings.warn("of somebody else", UserWarning, stacklevel=1)
