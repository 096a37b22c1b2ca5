"""One task: the conversation, phase by phase, and what counts as right in each.

The private record comes in the tool's response alone; compaction is the client's and always the
same; code is judged after the wave, so that no validator runs while a stream is timed. A wrong
call ends the chain that needs its record; the code task is asked all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec

from farm.core.generation import ToolCall
from farm.core.served import Served
from farm.qualify.bodies import Message, assistant_turn, request_body, tool_turn
from farm.qualify.config import Config
from farm.qualify.ports import Endpoint
from farm.qualify.workload import KEY, TOOL_NAME, TOOLS, Fixture, PrivateRecord, private_record

CODE_PROMPT: Final = """Write one Python function invoice_total(rows) and nothing else.
Each row is a dict with quantity, unit_price_cents and an optional discount_percent (0 when it is
missing). A row costs quantity * unit_price_cents * (100 - discount_percent) // 100, rounded down
for each row by itself. Return the sum over all rows, 0 for no rows. Raise ValueError for a
negative quantity or price, or a discount outside 0 to 100.
Permitted: assignments, for, if, return, raise, pass, constants, names, subscripts, the call .get,
calls of ValueError and int, + - * // %, comparisons, and, or, not, "is None". No imports, no
other calls, no names that begin with _, no comprehensions."""
_TOTAL: Final = re.compile(r"TOTAL_CENTS\W{0,8}?(-?\d[\d,_]*)")
_NUMBER: Final = re.compile(r"-?\d[\d,_]*")
_FENCED: Final = re.compile(r"```[a-zA-Z0-9_+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPEN_FENCE: Final = re.compile(r"```[a-zA-Z0-9_+-]*[ \t]*\r?\n(.*)\Z", re.DOTALL)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a task and its answer; times in seconds since the wave began."""

    phase: str
    request_sha256: str
    request_bytes: int
    began_s: float
    ended_s: float
    served: Served


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """All exchanges of one task, in order; phases that were not reached are in `skipped`."""

    request_id: str
    exchanges: tuple[Exchange, ...]
    skipped: dict[str, str]  # phase -> why


async def converse(
    fixture: Fixture,
    *,
    config: Config,
    endpoint: Endpoint,
    clock: Callable[[], float],
    cold: bool,
) -> Conversation:
    """Hold a whole conversation; a failed request is an exchange like any other."""
    record = private_record(fixture.request_id)
    initial = await ask_initial(
        fixture, config=config, endpoint=endpoint, clock=clock, phase="initial", cold=cold
    )
    exchanges, skipped = [initial], {}
    why = wrong_call(initial.served)
    if why:
        skipped = {"appended_tool_turn": why, "client_compaction": why}
    else:
        assistant = assistant_turn(initial.served, initial.served.reading.tool_calls[0])
        appended = (*fixture.messages, assistant, tool_turn(assistant, _record_text(record)))
        for phase, messages, tools in (
            ("appended_tool_turn", appended, TOOLS),
            ("client_compaction", _compacted(fixture, record), ()),
        ):
            body = request_body(config, messages, tools, first=False)
            exchanges.append(
                await _exchange(
                    phase, body, fixture=fixture, config=config, endpoint=endpoint, clock=clock
                )
            )
    body = request_body(config, _code_messages(fixture), (), first=False)
    exchanges.append(
        await _exchange(
            "code_holdout", body, fixture=fixture, config=config, endpoint=endpoint, clock=clock
        )
    )
    return Conversation(request_id=fixture.request_id, exchanges=tuple(exchanges), skipped=skipped)


async def ask_initial(
    fixture: Fixture,
    *,
    config: Config,
    endpoint: Endpoint,
    clock: Callable[[], float],
    phase: str,
    cold: bool = False,
) -> Exchange:
    """Make a task's first request: as `initial`, or as `prime` with the same bytes."""
    body = request_body(config, fixture.messages, TOOLS, first=True, cold=cold)
    return await _exchange(
        phase, body, fixture=fixture, config=config, endpoint=endpoint, clock=clock
    )


def wrong_call(served: Served) -> str:
    """Say why an answer is not exactly the call that was asked for; "" when it is."""
    reading = served.reading
    if reading.status != "ok":
        return f"initial_{reading.status}"
    if not reading.tool_calls:
        return "no_tool_call"
    if len(reading.tool_calls) > 1:
        return "more_than_one_call"
    (call,) = reading.tool_calls
    if call.name != TOOL_NAME:
        return "wrong_tool"
    return "" if _arguments(call) == {"key": KEY} else "wrong_arguments"


def total_in(text: str) -> int | None:
    """Return the total an answer states: the last TOTAL_CENTS, else the last number at all."""
    found = _TOTAL.findall(text) or _NUMBER.findall(text)
    digits = found[-1].replace(",", "").replace("_", "") if found else ""
    # int() refuses thousands of digits, and no total has as many
    return int(digits) if 0 < len(digits) <= 18 else None


def code_in(text: str) -> str:
    """Return the program of an answer: its last fenced block, else the whole text."""
    blocks = _FENCED.findall(text) or _OPEN_FENCE.findall(text)
    return (blocks[-1] if blocks else text).strip() + "\n"


def _arguments(call: ToolCall) -> object:
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None


async def _exchange(
    phase: str,
    body: bytes,
    *,
    fixture: Fixture,
    config: Config,
    endpoint: Endpoint,
    clock: Callable[[], float],
) -> Exchange:
    began = clock()
    served = await endpoint.stream(
        body, protocol=config.protocol, request_id=f"{fixture.request_id}-{phase}"
    )
    return Exchange(
        phase=phase,
        request_sha256=sha256(body).hexdigest(),
        request_bytes=len(body),
        began_s=began,
        ended_s=clock(),
        served=served,
    )


def _record_text(record: PrivateRecord) -> str:
    return json.dumps(
        {
            "key": record.key,
            "unit_price_cents": record.unit_price_cents,
            "quantity": record.quantity,
        }
    )


def _compacted(fixture: Fixture, record: PrivateRecord) -> tuple[Message, ...]:
    """Make the conversation small again: the fact is kept, the archive and the turns are not."""
    return (
        {
            "role": "system",
            "content": f"{fixture.request_id}\nYou keep a shop's archive. Be exact.",
        },
        {
            "role": "user",
            "content": (
                f"Summary of the work so far: {TOOL_NAME} returned {_record_text(record)}. "
                f"The customer changed the quantity to {record.changed_quantity}; the unit price "
                "stays. Multiply unit_price_cents by the changed quantity and answer with one "
                "line: TOTAL_CENTS=<number>"
            ),
        },
    )


def _code_messages(fixture: Fixture) -> tuple[Message, ...]:
    return (
        {"role": "system", "content": f"{fixture.request_id}\nYou write exact Python."},
        {"role": "user", "content": CODE_PROMPT},
    )
