"""What the environment says, read once into a frozen value; nothing else reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The variables that farm heeds."""

    log_dir: str = ""  # FARM_LOG_DIR: where each run's log goes when --log-file is not given
    no_color: bool = False  # NO_COLOR, any value: no colours, also on a terminal
    step_summary: str = ""  # GITHUB_STEP_SUMMARY: the file of a CI job's summary
    dumb: bool = False  # TERM=dumb: a terminal that understands no control sequence


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Read the environment."""
    return Environment(
        log_dir=variables.get("FARM_LOG_DIR", ""),
        step_summary=variables.get("GITHUB_STEP_SUMMARY", ""),
        no_color=bool(variables.get("NO_COLOR")),
        dumb=variables.get("TERM") == "dumb",
    )


def variables_named(
    names: Iterable[str], variables: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Give the variables of these names that are set: all that a program of a user may see."""
    return {name: variables[name] for name in names if name in variables}
