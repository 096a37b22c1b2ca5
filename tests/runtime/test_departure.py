"""What a worker's end costs: one attempt for its own fault, nothing for anybody else's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farm.core.change import Fail, Release
from farm.core.lease import Lease, claim
from farm.runtime.departure import Departure

LEASES = tuple(
    claim(Lease(shard=name), worker="w1", now=1, ttl=9) for name in ("shard-0", "shard-1")
)


def departure(**changed: object) -> Departure:
    given: dict[str, object] = {
        "worker": "w1",
        "worker_pid": 7,
        "exit_code": 0,
        "complaint": "",
        "dismissed": False,
        "executing": "shard-0",
        "held": LEASES,
        "ran_out": (),
    }
    return Departure(**{**given, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exit_code": -9}, "killed by SIGKILL"),
        ({"exit_code": 3}, "exit code 3"),
        (
            {"exit_code": 0},
            "it ended without the receipts of the shards it was given (exit code 0)",
        ),
        ({"exit_code": -9, "complaint": "it said nothing for 9 s"}, "it said nothing for 9 s"),
        # a worker that broke the protocol is at fault even when it was sent home meanwhile
        ({"complaint": "a line of garbage", "dismissed": True}, "a line of garbage"),
    ],
)
def test_the_executing_shard_alone_is_charged(changed: dict[str, object], reason: str) -> None:
    ended = departure(**changed)
    first, second = ended.changes(max_attempts=3, charged=True)
    assert first == Fail(shard="shard-0", worker="w1", version=1, max_attempts=3, reason=reason)
    assert isinstance(second, Release)
    assert second.shard == "shard-1"
    assert (ended.told().event, ended.told().fields["reason"]) == ("worker.failed", reason)


@pytest.mark.parametrize("exit_code", [0, -15, -9])
def test_a_worker_that_was_sent_home_is_charged_nothing(exit_code: int) -> None:
    ended = departure(exit_code=exit_code, dismissed=True)
    changes = ended.changes(max_attempts=3, charged=True)
    assert [(type(change), change.reason) for change in changes] == [(Release, "run drained")] * 2
    assert ended.told().event == "worker.exited"


def test_when_the_run_itself_failed_nobody_is_charged() -> None:
    """A full disk ends a worker, and is no fault of its shard."""
    changes = departure(exit_code=3).changes(max_attempts=3, charged=False)
    assert [type(change) for change in changes] == [Release, Release]


def test_a_worker_with_nothing_left_has_just_ended() -> None:
    ended = departure(held=(), executing="")
    assert ended.changes(max_attempts=3, charged=True) == []
    assert ended.told().event == "worker.exited"


def test_leases_that_ran_out_are_given_back_as_well() -> None:
    """By a clock that was set forward and back again nobody else has them."""
    late = replace(LEASES[0], version=4)
    (change,) = departure(held=(), executing="", ran_out=(late,)).changes(
        max_attempts=3, charged=True
    )
    assert change == Release(shard="shard-0", worker="w1", version=4, reason="its lease ran out")
