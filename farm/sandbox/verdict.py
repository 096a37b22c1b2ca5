"""What became of a program: the values a caller gets, and the rule that makes them.

Pure: the tester's lines and the zygote's account of the ending go in, a `CandidateResult` comes
out. Only the tester's lines can make an assertion pass; everything else can only take away.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from farm.sandbox.limits import OUTPUT_BYTES

Outcome = Literal["pass", "assertion_fail", "syntax_error", "timeout", "error"]
AssertionOutcome = Literal["pass", "assertion_fail", "error", "not_reached"]
# As in `farm.core.isolation`, the weakest first.
LEVELS = ("advisory", "partial", "seatbelt", "os-enforced", "os-enforced+ns")
_EVALUATING = re.compile(
    r"\b(?:eval|exec|eval_str|__import__|pickle|cPickle|dill|cloudpickle|marshal|shelve|yaml"
    r"|importlib|runpy|doctest|timeit|get_type_hints|ForwardRef)\b|(?<![.\w])compile\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionResult:
    """One assertion: how it ended and, unless it passed, why."""

    outcome: AssertionOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What stood between a program and the machine; the fields of `farm.core.isolation`.

    A value of its own, since a sandbox must start where nothing but Python is installed.
    """

    level: str
    landlock_abi: int
    seccomp: bool
    namespaces: bool
    grading: str = "split"
    trust: tuple[str, ...] = ()

    def reaches(self, level: str) -> bool:
        """Say whether this isolation is `level` or better."""
        return LEVELS.index(self.level) >= LEVELS.index(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateResult:
    """The verdict on one program.

    `score` is `passed / total`; assertions that were not reached count as failed. `outcome` is
    "pass" only when all passed. `starved` says the program waited for a processor so long that
    its deadline was moved: a timeout that is also starved says little about the program, unless
    it is `spent`: then the program had its time on processors all the same.
    `output` is what the program printed, up to the cap, undecodable bytes escaped.
    """

    outcome: Outcome
    score: float
    passed: int
    total: int
    assertions: tuple[AssertionResult, ...]
    detail: str
    isolation: Isolation
    starved: bool = False
    spent: bool = False
    output: str = ""
    cpu_ms: float = 0.0
    wall_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The zygote's and the runner's account of how a job ended."""

    timeout: bool = False
    over_output: bool = False
    over_quota: bool = False
    starved: bool = False
    spent: bool = False
    signal: int = 0
    tester_signal: int = 0
    cpu_ms: float = 0.0
    wall_ms: float = 0.0


def evaluates(assertions: Sequence[str]) -> bool:
    """Say whether assertions may run, as code of theirs, text or bytes that a program gave them.

    What a program can do in the process that judges it then is anything; told from the texts
    alone, so no program can hide it.
    """
    return any(map(_EVALUATING.search, assertions))


def decide(
    lines: Sequence[Mapping[str, Any]],
    account: Account,
    *,
    total: int,
    isolation: Isolation,
    output: str = "",
    evaluating: bool = False,
) -> CandidateResult:
    """Return the verdict that a tester's `lines` and the `account` add up to.

    `evaluating` is what `evaluates` says of the assertions.
    """
    loading = next((line for line in lines if "load" in line), {})
    judged = {line["i"]: line for line in lines if "i" in line}
    results = tuple(_one(judged.get(index)) for index in range(total))
    passed = sum(result.outcome == "pass" for result in results)
    ended = any("end" in line for line in lines)
    outcome, detail = _sum_up(loading, results, account, ended=ended)
    told = {name for line in judged.values() for name in line["trust"]}
    trust = sorted(told | ({"remote_code"} if evaluating and judged else set()))
    return CandidateResult(
        outcome=outcome,
        score=passed / total,
        passed=passed,
        total=total,
        assertions=results,
        detail=detail,
        isolation=replace(
            isolation,
            grading="in_process" if "in_process" in trust else isolation.grading,
            trust=tuple(trust),
        ),
        starved=account.starved,
        spent=account.spent,
        output=output,
        cpu_ms=account.cpu_ms,
        wall_ms=account.wall_ms,
    )


def _one(line: Mapping[str, Any] | None) -> AssertionResult:
    if line is None:
        return AssertionResult(outcome="not_reached")
    return AssertionResult(outcome=line["r"], detail=printable(line["why"]))


def _sum_up(
    loading: Mapping[str, Any],
    results: Sequence[AssertionResult],
    account: Account,
    *,
    ended: bool,
) -> tuple[Outcome, str]:
    if account.over_output:
        return "error", f"output_limit: the program printed more than {OUTPUT_BYTES >> 10} KiB"
    if account.over_quota:
        return "error", "scratch_limit: the program filled its scratch directory"
    if account.timeout or account.signal == signal.SIGXCPU:
        return "timeout", _why_timeout(account)
    if loading.get("load") == "syntax_error":
        return "syntax_error", printable(loading["why"])
    if loading.get("load") == "error":
        return "error", printable(loading["why"]) + _why_dead(account)
    if not ended:
        by = f", by signal {account.tester_signal}" if account.tester_signal else ""
        return "error", f"the tester ended before it was done{by}{_why_dead(account)}"
    for kind in ("error", "assertion_fail"):
        for index, result in enumerate(results):
            if result.outcome == kind:
                return kind, f"assertion {index + 1}: {result.detail or 'failed'}" + (
                    _why_dead(account) if kind == "error" else ""
                )
    if any(result.outcome != "pass" for result in results):
        return "error", "the tester did not reach every assertion"
    return "pass", ""


def _why_timeout(account: Account) -> str:
    used = f"after {account.wall_ms / 1000:.1f} s, {account.cpu_ms / 1000:.1f} s of them on a core"
    starved = (
        "; the machine was busy, run it again when it is not"
        if account.starved and not account.spent
        else ""
    )
    return f"out of time {used}{starved}"


def _why_dead(account: Account) -> str:
    if account.signal in (0, signal.SIGKILL):  # every program is ended by SIGKILL when done
        return ""
    return f" (ended by signal {account.signal})"


def printable(text: str) -> str:
    """Return text that any encoder takes: lone surrogates and control characters escaped."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in safe)
