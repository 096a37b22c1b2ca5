"""A run stops after a few calls when no call can succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from farm.adapters.guard import Guard
from farm.adapters.protocol import Call
from farm.core.generation import STALE, Generation, failed
from farm.errors import Halted
from tests.adapters.asking import Clock, Heard, request
from tests.adapters.loopback import run

DENIED = failed("denied", "HTTP 401: wrong key", status=401)
LOST = failed("connection", "connection refused")
FINE = Generation("4")
INVALID = failed("invalid", "HTTP 400: no such parameter", status=400)


def played(
    story: Sequence[tuple[float, Generation]], *, requests: int = 1
) -> tuple[int, Halted | None, Heard]:
    """Play (time, generation) pairs through a guard; give how many went out, and the halt.

    The calls are for so many requests in turn.
    """
    clock, heard = Clock(), Heard()
    sent = 0

    async def send(call: Call) -> Generation:
        nonlocal sent
        clock.now, generation = story[sent]
        sent += 1
        return generation

    guard = Guard(send, model="m", patience_s=60, tell=heard, clock=clock)

    async def all_of_it() -> Halted | None:
        for number in range(len(story)):
            try:
                await guard(Call(request(), f"d{number % requests}"))
            except Halted as halted:
                return halted
        return None

    halted = run(all_of_it())
    return sent, halted, heard


def test_connections_that_were_closed_unseen_say_nothing_of_the_endpoint() -> None:
    """A server that closed all that it kept is not gone; the same without the word is."""
    stale = msgspec.structs.replace(LOST, warnings=(STALE,))
    story = [(0.0, FINE), *((when, stale) for when in (1.0, 100.0, 200.0, 300.0))]
    assert played(story)[:2] == (5, None)
    halted = played([(when, LOST if one is stale else one) for when, one in story])[1]
    assert halted is not None
    assert halted.reason == "dead_endpoint"


def test_three_denials_in_a_row_halt_the_run() -> None:
    """The message says what happened and what to do; the fourth call is never made."""
    sent, halted, heard = played([(0, DENIED)] * 10)
    assert sent == 3
    assert halted is not None
    assert halted.reason == "denied"
    assert str(halted) == (
        "m: HTTP 401: wrong key; what was answered is kept, "
        "check the key and the account, then run the same command again"
    )
    assert halted.exit_code == 1
    assert heard.names == ["endpoint.halted"]


def test_a_denial_among_answers_is_that_cases_alone() -> None:
    """Some providers answer 403 to a prompt they do not like."""
    sent, halted, _ = played([(0, DENIED), (0, DENIED), (0, FINE)] * 4)
    assert (sent, halted) == (12, None)


def test_an_endpoint_that_never_answered_is_dead_after_a_quarter_of_the_patience() -> None:
    """Patience 60 s: at 15 s of nothing but refused connections."""
    sent, halted, _ = played([(t, LOST) for t in (0, 1, 2, 8, 14, 15, 16)])
    assert sent == 6
    assert halted is not None
    assert halted.reason == "dead_endpoint"


def test_an_endpoint_that_answered_before_is_given_all_of_the_patience() -> None:
    """A server that is restarted comes back within a minute."""
    sent, halted, _ = played([(0, FINE)] + [(t, LOST) for t in (1, 20, 40, 60, 61, 62)])
    assert sent == 6
    assert halted is not None


def test_a_failure_that_the_endpoint_gave_itself_shows_that_it_lives() -> None:
    """A 429 or a 400 between lost connections starts the count anew."""
    for kind in ("busy", "invalid"):
        story = [(t, LOST if t % 10 else failed(kind, "d")) for t in range(1, 40)]
        assert played(story)[1] is None


@pytest.mark.parametrize("kind", ["server", "timeout", "cut", "malformed", "program"])
def test_an_endpoint_that_gives_nothing_but_faults_is_dead(kind: str) -> None:
    """A gateway before a dead server: as with lost connections, and also mixed with them."""
    fault = failed(kind, "HTTP 502: bad gateway")
    times = (1, 20, 40, 60, 61, 62)
    story = [(0.0, FINE), *((float(t), LOST if t == 40 else fault) for t in times)]
    sent, halted, _ = played(story, requests=3)
    assert sent == 6
    assert halted is not None
    assert halted.reason == "dead_endpoint"
    assert "no answer came for 60 s: HTTP 502: bad gateway" in str(halted)
    assert "raise patience_s" in str(halted)
    assert played([(t / 4, one) for t, one in story[1:]], requests=3)[1] is not None


def test_faults_with_answers_between_them_end_nothing() -> None:
    """However many: an endpoint that answers lives."""
    story = [(10.0 * n, failed("server", "d") if n % 5 else FINE) for n in range(50)]
    assert played(story, requests=4)[1] is None


def test_two_prompts_that_an_endpoint_fails_on_do_not_make_it_dead() -> None:
    """The last two of a run may fail for as long as they are tried."""
    story = [(0.0, FINE), *((100.0 * n, failed("timeout", "d")) for n in range(1, 9))]
    assert played(story, requests=2)[1] is None


def test_an_answer_that_is_slow_in_coming_is_waited_for() -> None:
    """Faults of others do not end the run while a call from before them may be answered."""

    async def story() -> str:
        clock, slow = Clock(), asyncio.Event()

        async def send(call: Call) -> Generation:
            if call.digest == "slow":
                await slow.wait()
            return failed("server", "d")

        guard = Guard(send, model="m", patience_s=60, tell=Heard(), clock=clock)
        begun = asyncio.create_task(guard(Call(request(), "slow")))
        await asyncio.sleep(0)
        for number in range(6):
            clock.now += 30
            await guard(Call(request(), f"d{number}"))
        slow.set()
        try:
            await begun
        except Halted as halted:
            return halted.reason
        return ""

    assert run(story()) == "dead_endpoint"  # when it ended with no answer either


def test_a_wait_that_no_case_may_take_ends_the_run() -> None:
    """At once, and the message says until when; a shorter one is a pause."""

    async def asked(wait_s: float) -> str:
        async def send(call: Call) -> Generation:
            return failed("busy", "HTTP 429: x", status=429, retry_after_s=wait_s)

        guard = Guard(
            send,
            model="m",
            patience_s=60,
            tell=Heard(),
            clock=Clock(),
            longest_wait_s=1800,
            now=lambda: 1_700_000_000.0,  # 2023-11-14T22:13:20Z
        )
        try:
            await guard(Call(request(), "d"))
        except Halted as halted:
            return f"{halted.reason}: {halted}"
        return ""

    assert run(asked(1799.0)) == ""
    assert run(asked(3600.0)) == (
        "paused: m: HTTP 429: x; it asks to come back at 2023-11-14T23:13:20Z; "
        "what was answered is kept, run the same command again then"
    )
    assert "come back in 999999999999 s" in run(asked(999_999_999_999.0))


@pytest.mark.parametrize("count", [1, 2])
def test_one_slow_start_is_not_a_dead_endpoint(count: int) -> None:
    """Fewer than three lost connections never halt a run, however far apart."""
    story = [(1000.0 * n, LOST) for n in range(count)]
    assert played(story)[1] is None


def test_an_answer_on_its_way_when_the_run_ends_is_given() -> None:
    """It is paid for; only what would go out after that is refused."""

    async def story() -> Generation:
        async def send(call: Call) -> Generation:
            guard.halt()
            return FINE

        guard = Guard(send, model="m", patience_s=60, tell=Heard(), clock=Clock())
        answer = await guard(Call(request(), "d"))
        with pytest.raises(Halted, match="the run is ending"):
            await guard(Call(request(), "d"))
        return answer

    assert run(story()) == FINE


def test_a_failure_on_its_way_when_the_run_ends_is_not_asked_again() -> None:
    async def story() -> None:
        async def send(call: Call) -> Generation:
            guard.halt()
            return LOST

        guard = Guard(send, model="m", patience_s=60, tell=Heard(), clock=Clock())
        with pytest.raises(Halted):
            await guard(Call(request(), "d"))

    run(story())


@pytest.mark.parametrize(
    ("story", "refusals_halt", "sent"),
    [
        ([INVALID] * 20, True, 10),  # no prompt of ten was fit: the settings are not
        ([INVALID] * 20, False, 20),
        ([FINE] + [INVALID] * 20, True, 21),  # one was: these are the prompts' fault
        ([INVALID] * 9 + [FINE] + [INVALID] * 20, True, 30),
        ([failed("oversized", "HTTP 400: no such parameter")] * 20, True, 10),
        ([failed("unrecorded", "HTTP 400: no such parameter")] * 20, True, 10),
    ],
)
def test_requests_that_are_all_refused_halt_the_run(
    story: list[Generation], refusals_halt: bool, sent: int
) -> None:
    """A setting that an endpoint does not know would make an error of every case."""

    async def played() -> tuple[int, str]:
        count = 0

        async def send(call: Call) -> Generation:
            nonlocal count
            count += 1
            return story[count - 1]

        guard = Guard(
            send,
            model="m",
            patience_s=60,
            tell=Heard(),
            clock=Clock(),
            refusals_halt=refusals_halt,
        )
        try:
            for _ in story:
                await guard(Call(request(), "d"))
        except Halted as halted:
            return count, str(halted)
        return count, ""

    count, said = run(played())
    assert count == sent
    if sent < len(story):
        assert "all of 10 requests are refused: HTTP 400: no such parameter" in said
        assert "--accept-errors" in said
