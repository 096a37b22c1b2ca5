"""What is kept of a cell: its tasks, their phases, the figures of the wave, and the verdicts.

Judging happens here, after the wave: from conversations to records, without a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from farm.core.receipt import Receipt, build_receipt
from farm.core.result import CaseResult
from farm.qualify.cells import PHASES, Cell, case_id
from farm.qualify.metrics import (
    Measured,
    aggregate_rate,
    cache_verified,
    chunk_gaps,
    client_is_late,
    measure,
    nearest_rank,
    pooled_acceptance,
)
from farm.qualify.ports import CodeVerdict
from farm.qualify.task import Conversation, Exchange, code_in, total_in, wrong_call
from farm.qualify.workload import WINDOW, Fixture, private_record

SCHEMA = 1
# The model's own doing: the answer is whole, its times stand, the task fails.
_WHOLE = frozenset({"ok", "empty", "no_visible_output"})


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: what was asked (by digest), what came back, its figures."""

    request_sha256: str
    request_bytes: int
    began_s: float  # since the wave began
    ended_s: float
    correct: bool | None  # None where a phase has nothing to be right about
    text: str
    reasoning: str
    tool_calls: tuple[Mapping[str, str], ...]
    metrics: Measured


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a cell; `context_verified` and `cache_verified` are None when not told."""

    stream: int
    request_id: str
    case_id: str
    fixture_tokens: int | None
    success: bool
    tool_correct: bool
    tool_problem: str
    total_correct: bool | None
    recalculated_correct: bool | None
    code_evaluated: bool
    code_passed: bool | None
    code_reason: str | None
    code_detail: str
    code_isolation: str
    context_verified: bool | None
    cache_verified: bool | None
    measurement_valid: bool
    measurement_reasons: tuple[str, ...]
    phases: dict[str, PhaseRecord]
    skipped: dict[str, str]


class CellRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of results.jsonl. Times in seconds, rates in tokens a second."""

    schema_version: int = SCHEMA
    cell: int
    shard: str
    version: int
    context: int
    concurrency: int
    repeat: int
    cache: str
    began_unix: float
    wave_wall_s: float
    tasks_succeeded: int
    tasks_total: int
    success: bool
    measurement_valid: bool
    measurement_reasons: tuple[str, ...]
    cache_verified: bool | None
    context_verified: bool | None
    completion_tokens: int | None  # of all requests of the wave
    aggregate_tokens_s: float | None
    goodput_tokens_s: float | None  # of successful tasks alone
    draft_acceptance: float | None  # pooled over the requests that tell
    draft_requests: int
    draft_silent_requests: int
    chunk_gap_p50_s: float | None  # pooled over all requests of the wave
    chunk_gap_p95_s: float | None
    client_lag_p99_s: float | None
    client_lag_max_s: float | None
    tasks: tuple[TaskRecord, ...]
    prime: tuple[PhaseRecord, ...]  # outside the wave and its wall time
    preflight: Mapping[str, Any]


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """What a wave brought, before it is judged."""

    began_unix: float
    wall_s: float
    conversations: tuple[Conversation, ...]
    prime: tuple[Exchange, ...]
    lag_p99_s: float | None
    lag_max_s: float | None
    lease_held: bool  # to the wave's end


def program_of(conversation: Conversation) -> str | None:
    """Return the program a task's model wrote; None when there is no whole answer."""
    exchange = _phase(conversation, "code_holdout")
    if exchange is None or exchange.served.reading.status != "ok":
        return None
    return code_in(exchange.served.reading.text)


def record_cell(
    cell: Cell,
    wave: Wave,
    *,
    version: int,
    fixtures: Sequence[Fixture],
    verdicts: Sequence[CodeVerdict | None],
    preflight: Mapping[str, Any],
) -> CellRecord:
    """Judge a wave; `fixtures` and `verdicts` are in the order of its conversations.

    Longer than other functions: half of it is one line a field of the record.
    """
    exchanges = [one for talk in wave.conversations for one in talk.exchanges]
    gaps = [gap for one in exchanges for gap in chunk_gaps(one.served.reading)[0]]
    gap_p50 = nearest_rank(gaps, 50)
    shared: list[str] = []
    if client_is_late(wave.lag_p99_s, gap_p50):
        shared.append("client_lag")
    if not wave.lease_held:
        shared.append("lease_expired")
    tasks = tuple(
        _record_task(stream, cell, talk, fixture, verdict, shared)
        for stream, (talk, fixture, verdict) in enumerate(
            zip(wave.conversations, fixtures, verdicts, strict=True)
        )
    )
    prime = tuple(_record_phase(one, correct=None) for one in wave.prime)
    reasons = _reasons(tasks, prime)
    tokens = [_completion(one) for one in exchanges]
    won = [
        _completion(one)
        for talk, task in zip(wave.conversations, tasks, strict=True)
        if task.success
        for one in talk.exchanges
    ]
    acceptance, told, silent = pooled_acceptance(one.served.timings for one in exchanges)
    return CellRecord(
        cell=cell.index,
        shard=cell.shard,
        version=version,
        context=cell.context,
        concurrency=cell.concurrency,
        repeat=cell.repeat,
        cache=cell.cache,
        began_unix=wave.began_unix,
        wave_wall_s=wave.wall_s,
        tasks_succeeded=sum(task.success for task in tasks),
        tasks_total=len(tasks),
        success=all(task.success for task in tasks),
        measurement_valid=not reasons,
        measurement_reasons=reasons,
        cache_verified=_all_of([task.cache_verified for task in tasks]),
        context_verified=_all_of([task.context_verified for task in tasks]),
        completion_tokens=None if None in tokens else sum(n for n in tokens if n is not None),
        aggregate_tokens_s=aggregate_rate(tokens, wave.wall_s),
        goodput_tokens_s=aggregate_rate(won, wave.wall_s),
        draft_acceptance=acceptance,
        draft_requests=told,
        draft_silent_requests=silent,
        chunk_gap_p50_s=gap_p50,
        chunk_gap_p95_s=nearest_rank(gaps, 95),
        client_lag_p99_s=wave.lag_p99_s,
        client_lag_max_s=wave.lag_max_s,
        tasks=tasks,
        prime=prime,
        preflight=preflight,
    )


