"""The OpenAI adapter against a server that answers, fails and misbehaves byte by byte."""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

import pytest

from farm.adapters import chat
from farm.adapters.exchange import Interface, exchange
from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.secret import Secret
from farm.adapters.transport import Transport
from farm.core.generation import STALE, Failure, Generation, Usage
from farm.errors import SpecError
from tests.adapters.asking import openai_settings, task
from tests.adapters.loopback import Handler, Loopback, Received, Wire, answer, run

KEY = "sk-test-0123456789"


async def asked(handler: Handler, *, key: bool = False, **more: Any) -> tuple[Generation, Loopback]:
    """Ask one question of a server with this handler."""
    secret = Secret(KEY, name="THE_KEY") if key else None
    async with Loopback(handler) as server:
        endpoint = OpenAIEndpoint(openai_settings(server.url, **more), name="model", key=secret)
        async with endpoint:
            request = endpoint.request("What is two and two?", task(), sample=3)
            return await endpoint.send(request), server


def refusing(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> Handler:
    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(body, status=status, headers=headers)

    return handle


def test_a_chat_answer_in_one_piece_is_read_with_all_it_tells() -> None:
    """The body is what the interface documents; every figure is a literal of it."""
    logprobs = {"content": [{"token": "fo", "logprob": -0.1}, {"token": "ur", "logprob": -0.3}]}
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }

    async def handle(received: Received, wire: Wire) -> None:
        body = answer("four", logprobs=logprobs, usage=usage, system_fingerprint="fp1")
        await wire.reply(body)

    generation, server = run(asked(handle, logprobs=True, request={"temperature": 0}, seed=40))
    assert generation == Generation(
        "four",
        math.exp(-0.2),
        0.4,
        2,
        confidence_source="mean_token_probability",
        usage=Usage(prompt_tokens=12, completion_tokens=2, cached_tokens=8, reasoning_tokens=0),
        finish_reason="stop",
        model_version="m fp1",
    )
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/v1/chat/completions")
    assert received.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "What is two and two?"}],
        "temperature": 0,
        "seed": 43,  # 40 for the model, 3 for the sample
        "logprobs": True,
    }
    assert "authorization" not in received.headers


def test_completions_send_the_prompt_as_it_is_and_read_their_own_logprobs() -> None:
    """Completions give a list of numbers where chat gives a list of objects."""
    choice = {"index": 0, "text": " 4", "finish_reason": "length"}
    choice["logprobs"] = {"tokens": [" ", "4"], "token_logprobs": [-0.5, -1.5]}

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(json.dumps({"choices": [choice]}).encode())

    generation, server = run(asked(handle, api="completions", logprobs=True))
    assert server.received[0].path == "/v1/completions"
    assert server.received[0].json["prompt"] == "What is two and two?"
    assert (generation.text, generation.finish_reason) == (" 4", "length")
    assert (generation.token_nll, generation.token_count) == (2.0, 2)
    assert generation.usage is None
    assert generation.warnings == ("no_usage",)


def test_a_streamed_answer_is_the_same_as_one_in_one_piece() -> None:
    """Logprobs come chunk by chunk, usage at the end."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        for text, logprob in (("fo", -0.1), ("ur", -0.3)):
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            choice["logprobs"] = {"content": [{"token": text, "logprob": logprob}]}
            await wire.chunk(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        await wire.chunk(b"data: " + json.dumps(end).encode() + b"\n\n")
        usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
        await wire.chunk(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")
        await wire.chunk(b"")

    generation, server = run(asked(handle, stream=True, logprobs=True))
    assert generation.text == "four"
    assert generation.confidence == pytest.approx(math.exp(-0.2))
    assert generation.usage == Usage(prompt_tokens=5, completion_tokens=2)
    assert generation.warnings == ()
    assert server.received[0].json["stream_options"] == {"include_usage": True}


def test_an_answer_in_one_piece_to_a_stream_request_is_taken_with_a_warning() -> None:
    """Some proxies answer application/json whatever was asked."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(answer("four"))

    generation, _ = run(asked(handle, stream=True))
    assert (generation.text, generation.failure) == ("four", None)
    assert generation.warnings == ("not_streamed",)


