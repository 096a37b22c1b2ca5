"""A key does not show, whole or in pieces, in anything that an endpoint's words become."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.registry import read_key
from farm.adapters.secret import Secret, quoted, shown
from farm.core.generation import Generation, encode_generation
from farm.errors import SpecError
from tests.adapters.asking import openai_settings, task
from tests.adapters.loopback import Handler, Loopback, Received, Wire, run

KEY = "sk-a/b-0123456789abcdefghij"
PIECES = [KEY[at : at + 8] for at in range(len(KEY) - 7)]
ESCAPED = KEY.replace("/", "\\/").replace("5", "\\u0035").replace("e", "\\u0065")


def test_a_key_in_place_of_its_variables_name_is_not_shown() -> None:
    """It may look like a name; what is asked of its reader is the name of a variable."""
    settings = openai_settings("http://x", key_env="sk_live_51ABCdef")
    with pytest.raises(SpecError, match="which is not set") as refused:
        read_key("model", settings, environment={})
    assert "51ABC" not in str(refused.value)


async def asked(
    handler: Handler, *, stream: bool, headers: dict[str, str] | None = None
) -> Generation:
    """Ask with the key, or with these headers in its place."""
    secret = None if headers else Secret(KEY, name="THE_KEY")
    async with Loopback(handler) as server:
        settings = openai_settings(server.url, stream=stream, headers=headers or {})
        async with OpenAIEndpoint(settings, name="model", key=secret) as endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))


def error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "code": f"c-{KEY}"}}).encode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 307, 401, 500])
@pytest.mark.parametrize(
    "body",
    [
        *(error("x" * fill + KEY) for fill in (60, 85, 185, 285, 290, 485, 490, 495)),
        *(b"x" * fill + KEY.encode() for fill in (60, 70, 75, 185, 190, 195)),
        *(b'{"' + b"x" * fill + ESCAPED.encode() for fill in (0, 60, 70)),
        KEY[:20].encode(),  # a page that breaks off
        error(KEY[:20]),
        error("x").replace(b'"x"', f'"{ESCAPED}"'.encode()),
    ],
)
def test_no_piece_of_a_key_is_passed_on(body: bytes, status: int, stream: bool) -> None:
    """Masked after it was cut, a key shows up to where the cut fell."""
    kind = "text/event-stream" if stream and status == 200 else "application/json"
    data = b"data: " + body + b"\n\n" if stream and status == 200 else body

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(data, status=status, content_type=kind, headers={"location": f"/?{KEY}"})

    generation = run(asked(handle, stream=stream))
    assert generation.failure is not None
    written = encode_generation(generation).decode()
    assert [piece for piece in PIECES if piece in written] == []


@given(before=st.text(max_size=20), most=st.integers(1, 60), cut=st.integers(0, len(KEY)))
def test_what_is_shown_of_a_text_holds_no_piece_of_the_key(
    before: str, most: int, cut: int
) -> None:
    """Law: wherever the text ends, and wherever it is cut."""
    secret = Secret(KEY, name="THE_KEY")
    text = before + KEY + "/" + KEY[:cut]
    said = shown(text, secret, most=most) + quoted(text.encode(), secret, most=most)
    assert [piece for piece in PIECES if piece in said] == []


@pytest.mark.parametrize("word", ["EMPTY", "none", "ollama", "x", "sk-no-key-required"])
def test_a_word_that_stands_for_no_key_is_taken_out_of_no_answer(word: str) -> None:
    """Clients ask for a key where servers want none; the answer "none" is not one."""
    assert Secret(word, name="K").masked(f"the answer is {word}") == f"the answer is {word}"


def test_json_nested_too_deep_to_be_searched_for_a_key_is_not_passed_on() -> None:
    """What was not searched may hold it."""
    value: object = KEY
    for _ in range(1200):
        value = [value]
    assert Secret(KEY, name="K").masked_json(value) is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "headers", [{"x-secret": KEY}, {"X-Gateway-Auth": f"Bearer {KEY}"}, {"x-team": KEY}]
)
def test_a_secret_header_quoted_back_is_masked_like_the_key(
    headers: dict[str, str], stream: bool
) -> None:
    """Gateways want secrets in headers of their own, and quote them in what they refuse."""

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(error(f"not allowed: {KEY}"), status=403)

    generation = run(asked(handle, stream=stream, headers=headers))
    assert generation.failure is not None
    written = encode_generation(generation).decode()
    assert "not allowed: [key]" in written
    assert [piece for piece in PIECES if piece in written] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP-Referer", "https://example.com"),
        ("x-title", "My evaluation of tokens"),
        ("accept", "application/json"),
        ("x-api-token", "EMPTY"),
        ("x-request-key", "blue"),
        ("x-none", ""),
    ],
)
def test_a_header_that_is_no_secret_is_taken_out_of_no_answer(name: str, value: str) -> None:
    """Its words are words of ordinary answers."""
    assert Secret.within(None, {name: value}) is None


def test_the_key_and_all_secret_headers_are_masked_at_once() -> None:
    """One may be a part of another: the longest goes first."""
    key = Secret(KEY, name="K")
    both = Secret.within(key, {"x-token": f"{KEY}-and-more", "x-pass": "hunter2hunter2"})
    assert both is not None
    assert both.reveal() == KEY
    assert both.masked(f"{KEY}-and-more, {KEY}, hunter2hunter2") == "[key], [key], [key]"
