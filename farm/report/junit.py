"""The report as JUnit XML, which every CI system reads.

A wrong answer is a failure, and so is a program that ran out of time; a case that could not be
judged is an error, one that is unscorable or not judged yet is skipped. Characters XML cannot
hold are replaced, so that no model output breaks the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from farm.core.result import PENDING, UNSCORABLE
from farm.stats.evalrun import EvalRun

# what XML 1.0 allows is tab, line feed, carriage return and these ranges; lone surrogates are not
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SKIPPED = frozenset({UNSCORABLE, PENDING})
_ERRORS = frozenset({"error"})
_MESSAGE_CUT = 200


class JunitCase(Struct, frozen=True, kw_only=True):
    """One test of a suite.

    `outcome` is one of the outcomes of a case, or "failed" for a check that did not hold.
    """

    name: str
    classname: str
    outcome: str
    message: str = ""
    detail: str = ""
    seconds: float | None = None


class JunitSuite(Struct, frozen=True, kw_only=True):
    """A named group of tests; `properties` stand at its head."""

    name: str
    cases: Sequence[JunitCase]
    properties: tuple[tuple[str, str], ...] = ()


def suites_of(runs: Iterable[EvalRun]) -> tuple[JunitSuite, ...]:
    """Return one suite a model, its trials as tests, sorted."""
    by_model: dict[str, list[EvalRun]] = {}
    for run in sorted(runs, key=lambda run: (run.model_id, run.task_id, run.sample)):
        by_model.setdefault(run.model_id, []).append(run)
    return tuple(
        JunitSuite(name=model, cases=[_case(run) for run in own]) for model, own in by_model.items()
    )


def render_junit(suites: Iterable[JunitSuite], *, name: str = "farm") -> str:
    """Return the XML document."""
    bodies = [_suite(suite) for suite in suites]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites name={_attribute(name)}>",
            *bodies,
            "</testsuites>",
            "",
        ]
    )


def _case(run: EvalRun) -> JunitCase:
    score = "no score" if run.score is None else f"score {float(run.score):.6g}"
    judged = f"{run.metric_name or 'metric'} {score}"
    cause = str(run.metadata.get("error", ""))
    if not cause and run.metadata.get("finish_reason"):
        cause = f"finish reason {run.metadata['finish_reason']!r}"
    return JunitCase(
        name=f"{run.task_id}#{run.sample}",
        classname=run.category or run.model_id,
        outcome=run.ended,
        message=f"{run.ended}: " + (f"{cause}; {judged}" if cause else judged),
        detail=cause,
        seconds=run.latency_s,
    )


def _suite(suite: JunitSuite) -> str:
    outcomes = [case.outcome for case in suite.cases]
    errors = sum(outcome in _ERRORS for outcome in outcomes)
    skipped = sum(outcome in _SKIPPED for outcome in outcomes)
    failures = len(outcomes) - outcomes.count("correct") - errors - skipped
    lines = [
        f'  <testsuite name={_attribute(suite.name)} tests="{len(outcomes)}" '
        f'failures="{failures}" errors="{errors}" skipped="{skipped}">'
    ]
    if suite.properties:
        lines.append("    <properties>")
        lines += [
            f"      <property name={_attribute(key)} value={_attribute(value)}/>"
            for key, value in suite.properties
        ]
        lines.append("    </properties>")
    lines += [_test(case) for case in suite.cases]
    return "\n".join([*lines, "  </testsuite>"])


def _test(case: JunitCase) -> str:
    seconds = "" if case.seconds is None else f' time="{case.seconds:.3f}"'
    head = (
        f"    <testcase classname={_attribute(case.classname)} "
        f"name={_attribute(case.name)}{seconds}"
    )
    if case.outcome == "correct":
        return head + "/>"
    if case.outcome in _SKIPPED:
        inner = f"<skipped message={_attribute(case.message[:_MESSAGE_CUT])}/>"
    else:
        kind = "error" if case.outcome in _ERRORS else "failure"
        inner = (
            f"<{kind} type={_attribute(case.outcome)} "
            f"message={_attribute(case.message[:_MESSAGE_CUT])}>"
            f"{escape(_legal(case.detail))}</{kind}>"
        )
    return f"{head}>{inner}</testcase>"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _attribute(text: str) -> str:
    return quoteattr(_legal(text))