@pytest.mark.parametrize(
    ("status", "kind", "transient", "fatal"),
    [
        (400, "invalid", False, False),
        (401, "denied", False, True),
        (402, "denied", False, True),
        (403, "denied", False, True),
        (404, "missing", False, True),
        (405, "missing", False, True),
        (408, "busy", True, False),
        (409, "busy", True, False),
        (413, "invalid", False, False),
        (422, "invalid", False, False),
        (429, "busy", True, False),
        (500, "server", True, False),
        (502, "server", True, False),
        (503, "server", True, False),
        (504, "server", True, False),
        (529, "busy", True, False),
    ],
)
def test_every_status_has_one_meaning(status: int, kind: str, transient: bool, fatal: bool) -> None:
    """Rule: 408, 409, 429 and 5xx are asked again; a key, account or address is for a person."""
    body = json.dumps({"error": {"message": "as it happens", "code": None}}).encode()
    generation, _ = run(asked(refusing(status, body)))
    failure = generation.failure
    assert failure is not None
    assert (failure.kind, failure.transient, failure.fatal) == (kind, transient, fatal)
    assert failure.final == (not transient and not fatal)
    assert failure.detail == f"HTTP {status}: as it happens"
    assert failure.status == status


def test_an_account_without_credit_is_denied_though_its_status_says_slow_down() -> None:
    """429 with code insufficient_quota: no waiting mends it."""
    body = json.dumps({"error": {"message": "no credit", "code": "insufficient_quota"}}).encode()
    generation, _ = run(asked(refusing(429, body)))
    assert generation.failure is not None
    assert generation.failure.kind == "denied"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "120", "retry-after": "7"}, 0.12),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_what_an_endpoint_asks_to_wait_is_read_in_every_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds, dates (one gone by is no wait); nonsense is nothing."""
    generation, _ = run(asked(refusing(429, headers=headers)))
    assert generation.failure is not None
    assert generation.failure.retry_after_s == seconds


def test_the_endpoints_own_word_on_asking_again_goes_first() -> None:
    """x-should-retry, as two providers send it."""
    no, _ = run(asked(refusing(500, headers={"x-should-retry": "false"})))
    assert no.failure is not None
    assert not no.failure.transient
    assert not no.failure.final  # a later run may ask again
    yes, _ = run(asked(refusing(400, headers={"x-should-retry": "true"})))
    assert yes.failure is not None
    assert yes.failure.transient


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere() -> None:
    """The message says where to, so that base_url can be mended."""

    async def story() -> tuple[Generation, Loopback, Loopback]:
        async def caught(received: Received, wire: Wire) -> None:
            await wire.reply(answer("caught"))

        async with Loopback(caught) as thief:
            generation, server = await asked(
                refusing(307, headers={"location": f"{thief.url}/v1/chat/completions"}), key=True
            )
            return generation, server, thief

    generation, server, thief = run(story())
    assert thief.received == []
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert generation.failure is not None
    assert generation.failure.kind == "missing"
    assert f"redirects to '{thief.url}/v1/chat/completions'" in generation.failure.detail


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_key_that_the_endpoint_quotes_back_is_not_passed_on(status: int) -> None:
    """Wrong keys are quoted in error messages, also in a 200."""
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}).encode()
    generation, _ = run(asked(refusing(status, body), key=True))
    assert generation.failure is not None
    assert KEY not in repr(generation)
    assert "Incorrect API key provided: [key]." in generation.failure.detail


def test_a_key_does_not_show_in_what_python_prints() -> None:
    """Neither the secret itself nor an endpoint that holds it."""
    secret = Secret(f"  {KEY}\n", name="THE_KEY")
    assert KEY not in f"{secret} {secret!r}"
    assert secret.reveal() == KEY
    assert not hasattr(secret, "__dict__")


@pytest.mark.parametrize("text", ["", " ", "two words", "line\nbreak", "caf\xe9", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(text: str) -> None:
    """A header with a line break in it would be two headers."""
    with pytest.raises(SpecError) as caught:
        Secret(text, name="THE_KEY")
    assert "THE_KEY" in str(caught.value)
    assert not text.strip() or text not in str(caught.value)


def broken_after(*parts: bytes, reset: bool) -> Handler:
    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin(content_type="text/event-stream")
        for part in parts:
            await wire.chunk(part)
        if reset:
            await asyncio.sleep(0.05)  # what was sent has arrived: a reset throws the rest away
            wire.reset()
        else:
            wire.hang_up()

    return handle


PAR = b'data: {"choices": [{"index": 0, "delta": {"content": "par"}}]}\n\n'
STOP = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("parts", [(PAR,), (PAR, STOP)])
def test_a_connection_lost_before_the_end_is_cut_also_after_a_finish_reason(
    parts: tuple[bytes, ...], reset: bool
) -> None:
    """Usage, and perhaps more, never came; the half answer is kept for who wants to see it."""
    generation, _ = run(asked(broken_after(*parts, reset=reset), stream=True))
    assert generation.failure is not None
    assert generation.failure.kind == "cut"
    assert generation.failure.transient
    assert generation.text == "par"


def test_an_answer_in_one_piece_that_breaks_off_is_cut() -> None:
    """Content-Length promises more than comes."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + answer("four")[:50])
        wire.hang_up()

    generation, _ = run(asked(handle))
    assert generation.failure is not None
    assert generation.failure.kind == "cut"


