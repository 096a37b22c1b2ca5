"""Asking again: which failures, how often, after which pause."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adapters.protocol import Call
from farm.adapters.retry import Retry, RetryPolicy
from farm.core.generation import FAILURES, STALE, Failure, Generation, failed
from tests.adapters.asking import Clock, Heard, request
from tests.adapters.loopback import run


def failure(kind: str = "server", **more: object) -> Failure:
    return Failure(kind=kind, detail="d", **more)  # type: ignore[arg-type]


def test_pauses_double_up_to_the_longest() -> None:
    """At chance 0 a pause is 0.6 of its bound: of 0.5, 1, 2, 4, then of 5 for ever."""
    policy = RetryPolicy(attempts=9, first_s=0.5, longest_s=5.0, total_s=1e9)
    pauses = [policy.pause(failure(), attempt=n, elapsed_s=0, chance=0) for n in range(1, 9)]
    assert pauses == pytest.approx([0.3, 0.6, 1.2, 2.4, 3.0, 3.0, 3.0, 3.0])


@given(
    attempt=st.integers(1, 2000),
    chance=st.floats(0, 1, exclude_max=True),
    wait=st.none() | st.floats(0, 1e6),
)
def test_no_pause_is_shorter_than_what_was_asked_for(
    attempt: int, chance: float, wait: float | None
) -> None:
    """Law: Retry-After is waited out; ours keep between 0.6 and all of their bound.

    So does one that was asked for and is shorter: a server that says 0, or a date gone by, would
    otherwise meet all attempts within the same moment.
    """
    policy = RetryPolicy(attempts=10_000, total_s=1e9, first_s=0.5, longest_s=60)
    pause = policy.pause(failure(retry_after_s=wait), attempt=attempt, elapsed_s=0, chance=chance)
    assert pause is not None
    bound = min(60.0, 0.5 * 2.0 ** min(attempt - 1, 20))
    asked = wait or 0.0
    assert max(asked, bound * 0.6) <= pause <= max(asked * 1.1, bound)


def test_there_is_no_pause_that_would_end_after_the_time() -> None:
    """A Retry-After of an hour in a case of 30 minutes: give up now, not in 30 minutes."""
    policy = RetryPolicy(total_s=1800)
    long = failure("busy", retry_after_s=3600.0)
    assert policy.pause(long, attempt=1, elapsed_s=0, chance=0) is None
    short = failure("busy", retry_after_s=10.0)
    assert policy.pause(short, attempt=1, elapsed_s=1789.0, chance=0) == 10.0
    assert policy.pause(short, attempt=1, elapsed_s=1790.0, chance=0) is None


@pytest.mark.parametrize("kind", FAILURES)
def test_only_what_may_pass_is_asked_again(kind: str) -> None:
    """The list is written out: a new kind must be put on one side by hand."""
    again = {"connection", "timeout", "busy", "server", "cut", "malformed", "program"}
    pause = RetryPolicy().pause(failure(kind), attempt=1, elapsed_s=0, chance=0)
    assert (pause is not None) == (kind in again)


async def retried(
    generations: list[Generation], **policy: float
) -> tuple[Generation, list[int], Clock, Heard]:
    """Run a retry over what the calls give; also give the attempts' numbers."""
    clock, heard, attempts = Clock(), Heard(), list[int]()

    async def attempt(call: Call) -> Generation:
        attempts.append(call.attempt)
        return generations[min(len(attempts), len(generations)) - 1]

    retry = Retry(
        attempt,
        RetryPolicy(**policy),  # type: ignore[arg-type]
        tell=heard,
        chance=lambda: 0.0,
        sleep=clock.sleep,
    )
    return await retry(Call(request(), "d" * 64)), attempts, clock, heard


def test_an_answer_after_failures_is_the_answer() -> None:
    """Two failures, one with its own pause; each retry is told as an event with its number."""
    given_ = [failed("server", "d"), failed("busy", "d", retry_after_s=7.0), Generation("4")]
    generation, attempts, clock, heard = run(retried(given_))
    assert generation == Generation("4")
    assert attempts == [1, 2, 3]
    assert clock.slept == [0.3, 7.0]
    assert [(n.event, n.fields["attempt"], n.fields["kind"]) for n in heard.notes] == [
        ("call.retried", 1, "server"),
        ("call.retried", 2, "busy"),
    ]


def test_an_endpoint_that_says_come_back_at_once_is_asked_ever_more_rarely() -> None:
    """Retry-After: 0 beside each of six refusals: the pauses double as if it had said nothing."""
    busy = failed("busy", "d", retry_after_s=0.0)
    _, attempts, clock, _ = run(retried([busy]))
    assert attempts == [1, 2, 3, 4, 5, 6]
    assert clock.slept == pytest.approx([0.3, 0.6, 1.2, 2.4, 4.8])


def test_attempts_end_and_the_last_failure_is_given() -> None:
    """Three attempts: two pauses, then the failure itself, told as such."""
    generation, attempts, _, heard = run(retried([failed("cut", "d")], attempts=3))
    assert attempts == [1, 2, 3]
    assert generation.failure is not None
    assert generation.failure.kind == "cut"
    assert heard.names == ["call.retried", "call.retried", "call.failed"]


def test_a_failure_that_will_not_pass_is_not_asked_again() -> None:
    """400 is the request's fault."""
    _, attempts, clock, heard = run(retried([failed("invalid", "d", status=400)]))
    assert (attempts, clock.slept, heard.names) == ([1], [], ["call.failed"])


def test_a_case_ages_by_attempts_and_pauses_alone() -> None:
    """Attempts of 4 s and pauses of 0.3 and 0.6: the third would end its pause after 13 s."""
    slow = msgspec.structs.replace(failed("server", "d"), latency_s=4.0)
    _, attempts, clock, _ = run(retried([slow], total_s=13.9))
    assert attempts == [1, 2, 3]
    assert clock.slept == [0.3, 0.6]


def test_a_connection_that_was_closed_unseen_is_asked_again_at_once_and_is_no_attempt() -> None:
    """Two such are allowed and one attempt: the third is a failure like any other."""
    stale = msgspec.structs.replace(failed("connection", "d"), warnings=(STALE,))
    generation, attempts, clock, _ = run(
        retried([stale, stale, Generation("4")], attempts=1, stale=2)
    )
    assert (generation.text, attempts, clock.slept) == ("4", [1, 2, 3], [])
    generation, attempts, clock, heard = run(retried([stale], attempts=1, stale=2))
    assert (attempts, clock.slept) == ([1, 2, 3], [])
    assert heard.names == ["call.retried", "call.retried", "call.failed"]
