"""A log's way out: nobody waits for its reader, order is kept, and what is dropped is counted."""

from __future__ import annotations

import threading

import pytest

from farm.core.event import Event, decode_event, encode_event, note, stamp
from farm.outlet import Outlet, dropped


def told(seq: int) -> Event:
    noted = note("shard.requeued", shard="shard-1", version=1)
    return stamp(noted, now_ms=0, run_id="0" * 16, invocation_id="i", seq=seq)


def test_events_come_out_in_order_and_all_of_them() -> None:
    came: list[int] = []
    outlet = Outlet(lambda event: came.append(event.seq), count=dropped)
    for seq in range(1, 1001):
        outlet.put([told(seq)])
    assert outlet.close()
    assert came == list(range(1, 1001))


def test_what_finds_no_room_is_dropped_and_counted_in_its_place() -> None:
    """The reader takes one and stalls; four wait, 95 are dropped; the log goes on behind them."""
    came: list[Event] = []
    stalled, go_on = threading.Event(), threading.Event()

    def write(event: Event) -> None:
        stalled.set()
        assert go_on.wait(60)
        came.append(event)

    outlet = Outlet(write, count=dropped, room=4)
    outlet.put([told(1)])
    assert stalled.wait(60)
    outlet.put([told(seq) for seq in range(2, 101)])
    go_on.set()
    assert outlet.close()
    assert [event.seq for event in came] == [1, 2, 3, 4, 5, 100]
    assert (came[-1].event, came[-1].fields) == ("log.dropped", {"lines": 95})
    assert decode_event(encode_event(came[-1])) == came[-1]


def test_a_reader_that_takes_nothing_is_not_waited_for_at_the_end() -> None:
    never = threading.Event()
    outlet = Outlet(lambda event: assert_waited(never), count=dropped)
    outlet.put([told(1)])
    assert not outlet.close()
    never.set()


def test_a_fault_of_the_writer_is_raised_to_whoever_closes() -> None:
    def write(event: Event) -> None:
        raise RecursionError("a fault of ours")

    outlet = Outlet(write, count=dropped)
    outlet.put([told(1)])
    with pytest.raises(RecursionError):
        outlet.close()


def assert_waited(event: threading.Event) -> None:
    assert event.wait(60)