def test_a_server_that_falls_silent_is_a_timeout() -> None:
    """Silence before the head, and silence in mid-stream or in the middle of a whole answer."""

    async def mute(received: Received, wire: Wire) -> None:
        await asyncio.sleep(30)

    async def stalls(received: Received, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(PAR)
        await asyncio.sleep(30)

    bounds: list[dict[str, Any]] = [{"timeout_s": 0.3}, {"idle_s": 0.3}]
    for handler, bound, stream in product((mute, stalls), bounds, (True, False)):
        generation, _ = run(asked(handler, stream=stream, **bound))
        assert generation.failure is not None
        assert generation.failure.kind == "timeout"


def test_a_port_where_nobody_listens_is_a_lost_connection() -> None:
    """Nothing was sent, so nothing was paid."""

    async def story() -> Generation:
        async with Loopback(refusing(200)) as server:
            url = server.url
        async with OpenAIEndpoint(openai_settings(url), name="model") as endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))

    generation = run(story())
    assert generation.failure is not None
    assert generation.failure.kind == "connection"
    assert generation.failure.transient


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"<html>busy</html>",
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": 3}',
        b"[" * 100_000,
        b'{"choices": [{"message": {"content": "\xff"}}]}',
    ],
)
def test_a_200_that_is_no_answer_is_malformed(reply: bytes) -> None:
    """None of them may raise, and none may count as an empty answer."""
    generation, _ = run(asked(refusing(200, reply)))
    assert generation.failure is not None
    assert generation.failure.kind == "malformed"


def test_a_page_instead_of_a_stream_is_malformed() -> None:
    """A captive portal answers 200 with HTML."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(b"<html>please log in</html>", content_type="text/html")

    generation, _ = run(asked(handle, stream=True))
    assert generation.failure is not None
    assert generation.failure.kind == "malformed"
    assert "please log in" in generation.failure.detail


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}',
        b'\r\n{\r\n  "error": {\r\n\r\n"message": "slow down",\r\n'
        b'"code": "rate_limit_exceeded"}\r\n}\r\n\r\n',
    ],
    ids=["in a line", "in lines"],
)
@pytest.mark.parametrize("piece", [1, 1000])
def test_an_error_without_a_stream_under_its_type_is_that_error(body: bytes, piece: int) -> None:
    """As some proxies send it, with status 200; it is no stream that broke off."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        for at in range(0, len(body), piece):
            await wire.chunk(body[at : at + piece])
        await wire.chunk(b"")

    generation, _ = run(asked(handle, stream=True))
    assert generation.failure is not None
    assert (generation.failure.kind, generation.failure.detail) == ("busy", "slow down")


@pytest.mark.parametrize("mark", [b"", b"data: "])
def test_an_answer_in_one_piece_under_the_type_of_a_stream_is_taken(mark: bytes) -> None:
    """As one event, or without one; it must not count as an empty answer."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(mark + answer("four"))
        await wire.chunk(b"")

    generation, _ = run(asked(handle, stream=True))
    assert (generation.failure, generation.text) == (None, "four")
    assert generation.finish_reason == "stop"


def test_a_stream_behind_a_line_that_is_none_of_its_own_is_read() -> None:
    """A field of no known name is passed over (WHATWG HTML, 9.2.6), also one with a brace."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b'{"notice": "data: none yet"}\n\n')
        await wire.chunk(PAR + STOP + b"data: [DONE]\n\n")
        await wire.chunk(b"")

    generation, _ = run(asked(handle, stream=True))
    assert (generation.failure, generation.text) == (None, "par")


def test_a_reply_that_is_not_http_is_malformed() -> None:
    """Something else listens on the port."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        wire.hang_up()

    generation, _ = run(asked(handle))
    assert generation.failure is not None
    assert generation.failure.kind in ("malformed", "connection")
    assert "message=" not in generation.failure.detail  # nor a status that nobody sent


def test_an_endless_answer_is_given_up_at_the_bound() -> None:
    """With a bound of 100,000 bytes, in one piece and as one event without an end."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin(content_type=received.headers["x-type"])
        while not wire.closed:
            await wire.chunk(b"x" * 10_000)

    async def story(content_type: str, streamed: bool) -> Failure | None:
        transport = Transport(
            connections=1,
            headers={"x-type": content_type},
            timeout_s=20,
            idle_s=20,
            max_body_bytes=100_000,
        )
        interface = Interface(streamed=chat.read_event, whole=chat.read_whole)
        async with Loopback(handle) as server, transport:
            done = await exchange(
                transport, server.url, b"{}", interface=interface, streamed=streamed, key=None
            )
            return done.failure

    asked_for = [("application/json", True), ("text/event-stream", True), ("text/html", False)]
    for content_type, streamed in asked_for:
        failure = run(story(content_type, streamed))
        assert failure is not None
        assert failure.kind == "oversized"
        assert failure.final