def _reasons(tasks: Sequence[TaskRecord], prime: Sequence[PhaseRecord]) -> tuple[str, ...]:
    """Return why a cell's measurement is not valid, each reason once."""
    found = [reason for task in tasks for reason in task.measurement_reasons]
    found += [f"prime_{one.metrics.status}" for one in prime if one.metrics.status not in _WHOLE]
    return tuple(dict.fromkeys(found))


def results_of(record: CellRecord) -> list[CaseResult]:
    """Return the tasks of a cell as verdicts for its receipt."""
    return [
        CaseResult(
            id=task.case_id,
            correct=task.success,
            score=1.0 if task.success else 0.0,
            outcome=_outcome(task),
        )
        for task in record.tasks
    ]


def receipt_of(record: CellRecord, line: bytes, *, worker_pid: int) -> Receipt:
    """Return the receipt of a cell whose record is `line`; it holds the record's digest."""
    return build_receipt(
        results_of(record), worker_pid=worker_pid, evidence_sha256=sha256(line).hexdigest()
    )


def _record_task(
    stream: int,
    cell: Cell,
    talk: Conversation,
    fixture: Fixture,
    verdict: CodeVerdict | None,
    shared: Sequence[str],
) -> TaskRecord:
    record = private_record(talk.request_id)
    initial = _phase(talk, "initial")
    if initial is None:
        raise ValueError(f"task {talk.request_id} was not asked anything")
    problem = wrong_call(initial.served)
    total = _is_total(_phase(talk, "appended_tool_turn"), record.total)
    again = _is_total(_phase(talk, "client_compaction"), record.changed_total)
    passed = None if verdict is None else verdict.passed
    figures = measure(initial.served)
    context = _context_verified(figures.prompt_tokens, fixture.tokens)
    cached = cache_verified(cell.cache, cached=figures.cached_tokens, prompt=figures.prompt_tokens)
    reasons = [
        f"{one.phase}_{one.served.reading.status}"
        for one in talk.exchanges
        if one.served.reading.status not in _WHOLE
    ]
    if context is not True:
        reasons.append("context_unverified" if context is None else "context_mismatch")
    if cached is False:
        reasons.append(f"cache_not_{cell.cache}")
    reasons += shared
    right = {
        "initial": not problem,
        "appended_tool_turn": total,
        "client_compaction": again,
        "code_holdout": passed,
    }
    return TaskRecord(
        stream=stream,
        request_id=talk.request_id,
        case_id=case_id(talk.request_id, cell),
        fixture_tokens=fixture.tokens,
        success=all(right[phase] is True for phase in PHASES) and context is True,
        tool_correct=not problem,
        tool_problem=problem,
        total_correct=total,
        recalculated_correct=again,
        code_evaluated=verdict is not None and verdict.evaluated,
        code_passed=passed,
        code_reason="no_answer" if verdict is None else verdict.reason,
        code_detail="" if verdict is None else verdict.detail,
        code_isolation="" if verdict is None else verdict.isolation,
        context_verified=context,
        cache_verified=cached,
        measurement_valid=not reasons,
        measurement_reasons=tuple(reasons),
        phases={one.phase: _record_phase(one, correct=right[one.phase]) for one in talk.exchanges},
        skipped=talk.skipped,
    )


def _record_phase(exchange: Exchange, *, correct: bool | None) -> PhaseRecord:
    reading = exchange.served.reading
    return PhaseRecord(
        request_sha256=exchange.request_sha256,
        request_bytes=exchange.request_bytes,
        began_s=exchange.began_s,
        ended_s=exchange.ended_s,
        correct=correct,
        text=reading.text,
        reasoning=reading.reasoning,
        tool_calls=tuple(
            {"name": call.name, "arguments": call.arguments} for call in reading.tool_calls
        ),
        metrics=measure(exchange.served),
    )


def _phase(talk: Conversation, phase: str) -> Exchange | None:
    return next((one for one in talk.exchanges if one.phase == phase), None)


def _is_total(exchange: Exchange | None, total: int) -> bool | None:
    if exchange is None:
        return None
    reading = exchange.served.reading
    return reading.status == "ok" and total_in(reading.text) == total


def _context_verified(prompt: int | None, counted: int | None) -> bool | None:
    if prompt is None or counted is None:
        return None
    return abs(prompt - counted) <= WINDOW


def _completion(exchange: Exchange) -> int | None:
    counted = exchange.served.reading.usage
    return None if counted is None else counted.completion_tokens


def _all_of(found: Sequence[bool | None]) -> bool | None:
    """Return False if any is False, else None if any is not known, else True."""
    if False in found:
        return False
    return None if None in found else True


def _outcome(task: TaskRecord) -> str:
    if task.success:
        return "correct"
    statuses = {phase.metrics.status for phase in task.phases.values()}
    return "error" if statuses - _WHOLE else "wrong"
