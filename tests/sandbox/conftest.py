"""One sandbox for all tests of this room: starting a zygote is the slow part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.sandbox.runner import Sandbox, Settings


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox that runs any import, so that the kernel's protection is what is tested."""
    with Sandbox(Settings(imports="allow", require_isolation="os-enforced")) as opened:
        yield opened