def test_a_refusal_is_told_by_the_finish_reason() -> None:
    """message.refusal holds the model's words where content is null."""
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(json.dumps(body).encode())

    generation, _ = run(asked(handle))
    assert (generation.text, generation.finish_reason) == ("I will not.", "refusal")


@pytest.mark.parametrize("logprobs", [[0.5], ["x"], [None], [-1.0, True]])
def test_log_probabilities_that_are_none_give_no_numbers(logprobs: list[object]) -> None:
    """A negative sum of likelihoods would poison a perplexity; the answer itself stands."""
    content = {"content": [{"token": "t", "logprob": value} for value in logprobs]}

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(answer("four", logprobs=content))

    generation, _ = run(asked(handle, logprobs=True))
    assert generation.failure is None
    assert (generation.token_nll, generation.token_count, generation.confidence) == (None,) * 3
    assert set(generation.warnings) & {"logprobs_out_of_range", "logprobs_not_numbers"}


async def streamed_in_turn(ends: list[bytes]) -> list[Generation]:
    """Ask one endpoint for as many streamed answers as there are ends; each closes cleanly."""
    left = iter(ends)

    async def handle(received: Received, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(PAR + STOP + next(left))
        await wire.chunk(b"")

    async with Loopback(handle) as server:
        settings = openai_settings(server.url, stream=True)
        async with OpenAIEndpoint(settings, name="model") as endpoint:
            requests = [endpoint.request("p", task(), sample=n) for n in range(len(ends))]
            return [await endpoint.send(request) for request in requests]


DONE = b"data: [DONE]\n\n"


def test_a_stream_without_done_is_cut_where_the_endpoint_has_sent_it_before() -> None:
    """A proxy that truncates exactly at the [DONE] leaves a finish reason and a clean end."""
    first, whole, cut, last = run(streamed_in_turn([b"", DONE, b"", DONE]))
    assert (first.failure, first.warnings) == (None, ("no_done", "no_usage"))
    assert whole.failure is None
    assert cut.failure is not None
    assert (cut.failure.kind, cut.failure.transient) == ("cut", True)
    assert "[DONE]" in cut.failure.detail
    assert last.failure is None


def test_an_endpoint_that_never_sends_done_is_taken_at_its_word() -> None:
    """Some servers end every stream with the finish reason alone."""
    answers = run(streamed_in_turn([b"", b"", b""]))
    assert [one.failure for one in answers] == [None] * 3
    assert [one.warnings for one in answers] == [("no_done", "no_usage")] * 3


def test_an_answer_in_one_piece_says_nothing_of_how_streams_end() -> None:
    """A proxy may answer a stream request whole once; the streams after it are not cut."""
    turns = iter((False, True))

    async def handle(received: Received, wire: Wire) -> None:
        if next(turns):
            await wire.begin()
            await wire.chunk(PAR + STOP)
            await wire.chunk(b"")
        else:
            await wire.reply(answer("four"))

    async def story() -> list[Generation]:
        async with Loopback(handle) as server:
            settings = openai_settings(server.url, stream=True)
            async with OpenAIEndpoint(settings, name="model") as endpoint:
                requests = [endpoint.request("p", task(), sample=n) for n in range(2)]
                return [await endpoint.send(request) for request in requests]

    assert [one.failure for one in run(story())] == [None, None]


def test_connections_are_used_again() -> None:
    """Ten answers read to their end, streamed or not, need one connection."""

    async def handle(received: Received, wire: Wire) -> None:
        if not received.json.get("stream"):
            await wire.reply(answer("four"))
            return
        await wire.begin()
        await wire.chunk(PAR + STOP + b"data: [DONE]\n\n")
        await wire.chunk(b"")

    async def story() -> int:
        async with Loopback(handle) as server:
            for stream in (True, False):
                settings = openai_settings(server.url, stream=stream)
                async with OpenAIEndpoint(settings, name="model") as endpoint:
                    for sample in range(10):
                        request = endpoint.request("p", task(), sample=sample)
                        assert (await endpoint.send(request)).failure is None
            return server.connections

    assert run(story()) == 2


@pytest.mark.parametrize(
    ("ends_after", "received", "connections"),
    [(1, 31, 30), (20, 31, 2)],  # of the 31 calls one connection takes two; one takes 21
    ids=["behind each answer", "once in a while"],
)
def test_connections_are_kept_from_servers_that_keep_them(
    ends_after: int, received: int, connections: int
) -> None:
    """A stale call is asked again; only where stale calls are frequent is no connection kept."""

    async def story() -> tuple[int, int, int]:
        answered: Counter[Wire] = Counter()

        async def handle(received: Received, wire: Wire) -> None:
            if answered[wire] == ends_after:
                wire.hang_up()
                return
            answered[wire] += 1
            await wire.reply(answer("four"))

        stale = 0
        async with Loopback(handle) as server:
            settings = openai_settings(server.url)
            async with OpenAIEndpoint(settings, name="model") as endpoint:
                for sample in range(30):
                    request = endpoint.request("p", task(), sample=sample)
                    while STALE in (await endpoint.send(request)).warnings:
                        stale += 1
            return len(server.received), server.connections, stale

    assert run(story()) == (received, connections, 1)


def test_a_host_that_has_no_address_is_a_lost_connection_at_once() -> None:
    """The top-level name `invalid` is kept free for ever (RFC 6761), so it never resolves."""

    async def story() -> Generation:
        settings = openai_settings("http://no-such-host.invalid")
        async with OpenAIEndpoint(settings, name="model") as endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))

    generation = run(story())
    assert generation.failure is not None
    assert generation.failure.kind == "connection"
    assert "no-such-host.invalid" in generation.failure.detail
    assert generation.warnings == ()


