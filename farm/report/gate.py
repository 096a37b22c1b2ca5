"""May this run pass? A decision with its reasons, for a CI job that fails only when it should.

A regression needs evidence: a paired test at 0.05 against the baseline, or an absolute threshold
that somebody wrote down. A run that passes only because it is small says so, and one that passes
only because cases have no score does not pass.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from farm.errors import UsageError
from farm.report.compare import NO_SPREAD, Comparison, compare_runs
from farm.report.junit import JunitCase, JunitSuite
from farm.report.side import RunSide, figures_of
from farm.report.text import (
    chance,
    count,
    exact,
    markdown,
    share,
    share_apart,
    signed,
    signed_apart,
    signed_span,
    span,
    unmarked,
)
from farm.stats.intervals import Interval
from farm.stats.means import mean_interval

_ROUNDING = 1e-12  # what a last bit may add to a mean, so that it seems past a threshold
_TOO_LOW, _REGRESSED = "accuracy", "regression"  # how the reasons begin
EXIT_CODES = {"passed": 0, "regression": 5, "incomplete": 6}


class GateResult(Struct, frozen=True, kw_only=True):
    """The verdict, its reasons, and what it rests on.

    `accuracy` and `interval` are of the run, over its `n` scored cases, of which tasks weigh the
    same; `lowest` and `highest` are what the accuracy over all its cases could become were the
    `unscored` ones all wrong or all right: the figures of `farm run` and `farm report`.
    `underpowered`: it passed, but a worse model could have passed too with this few cases.
    `exit_code` is what the command ends with.
    """

    schema_version: int = 1
    verdict: Literal["passed", "regression", "incomplete"]
    exit_code: int
    reasons: tuple[str, ...]
    underpowered: bool
    n: int
    unscored: int = 0
    accuracy: float | None
    lowest: float | None = None
    highest: float | None = None
    interval: Interval
    detectable: float | None
    comparison: Comparison | None
    signature: str  # how accuracy and interval were made


def decide_gate(
    run: RunSide,
    *,
    baseline: RunSide | None = None,
    min_accuracy: float | None = None,
    max_regression: float | None = None,
    common: bool = False,
) -> GateResult:
    """Judge a run by the thresholds given, and against a baseline when there is one.

    An incomplete run or baseline, or one without a scored case, is "incomplete", whatever its
    figures. So is a run that passes, but would not were each of its cases without a score wrong.
    With `max_regression` a larger drop fails and a smaller one passes, also a significant one;
    without it a significant drop fails.
    """
    check_thresholds(min_accuracy, max_regression, baselined=baseline is not None)
    comparison = None if baseline is None else compare_runs(baseline, run, common=common)
    figures = figures_of(run)
    accuracy = None if figures is None else figures.accuracy
    interval = mean_interval([]) if figures is None else figures.accuracy_interval
    scored = sum(judged.score is not None for judged in run.cases.values())
    unscored = run.planned - scored
    missing = _incomplete(run, baseline, comparison)
    reasons = missing or [
        *_too_low(accuracy, interval, min_accuracy, n=scored),
        *_regressed(comparison, max_regression),
    ]
    if not reasons and unscored:
        reasons = missing = _hidden(
            run, baseline, least=min_accuracy, allowed=max_regression, common=common
        )
    verdict: Literal["passed", "regression", "incomplete"] = "passed"
    if reasons:
        verdict = "incomplete" if missing else "regression"
    return GateResult(
        verdict=verdict,
        exit_code=EXIT_CODES[verdict],
        reasons=tuple(reasons),
        underpowered=verdict == "passed"
        and (_could_be_lower(interval, min_accuracy) or _could_hide(comparison, max_regression)),
        n=scored,
        unscored=unscored,
        accuracy=accuracy,
        lowest=None if figures is None else figures.lowest,
        highest=None if figures is None else figures.highest,
        interval=interval,
        detectable=None if comparison is None else comparison.detectable,
        comparison=comparison,
        signature=(
            f"metric:{run.scorer}|post:{run.post_process}|n:{scored}|missing:{unscored}"
            f"|ci:{interval.method}|level:{interval.level:g}|seed:none"
        ),
    )


def render_gate_json(result: GateResult) -> bytes:
    """Encode as strict, indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def render_gate_markdown(result: GateResult) -> str:
    """Return the verdict and what it rests on, for a step summary."""
    lines = [f"**Gate: {result.verdict}**" + (" (underpowered)" if result.underpowered else ""), ""]
    lines += [f"- {markdown(reason)}" for reason in result.reasons]
    if not _says(result, _TOO_LOW):
        lines.append(f"- accuracy {share(result.accuracy)}, {_basis(result.interval, result.n)}")
    if result.unscored:
        lines.append(
            f"- {count(result.unscored, 'case')} without a score: over all cases the accuracy lies "
            f"between {share(result.lowest)} and {share(result.highest)}"
        )
    if result.interval.reason and result.n:
        lines.append(f"- no interval: {result.interval.reason}")
    if result.interval.degenerate:
        units = f"{_units(result.interval)}s"
        lines.append(f"- all {units} are equal: the interval has no width, which is not certainty")
    if result.comparison is not None:
        if not _says(result, _REGRESSED):
            lines.append(f"- {markdown(_evidence(result.comparison))}")
        if result.comparison.interval.degenerate:
            lines.append(f"- {NO_SPREAD[0].lower()}{NO_SPREAD[1:-1]}")
    if result.underpowered:
        why = "" if result.comparison is None else result.comparison.detectable_reason
        lines.append(
            "- underpowered: it passes, but a worse model could pass with this few cases"
            + (f" ({markdown(why)})" if why else "")
        )
    lines.append(f"- {markdown(result.signature)}")
    return "\n".join(lines) + "\n"


