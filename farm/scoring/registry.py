"""The scorers by name; a name is a closed word and its version is part of a run's identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from farm.errors import SpecError
from farm.scoring.match import normalized_match


class Scorer(Struct, frozen=True, kw_only=True):
    """A named, versioned rule from (response, targets) to a score in [0, 1]."""

    name: str
    version: int
    function: Callable[[str, Sequence[str]], float]
    graded: bool = False  # whether scores between 0 and 1 occur


DEFAULT_SCORER = "normalized_match"

_SCORERS = {
    scorer.name: scorer
    for scorer in (Scorer(name="normalized_match", version=1, function=normalized_match),)
}


def scorer_names() -> tuple[str, ...]:
    """Give the valid names, sorted."""
    return tuple(sorted(_SCORERS))


def find_scorer(name: str) -> Scorer:
    """Give the scorer of that name; raises `SpecError`, which lists the valid ones."""
    if name not in _SCORERS:
        raise SpecError(f"no scorer is called {name!r}: choose from {', '.join(scorer_names())}")
    return _SCORERS[name]
