"""What a scorer's name says of how programs are run: `code_exec@10s,allow`.

Time and import policy change verdicts, so they stand in the name, which is part of a run's
identity: every worker of the run, a later `farm verify` and a reader of the report have them.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from farm.errors import SpecError

FAMILY: Final = "code_exec"
DEFAULT_TIMEOUT_S: Final = 3.0
LONGEST_TIMEOUT_S: Final = 30.0
# one spelling for one rule: no leading or trailing zeros
_WRITTEN = re.compile(
    r"(?:(?P<seconds>(?:0|[1-9][0-9]?)(?:\.[0-9]{0,2}[1-9])?)s)?(?P<allow>,?allow)?"
)


class ProgramRules(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for a program and all its assertions, and the import policy."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    imports: Literal["deny", "allow"] = "deny"


def rules_of(name: str) -> ProgramRules:
    """Return what a scorer's name says; the defaults where it says nothing.

    Raises SpecError for a name that begins like `code_exec@` and cannot be read, names the
    default, or asks for more than 30 s.
    """
    family, at, written = name.partition("@")
    if family != FAMILY or not at:
        return ProgramRules()
    found = _WRITTEN.fullmatch(written)
    seconds = found["seconds"] if found else None
    allow = found["allow"] if found else None
    timeout_s = float(seconds) if seconds else DEFAULT_TIMEOUT_S
    in_order = allow is None or allow.startswith(",") == (seconds is not None)
    says_nothing = not allow and (seconds is None or timeout_s == DEFAULT_TIMEOUT_S)
    if says_nothing or not in_order or not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise SpecError(
            f"metric {name!r} is no way to run programs; give seconds above 0 and up to "
            f"{LONGEST_TIMEOUT_S:g} (3 is the default and needs no saying), imports to allow, "
            "or both: code_exec@10s, code_exec@allow, code_exec@10s,allow"
        )
    return ProgramRules(timeout_s=timeout_s, imports="allow" if allow else "deny")
