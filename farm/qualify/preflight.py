"""May this cell be measured now: lease, nodes, devices, and room in the slots.

Looked at before the first cell and before every other; a refusal is no result, the cell stays
open and the same command goes on when the reason is gone. The devices' lock is held by the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from farm.errors import NotPermitted
from farm.qualify.cells import Cell
from farm.qualify.config import TOOL_TURN_TOKENS, Config
from farm.qualify.devicelease import DeviceLease, check_device_lease
from farm.qualify.hooks import Hooks
from farm.qualify.ports import Endpoint


class SlotRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What the server tells of its slots; None where it does not tell."""

    slots: int | None
    context_per_slot: int | None
    source: str  # "props", "total_context", "declared"
    shared_context: int | None = None  # what slots share that each report it as their own


async def preflight(
    cell: Cell,
    *,
    config: Config,
    lease: DeviceLease,
    hooks: Hooks,
    endpoint: Endpoint,
    now: float,
) -> Mapping[str, Any]:
    """Check everything, in the order of cost; raises `NotPermitted`, else gives what was seen."""
    check_device_lease(lease, nodes=config.nodes, now=now)
    nodes = await hooks.check_resources()
    room = await slot_room(endpoint, config=config)
    check_room(cell.context, cell=cell, config=config, room=room)
    await hooks.wait_until_idle()
    return {
        "checked_unix": now,
        "lease_expires_unix": lease.expires_unix,
        "nodes": nodes,
        "slots": msgspec.to_builtins(room),
    }


async def slot_room(endpoint: Endpoint, *, config: Config) -> SlotRoom:
    """Find out how much context each slot has; servers without slots are taken at their word."""
    props = await endpoint.control("GET", "/props", timeout_s=config.hook_timeout_s)
    if props.status == 0:
        raise NotPermitted(
            f"{config.url}: no answer ({props.text}): start the server, "
            "then run the same command again"
        )
    listed: list[int] = []
    slots: int | None = None
    body = props.body if props.status == 200 and isinstance(props.body, dict) else {}
    slots = _count(body.get("total_slots"))
    settings = body.get("default_generation_settings")
    per_slot = _count(settings.get("n_ctx")) if isinstance(settings, dict) else None
    source = "props"
    if body:
        reply = await endpoint.control("GET", "/slots", timeout_s=config.hook_timeout_s)
        found = reply.body if reply.status == 200 and isinstance(reply.body, list) else []
        contexts = [_count(one.get("n_ctx")) for one in found if isinstance(one, dict)]
        listed = [context for context in contexts if context is not None]
        slots = slots or len(found) or None
    known = [context for context in (per_slot, *listed) if context is not None]
    if known:
        return SlotRoom(
            slots=slots,
            context_per_slot=min(known),
            source=source,
            shared_context=config.total_context,
        )
    total = config.total_context or _count(body.get("n_ctx"))
    if total is None:
        return SlotRoom(slots=slots, context_per_slot=None, source="declared")
    # what all slots share is divided among them, or among those that will work at a time
    per_slot = total // (slots or max(config.concurrency))
    return SlotRoom(slots=slots, context_per_slot=per_slot, source="total_context")


def check_room(tokens: int, *, cell: Cell, config: Config, room: SlotRoom) -> None:
    """Refuse a cell whose requests do not fit the slots: input, output and the tool turn."""
    needed = tokens + config.max_tokens + TOOL_TURN_TOKENS
    parts = f"{tokens} input, {config.max_tokens} output and {TOOL_TURN_TOKENS} for the tool turn"
    if room.slots is not None and room.slots < cell.concurrency:
        raise NotPermitted(
            f"{cell.label}: the server has {room.slots} slots: "
            f"start it with at least {cell.concurrency}"
        )
    if config.max_context_per_request < needed:
        raise NotPermitted(
            f"{cell.label}: {parts} are {needed} tokens, max_context_per_request is "
            f"{config.max_context_per_request}: leave this context out or give the server more"
        )
    if room.shared_context is not None and room.shared_context < needed * cell.concurrency:
        raise NotPermitted(
            f"{cell.label}: {parts} are {needed} tokens, {cell.concurrency} at once share "
            f"{room.shared_context} (total_context): start the server with more"
        )
    if room.context_per_slot is not None and room.context_per_slot < needed:
        raise NotPermitted(
            f"{cell.label}: {parts} are {needed} tokens, each slot has {room.context_per_slot} "
            f"({room.source}): total context must cover every slot, start the server with more"
        )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
