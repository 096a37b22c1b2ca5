"""A wave is judged from what it brought: reasons, verdicts and totals, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from farm.core.generation import ToolCall, Usage
from farm.core.reading import Reading, Timing
from farm.core.served import Served
from farm.qualify.cells import Cell
from farm.qualify.ports import CodeVerdict
from farm.qualify.records import CellRecord, Wave, program_of, record_cell, results_of
from farm.qualify.run import no_measurement
from farm.qualify.task import Conversation, Exchange, code_in, total_in
from farm.qualify.workload import Fixture, private_record

ID = "0123456789abcdef"
RECORD = private_record(ID)
CELL = Cell(index=0, context=512, concurrency=1, repeat=0, cache="cold")
FIXTURE = Fixture(
    request_id=ID, target=512, mode="equal_tokens", records=1, filler=0, tokens=520,
    archive_sha256="", messages=(),
)  # fmt: skip
PASSED = CodeVerdict(evaluated=True, passed=True)


def said(phase: str, *, status: str = "ok", tokens: int | None = 10, **reading: Any) -> Exchange:
    usage = Usage(prompt_tokens=530, completion_tokens=tokens, cached_tokens=0)
    timing = Timing(
        payload_s=(1.0, 1.1, 1.2), payload_reads=(1, 2, 3), first_visible_s=1.0, elapsed_s=2.0
    )
    return Exchange(
        phase=phase,
        request_sha256="",
        request_bytes=0,
        began_s=0.0,
        ended_s=2.0,
        served=Served(
            reading=Reading(
                status=status,
                usage=None if tokens is None else usage,
                timing=timing,
                **reading,
            )
        ),
    )


CALL = ToolCall(name="read_record", arguments='{"key": "sku-73"}')
RIGHT = (
    said("initial", tool_calls=(CALL,)),
    said("appended_tool_turn", text=f"TOTAL_CENTS={RECORD.total}"),
    said("client_compaction", text=f"TOTAL_CENTS={RECORD.changed_total}"),
    said("code_holdout", text="```python\npass\n```"),
)


def judged(
    exchanges: tuple[Exchange, ...] = RIGHT,
    *,
    verdict: CodeVerdict | None = PASSED,
    cell: Cell = CELL,
    **wave: Any,
) -> CellRecord:
    given: dict[str, Any] = {
        "began_unix": 0.0,
        "wall_s": 8.0,
        "conversations": (Conversation(request_id=ID, exchanges=exchanges, skipped={}),),
        "prime": (),
        "lag_p99_s": 0.001,
        "lag_max_s": 0.002,
        "lease_held": True,
    }
    return record_cell(
        cell,
        Wave(**{**given, **wave}),
        version=1,
        fixtures=[FIXTURE],
        verdicts=[verdict],
        preflight={},
    )


def with_exchange(place: int, exchange: Exchange) -> tuple[Exchange, ...]:
    return (*RIGHT[:place], exchange, *RIGHT[place + 1 :])


def test_a_right_task_is_a_success_and_its_rate_is_over_the_wall() -> None:
    """40 tokens in 8 s are 5 a second."""
    cell = judged()
    assert (cell.success, cell.measurement_valid, cell.measurement_reasons) == (True, True, ())
    assert cell.completion_tokens == 40
    assert cell.aggregate_tokens_s == cell.goodput_tokens_s == 5.0
    assert [result.outcome for result in results_of(cell)] == ["correct"]


@pytest.mark.parametrize(
    ("wave", "reason"),
    [
        ({"lag_p99_s": 0.051}, "client_lag"),  # gaps of 0.1 s allow half of that
        ({"lease_held": False}, "lease_expired"),
        ({"prime": (said("prime", status="truncated"),)}, "prime_truncated"),
    ],
)
def test_what_spoils_a_wave_spoils_its_measurement_not_its_task(
    wave: dict[str, Any], reason: str
) -> None:
    """The answers stay right."""
    cell = judged(**wave)
    assert cell.success
    assert cell.measurement_valid is False
    assert cell.measurement_reasons == (reason,)


@pytest.mark.parametrize(
    ("exchanges", "verdict"),
    [
        (with_exchange(1, said("appended_tool_turn", text="TOTAL_CENTS=1")), PASSED),
        (with_exchange(1, said("appended_tool_turn", status="empty")), PASSED),
        (with_exchange(2, said("client_compaction", text=str(RECORD.total))), PASSED),
        (RIGHT, CodeVerdict(evaluated=True, passed=False)),
        (RIGHT, CodeVerdict(evaluated=False, passed=None, reason="restricted_syntax")),
    ],
)
def test_a_wrong_answer_fails_the_task_and_measures_all_the_same(
    exchanges: tuple[Exchange, ...], verdict: CodeVerdict
) -> None:
    """The server did its work; the model did not."""
    cell = judged(exchanges, verdict=verdict)
    assert cell.success is False
    assert cell.measurement_valid is True
    assert cell.goodput_tokens_s == 0.0
    assert [result.outcome for result in results_of(cell)] == ["wrong"]


def test_code_outside_the_language_is_not_a_wrong_answer() -> None:
    """`code_evaluated` false, `code_passed` null."""
    verdict = CodeVerdict(evaluated=False, passed=None, reason="restricted_syntax")
    (task,) = judged(verdict=verdict).tasks
    assert (task.code_evaluated, task.code_passed) == (False, None)
    assert task.code_reason == "restricted_syntax"


def test_an_unknown_count_is_null_in_the_totals() -> None:
    """One request without usage: no aggregate, and the others keep theirs."""
    cell = judged(with_exchange(3, said("code_holdout", tokens=None, text="x")))
    assert cell.completion_tokens is None
    assert cell.aggregate_tokens_s is None
    (task,) = cell.tasks
    assert task.phases["initial"].metrics.end_to_end_tokens_s == 5.0


def test_a_record_survives_its_wire_form() -> None:
    """results.jsonl is read back as it was written."""
    cell = judged()
    assert msgspec.json.decode(msgspec.json.encode(cell), type=CellRecord) == cell


def wave_of(exchanges: Sequence[Exchange]) -> Wave:
    talk = Conversation(request_id=ID, exchanges=tuple(exchanges), skipped={})
    return Wave(
        began_unix=0, wall_s=1, conversations=(talk,), prime=(), lag_p99_s=None,
        lag_max_s=None, lease_held=True,
    )  # fmt: skip


def refused(one: Exchange, code: str, http_status: int | None = None) -> Exchange:
    failed = said(one.phase, status="error", tokens=None, error_code=code, error="no")
    served = msgspec.structs.replace(failed.served, http_status=http_status)
    return msgspec.structs.replace(failed, served=served)


def test_a_wave_that_met_no_server_is_no_result() -> None:
    """Every request lost its connection; one that was answered makes it a result."""
    lost = [refused(one, "connection") for one in RIGHT]
    assert "start the server" in no_measurement(wave_of(lost))
    assert no_measurement(wave_of([*lost[:3], RIGHT[3]])) == ""


@pytest.mark.parametrize(
    ("status", "let_in"),
    [(401, False), (403, False), (404, False), (503, False), (400, True), (429, True), (500, True)],
)
def test_a_wave_that_was_not_let_in_is_no_result(status: int, let_in: bool) -> None:
    """A wrong key, model or address, a server still loading: nothing of it is the cell's doing."""
    all_refused = [refused(one, str(status), status) for one in RIGHT]
    why = no_measurement(wave_of(all_refused))
    assert (why == "") is let_in
    if not let_in:
        assert f"HTTP {status} ('no')" in why
    assert no_measurement(wave_of([*all_refused[:3], RIGHT[3]])) == ""


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("TOTAL_CENTS=1540", 1540),
        ("TOTAL_CENTS = 1,540.", 1540),
        ("220 * 7 is\n**TOTAL_CENTS: 1540**", 1540),
        ("TOTAL_CENTS=1 no, TOTAL_CENTS=2, 7 items", 2),
        ("It is 1540 cents", 1540),
        ("none", None),
        ("9" * 5000, None),
    ],
)
def test_the_total_of_an_answer_is_the_one_it_ends_with(text: str, total: int | None) -> None:
    """The named total goes before any other number."""
    assert total_in(text) == total


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(): pass", "def f(): pass\n"),
        ("Here:\n```python\ndef f(): pass\n```\nDone", "def f(): pass\n"),
        ("```\none\n```\n```py\ntwo\n```", "two\n"),
        ("```python\ncut off", "cut off\n"),
    ],
)
def test_the_program_of_an_answer_is_its_last_block(text: str, code: str) -> None:
    """A block that was cut by the limit still counts."""
    assert code_in(text) == code
    talk = Conversation(request_id=ID, exchanges=(said("code_holdout", text=text),), skipped={})
    assert program_of(talk) == code