def gate_suite(result: GateResult) -> JunitSuite:
    """Return the verdict as one test of a JUnit suite."""
    outcome = {"passed": "correct", "regression": "failed", "incomplete": "error"}[result.verdict]
    return JunitSuite(
        name="farm gate",
        cases=[
            JunitCase(
                name="gate",
                classname="farm.gate",
                outcome=outcome,
                message="; ".join(result.reasons),
                detail=unmarked(render_gate_markdown(result)),  # no reader of it shows Markdown
            )
        ],
        properties=(("n", str(result.n)), ("underpowered", str(result.underpowered).lower())),
    )


def check_thresholds(
    min_accuracy: float | None, max_regression: float | None, *, baselined: bool
) -> None:
    """Refuse thresholds that cannot be judged by; raises `UsageError`, before anything is read."""
    for name, value in (("--min-accuracy", min_accuracy), ("--max-regression", max_regression)):
        if value is not None and not 0.0 <= value <= 1.0:
            raise UsageError(f"{name} {value!r} must lie between 0 and 1, such as 0.02")
    if max_regression is not None and not baselined:
        raise UsageError("--max-regression needs a --baseline to measure from")
    if min_accuracy is None and not baselined:
        raise UsageError("nothing to judge by: give --baseline, --min-accuracy, or both")


def _incomplete(run: RunSide, baseline: RunSide | None, comparison: Comparison | None) -> list[str]:
    sides = [run] if baseline is None else [run, baseline]
    reasons = [f"{side.label!r} is not complete" for side in sides if not side.complete]
    if not any(judged.score is not None for judged in run.cases.values()):
        reasons.append(f"{run.label!r} has no scored case")
    elif comparison is not None and comparison.n == 0:
        reasons.append(f"{run.label!r} and {comparison.first!r} have no scored case in common")
    return reasons