@pytest.mark.parametrize("stream", [False, True])
def test_a_process_without_a_free_file_has_no_connection(stream: bool) -> None:
    """No socket is made at all, so nothing was open before that could be used up."""

    async def story() -> Generation:
        async with Loopback(refusing(500)) as server:
            settings = openai_settings(server.url, stream=stream)
            async with OpenAIEndpoint(settings, name="model") as endpoint:
                request = endpoint.request("p", task(), sample=0)
                with no_free_files():
                    return await endpoint.send(request)

    generation = run(story())
    assert generation.failure is not None
    assert generation.failure.kind == "connection"
    assert "Too many open files" in generation.failure.detail


@contextmanager
def no_free_files() -> Iterator[None]:
    """Use up all the files that a process may have open, and one more than there are now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0] + 1, 64), hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in taken:
            os.close(file)


def test_a_new_connection_that_is_closed_without_a_reply_is_a_lost_one() -> None:
    """Sending again without end would hammer a server that is going down."""

    async def handle(received: Received, wire: Wire) -> None:
        wire.hang_up()

    generation, server = run(asked(handle))
    assert generation.failure is not None
    assert generation.failure.kind == "connection"
    assert len(server.received) == 1


def test_a_prompt_that_is_not_unicode_is_refused_before_anything_is_sent() -> None:
    """A lone surrogate cannot be written as JSON in UTF-8."""

    async def story() -> None:
        async with Loopback(refusing(200)) as server:
            settings = openai_settings(server.url)
            async with OpenAIEndpoint(settings, name="model") as endpoint:
                request = endpoint.request("a\ud800", task(), sample=0)
                with pytest.raises(SpecError, match="surrogate"):
                    await endpoint.send(request)
            assert server.received == []

    run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_not_utf_8_is_said_to_be_none(stream: bool) -> None:
    """What is shown of it has replacement characters, and would look like JSON."""
    body = b'{"a": "\xff"}'

    async def handle(received: Received, wire: Wire) -> None:
        kind = "text/event-stream" if stream else "application/json"
        await wire.reply(b"data: " + body + b"\n\n" if stream else body, content_type=kind)

    generation, _ = run(asked(handle, stream=stream))
    assert generation.failure is not None
    assert "is not a JSON object, it is not UTF-8 at byte 8: " in generation.failure.detail


def test_nobody_there_is_told_with_address_and_reason_alone() -> None:
    """The client library speaks of ssl in any case."""

    async def call() -> Generation:
        # port 9 of the loopback: discard, where nothing listens
        async with OpenAIEndpoint(openai_settings("http://127.0.0.1:9"), name="m") as endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))

    generation = run(call())
    assert generation.failure is not None
    assert generation.failure.detail.startswith("no connection to 127.0.0.1:9: ")
    assert "ssl" not in generation.failure.detail
