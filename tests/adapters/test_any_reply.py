"""Whatever a server sends, a call ends with a generation that can be written down."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from farm.adapters.advice import retry_after
from farm.adapters.anthropic import AnthropicEndpoint
from farm.adapters.measured import MeasuredEndpoint
from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.settings import AnthropicSettings
from farm.core.generation import Generation, decode_generation, encode_generation
from farm.core.served import Served
from tests.adapters.asking import openai_settings, task
from tests.adapters.loopback import Loopback, Received, Wire, run

# what the dialects look for, so that odd values come where they are looked at
NAMES = [
    *("choices", "message", "delta", "content", "text", "refusal", "reasoning", "tool_calls"),
    *("function", "name", "arguments", "index", "id", "finish_reason", "logprobs", "logprob"),
    *("token_logprobs", "usage", "prompt_tokens", "completion_tokens", "prompt_tokens_details"),
    *("cached_tokens", "model", "system_fingerprint", "error", "code", "type", "object"),
    *("timings", "predicted_n", "predicted_per_second", "input", "stop_reason", "content_block"),
]
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
WORDS = st.sampled_from(
    [
        *("", "stop", "\ud800", "\u00b2", "9" * 5000, "error", "text", "tool_use", "429"),
        *("message_start", "message_delta", "content_block_start", "message_stop"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1e308, -1e999, 2**53])
    | st.floats()
    | TEXTS
    | WORDS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | TEXTS, inner, max_size=5)
    ),
    max_leaves=12,
)


def choice(**more: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "4"}
    return {"index": 0, "message": said, "delta": said, "finish_reason": "stop", **more}


@st.composite
def replies(draw: st.DrawFn) -> Any:
    """An answer as it should be, with some of its fields as they should not."""
    named = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
    one = choice(**draw(named))
    for part in ("message", "delta"):
        if isinstance(one[part], dict):
            one[part] = {**one[part], **draw(named)}
    reply = {"type": draw(WORDS), "model": "m", "choices": [one], **draw(named)}
    return draw(st.just(reply) | VALUES)


BODIES = (replies().map(lambda value: json.dumps(value).encode())) | st.binary(max_size=60)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry", "location", "x-odd"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
    | st.sampled_from(["Mon, 01 Jan 2027 00:00:00 +99999999999999999999", "\u00b2"]),
    max_size=3,
)
DEEP = b'{"error":{"code":' + b"[" * 900 + b"]" * 900 + b"}}"
DEEP_USAGE = b'{"usage":{"x":' + b"[" * 900 + b"]" * 900 + b"}}"
DEEP_ARGUMENTS = (
    json.dumps({"choices": [choice(message={"tool_calls": [{"function": {"arguments": 7}}]})]})
    .replace("7", '{"x":' + "[" * 900 + "]" * 900 + "}")
    .encode()
)
SQUARED = b'{"error":{"code":"\\u00b2"}}'
OVERFLOWING = json.dumps(
    {"choices": [choice(logprobs={"content": [{"logprob": -1.7e308}] * 2})]}
).encode()


async def asked(
    body: bytes, *, streamed: bool, anthropic: bool, status: int, headers: dict[str, str]
) -> Generation:
    """Ask one question of a server that sends this body to it, whole or as one event."""
    kind = "text/event-stream" if streamed else "application/json"
    data = b"data: " + body + b"\n\n" if streamed else body

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(data, status=status, content_type=kind, headers=headers)

    async with Loopback(handle) as server:
        endpoint: OpenAIEndpoint | AnthropicEndpoint
        if anthropic:
            given_ = AnthropicSettings(
                adapter="anthropic", base_url=server.url, model="m", stream=streamed, max_tokens=9
            )
            endpoint = AnthropicEndpoint(given_, name="model")
        else:
            endpoint = OpenAIEndpoint(openai_settings(server.url, stream=streamed), name="model")
        async with endpoint:
            return await endpoint.send(endpoint.request("p", task(), sample=0))


@given(
    body=BODIES,
    streamed=st.booleans(),
    anthropic=st.booleans(),
    status=st.sampled_from([200, 200, 200, 307, 400, 429, 503]),
    headers=HEADERS,
)
@example(body=OVERFLOWING, streamed=False, anthropic=False, status=200, headers={})
@example(body=SQUARED, streamed=False, anthropic=False, status=200, headers={})
@settings(deadline=None, max_examples=250)
def test_any_reply_gives_a_generation_that_can_be_kept(
    body: bytes, streamed: bool, anthropic: bool, status: int, headers: dict[str, str]
) -> None:
    """Law: no exception, and what is written down is read again as it was."""
    generation = run(
        asked(body, streamed=streamed, anthropic=anthropic, status=status, headers=headers)
    )
    assert decode_generation(encode_generation(generation)) == generation


@pytest.mark.parametrize("logprob", ["-1.7e308", "-Infinity", "-1e999"])
def test_log_probabilities_whose_sum_is_not_finite_give_no_figures(logprob: str) -> None:
    """Infinity is written down as null, and a sum read as null is another than the one judged."""
    one = b'{"logprob": ' + logprob.encode() + b"}"
    body = json.dumps({"choices": [choice(logprobs={"content": ["HERE"]})], "usage": {}})
    data = body.encode().replace(b'"HERE"', one + b"," + one)
    generation = run(asked(data, streamed=False, anthropic=False, status=200, headers={}))
    assert generation.text == "4"
    assert (generation.token_nll, generation.confidence) == (None, None)
    assert "logprobs_out_of_range" in generation.warnings


@pytest.mark.parametrize("streamed", [False, True])
def test_a_log_probability_that_stands_for_very_unlikely_gives_no_figures(streamed: bool) -> None:
    """OpenAI says so by -9999.0; taken for a number it makes the confidence 0, whatever else."""
    told = {"content": [{"logprob": -0.5}, {"logprob": -9999.0}]}
    body = json.dumps({"choices": [choice(logprobs=told)], "usage": {}}).encode()
    generation = run(asked(body, streamed=streamed, anthropic=False, status=200, headers={}))
    assert generation.text == "4"
    assert (generation.token_nll, generation.confidence) == (None, None)
    assert "logprobs_not_told" in generation.warnings


def test_half_a_character_is_replaced_wherever_it_stands() -> None:
    """JSON can write a surrogate without its partner, UTF-8 cannot."""
    half = "a\ud800"
    message = {"content": half, "tool_calls": [{"function": {"name": half, "arguments": half}}]}
    body = {"model": half, "choices": [choice(message=message, finish_reason=half)]}
    data = json.dumps(body).encode()
    generation = run(asked(data, streamed=False, anthropic=False, status=200, headers={}))
    whole = "a\ufffd"
    assert (generation.text, generation.finish_reason, generation.model_version) == (whole,) * 3
    assert [(call.name, call.arguments) for call in generation.tool_calls] == [(whole, whole)]


@pytest.mark.parametrize("code", ["\u00b2", "9" * 5000, "\ud800"])
def test_a_code_that_is_no_status_is_an_ordinary_error(code: str) -> None:
    """`isdigit` takes a power of two for a digit, and `int` refuses 5,000 of them."""
    data = json.dumps({"error": {"message": "no", "code": code}}).encode()
    generation = run(asked(data, streamed=False, anthropic=False, status=200, headers={}))
    assert generation.failure is not None
    assert (generation.failure.kind, generation.failure.detail) == ("server", "no")


@pytest.mark.parametrize(
    "text",
    ["Mon, 01 Jan 2027 00:00:00 +99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "\u00b2"],
)
def test_a_wait_that_cannot_be_meant_is_none(text: str) -> None:
    """The second is 8,000 years away."""
    assert retry_after({"retry-after": text}, now=0.0) is None


def test_a_content_in_parts_is_the_text_of_its_parts() -> None:
    """Whole and streamed; parts that are no text say nothing."""
    parts = [{"type": "text", "text": "fo"}, {"type": "image", "text": "x"}, 5, {"text": "ur"}]
    said = {"content": parts}
    data = json.dumps({"choices": [choice(message=said, delta=said)]}).encode()
    for streamed in (False, True):
        generation = run(asked(data, streamed=streamed, anthropic=False, status=200, headers={}))
        assert (generation.text, generation.failure) == ("four", None)


async def measured(body: bytes, *, kind: str, protocol: str, status: int) -> Served:
    """Make one measured call to a server that sends this body."""
    data = b"data: " + body + b"\n\n" if kind == "text/event-stream" else body

    async def handle(received: Received, wire: Wire) -> None:
        await wire.reply(data, status=status, content_type=kind)

    async with (
        Loopback(handle) as server,
        MeasuredEndpoint(server.url, connections=1, timeout_s=20) as endpoint,
    ):
        return await endpoint.stream(b"{}", protocol=protocol, request_id="r")


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_objects_too_deep_to_be_written_are_not_told(kind: str) -> None:
    """Apart from the laws: hypothesis lets Python recurse deeper than it does in a run."""
    served = run(measured(DEEP_USAGE, kind=kind, protocol="chat_completions", status=200))
    assert not served.usage
    for body in (DEEP, DEEP_ARGUMENTS):
        generation = run(asked(body, streamed=False, anthropic=False, status=200, headers={}))
        assert decode_generation(encode_generation(generation)) == generation


@given(
    body=BODIES,
    kind=st.sampled_from(["text/event-stream", "application/json"]),
    protocol=st.sampled_from(["chat_completions", "responses"]),
    status=st.sampled_from([200, 200, 500]),
)
@settings(deadline=None, max_examples=150)
def test_any_reply_to_a_measured_call_can_be_written_down(
    body: bytes, kind: str, protocol: str, status: int
) -> None:
    """Law: the same for the calls that qualify a server, which keep its own objects as well."""
    served = run(measured(body, kind=kind, protocol=protocol, status=status))
    assert msgspec.json.encode(served)
