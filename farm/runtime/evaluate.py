"""A run from where it stands to its end, and what that end means for the caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from farm.core.event import Event, Note, note
from farm.core.ledger import Ledger
from farm.core.moment import moment
from farm.errors import Busy, FarmError
from farm.runtime.interrupts import Interrupts
from farm.runtime.prospects import Ending, standing
from farm.runtime.settings import RunSettings
from farm.runtime.supervisor import Supervisor
from farm.runtime.watch import Watch
from farm.store.protocol import Store

EXIT_DONE = 0
EXIT_PENDING = 1
EXIT_PARTIAL = 4
_SHOWN = 3  # shards that are named in a message


async def evaluate(
    store: Store,
    settings: RunSettings,
    *,
    on_events: Callable[[Sequence[Event]], None],
    interrupts: Interrupts | None = None,
    watch: Watch | None = None,
) -> Ending:
    """Work on a run until nothing is left that may be done; tell how it ended.

    Raises the `FarmError` that stopped it; what was published before stands.
    """
    began = time.monotonic()
    try:
        supervisor = Supervisor(
            store, settings, on_events=on_events, interrupts=interrupts, watch=watch
        )
        ending = await supervisor.run()
    except FarmError as error:
        elapsed_s = round(time.monotonic() - began, 6)
        _tell_failure(store, error, elapsed_s=elapsed_s, on_events=on_events)
        raise
    elapsed_s = round(time.monotonic() - began, 6)
    last = [last_note(store.ledger(), ending, elapsed_s=elapsed_s)]
    try:
        told = store.tell(last)
    except Busy:  # all is committed: whoever has the store locked keeps only its file from hearing
        told = store.number(last)
    on_events(told)
    return ending


def last_note(ledger: Ledger, ending: Ending, *, elapsed_s: float) -> Note:
    """Give the event that closes a run."""
    figures = {"elapsed_s": elapsed_s, **standing(ledger)}
    if ledger.complete:
        return note("run.completed", **figures)
    if ending.signal is not None:
        return note("run.interrupted", signal=ending.signal.name, **figures)
    if ledger.settled:
        quarantined = sum(lease.quarantined for lease in ledger.leases)
        return note("run.partial", quarantined=quarantined, **figures)
    return note("run.pending", reason=_why_pending(ending), **figures)


def _why_pending(ending: Ending) -> str:
    if ending.halted:
        return ending.halted
    if ending.deadline:
        return "the deadline was reached"
    if ending.returned:
        return "calls failed, and asking again may help"
    return "other owners hold leases"


def exit_code_of(ledger: Ledger, ending: Ending) -> int:
    """Give the exit code of a run: done, interrupted, partial or pending."""
    if ledger.complete:
        return EXIT_DONE
    if ending.signal is not None:
        return 128 + ending.signal
    return EXIT_PARTIAL if ledger.settled else EXIT_PENDING


def explain(
    ledger: Ledger,
    ending: Ending,
    *,
    events: Callable[[], Iterable[Event]],
    deadline_s: float,
    command: str,
) -> str:
    """Say why a run is not complete and how to go on; "" when it is complete.

    `events` gives those of the store, which know why a shard failed.
    """
    if ledger.complete:
        return ""
    quarantined = [lease.shard for lease in ledger.leases if lease.quarantined]
    failed = _failed_too_often(quarantined, events()) if quarantined else ""
    if ledger.settled and ending.signal is None and not ending.halted and not ending.deadline:
        return f"ended partial: {failed} and continue with: {command}"
    why = _why_unsettled(ledger, ending, deadline_s=deadline_s, command=command)
    return f"{failed}; {why}" if failed else why  # the command stays last


def _why_unsettled(ledger: Ledger, ending: Ending, *, deadline_s: float, command: str) -> str:
    count = sum(not lease.settled for lease in ledger.leases)
    left = f"{count} shard{'s' if count > 1 else ''}"
    if ending.signal is not None:
        return (
            f"interrupted by {ending.signal.name} with {left} to do; "
            f"everything finished is kept, continue with: {command}"
        )
    if ending.halted:
        return f"pending: {ending.halted}; {left} to do, continue with: {command}"
    if ending.deadline:
        return (
            f"--deadline-s {deadline_s:g} was reached with {left} to do; continue with: "
            f"{command} (--deadline-s 0 sets no deadline)"
        )
    if ending.returned:
        return _explain_returned(ending.returned, command=command)
    until = min((lease.until for lease in ledger.leases if not lease.settled), default=0)
    return (
        f"pending: {left} leased by other owners, the first until {moment(until)}; "
        f"continue later with: {command} (or add --wait)"
    )


def _failed_too_often(names: Sequence[str], events: Iterable[Event]) -> str:
    reasons = {
        event.shard: str(event.fields.get("reason", ""))
        for event in events
        if event.event == "shard.failed"
    }
    listed = [f"{name}: {reasons[name]}" for name in names[:_SHOWN] if reasons.get(name)]
    why = f" ({'; '.join(listed)})" if listed else ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    return (
        f"{', '.join(names[:_SHOWN])}{more} failed too often and {are} quarantined{why}; "
        f"see all of it with `farm events`, then `farm requeue` {them}"
    )


def _explain_returned(returned: Mapping[str, str], *, command: str) -> str:
    listed = [f"{shard}: {why}" for shard, why in list(returned.items())[:_SHOWN]]
    more = f" and {len(returned) - _SHOWN} more" if len(returned) > _SHOWN else ""
    return (
        f"pending: calls failed in {'; '.join(listed)}{more}; what was answered is kept, "
        f"ask again with: {command} (or add --accept-errors to report them as errors)"
    )


def _tell_failure(
    store: Store,
    error: FarmError,
    *,
    elapsed_s: float,
    on_events: Callable[[Sequence[Event]], None],
) -> None:
    figures = {"elapsed_s": elapsed_s, **standing(store.ledger())}
    try:
        on_events(store.tell([note("run.failed", reason=str(error), **figures)]))
    except FarmError:
        # the store that failed cannot take the news either; the caller raises the first error
        return