def _hidden(
    run: RunSide,
    baseline: RunSide | None,
    *,
    least: float | None,
    allowed: float | None,
    common: bool,
) -> list[str]:
    """Return why a complete run that passes would not, were all its cases without a score wrong."""
    figures = figures_of(run)
    if figures is None:
        return []
    worst = replace(
        run,
        cases={
            one: judged if judged.score is not None else replace(judged, correct=False, score=0.0)
            for one, judged in run.cases.items()
        },
    )
    lost = sum(judged.score is None for judged in run.cases.values())
    low = share(figures.lowest)
    reasons = []
    if least is not None and _below(figures.lowest, least):
        low = share_apart(figures.lowest, least)
        reasons.append(f"{_TOO_LOW} {low} is below {exact(least)}")
    if baseline is not None:
        reasons += _regressed(compare_runs(baseline, worst, common=common), allowed)
    about = (
        f"{lost:,} of {count(len(run.cases), 'case')} of {run.label!r} have no score, its accuracy "
        f"lies between {low} and {share(figures.highest)}"
    )
    return [f"{about}; were they wrong: {reason}" for reason in reasons]


def _too_low(
    accuracy: float | None, interval: Interval, least: float | None, *, n: int
) -> list[str]:
    if least is None or accuracy is None or not _below(accuracy, least):
        return []
    return [
        f"{_TOO_LOW} {share_apart(accuracy, least)} is below {exact(least)} ({_basis(interval, n)})"
    ]


def _below(accuracy: float, least: float) -> bool:
    return accuracy < least - _ROUNDING


def _basis(interval: Interval, n: int) -> str:
    """Return what an accuracy rests on: its interval, its cases, and how many units they make."""
    units = ""
    if interval.lo is not None and interval.n != n:
        units = f" in {count(interval.n, _units(interval))}"
    level = f"{interval.level * 100:g}% CI"
    return f"{level} {span(interval.lo, interval.hi)}, {count(n, 'case')}{units}"


def _units(interval: Interval) -> str:
    return "cluster" if "cluster" in interval.method else "task"


def _regressed(comparison: Comparison | None, allowed: float | None) -> list[str]:
    if comparison is None or comparison.difference is None or comparison.difference >= 0.0:
        return []
    # a drop of exactly the allowed size passes, also when its last bit says otherwise
    too_far = allowed is not None and -comparison.difference > allowed + _ROUNDING
    if too_far or (allowed is None and comparison.significant):
        limit = "" if allowed is None else f", more than the allowed {exact(allowed)}"
        return [f"{_REGRESSED}{limit}: {_evidence(comparison, allowed=allowed)}"]
    return []


def _says(result: GateResult, what: str) -> bool:
    return any(reason.startswith(what) for reason in result.reasons)


def _could_be_lower(interval: Interval, least: float | None) -> bool:
    if least is None:
        return False
    # no interval, or one without width, rules nothing out
    return interval.lo is None or interval.degenerate or interval.lo < least


def _could_hide(comparison: Comparison | None, allowed: float | None) -> bool:
    """Tell whether a worse model could have passed: this many cases show no drop that matters.

    That is any at all, the one that was seen, or one that is more than allowed.
    """
    if comparison is None or comparison.significant:
        return False
    if comparison.detectable is None:
        return True
    if allowed is not None:
        low = comparison.interval.lo
        if low is None or comparison.interval.degenerate:
            return comparison.detectable > allowed
        return -low > allowed
    seen = max(0.0, -(comparison.difference or 0.0))
    return seen > 0.0 and comparison.detectable > seen


def _evidence(comparison: Comparison, *, allowed: float | None = None) -> str:
    """Say what a comparison found; a drop that is more than allowed shows that it is."""
    drop = comparison.difference
    return (
        f"{signed(drop) if drop is None or allowed is None else signed_apart(drop, -allowed)} "
        f"against {comparison.first!r}, "
        f"{signed_span(comparison.interval.lo, comparison.interval.hi)}, "
        f"{comparison.test.replace('_', ' ')} p {chance(comparison.p_value)}, "
        f"{count(comparison.n, comparison.unit)}, detectable {share(comparison.detectable)}"
    )
