"""The quick reader of ordinary answers gives what the tolerant one gives, or steps aside."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from farm.adapters import chat
from farm.adapters.collect import Collector
from farm.adapters.exchange import Exchanged, generation_of
from farm.adapters.foreign import read_object
from farm.core.generation import Generation, Usage

ORDINARY = {
    "model": "m",
    "choices": [{"message": {"content": "four"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26},
}
# what servers were seen to send in each place, and what none should
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**70, 1.0, -0.5, "", " ", "x", "\ud800", "é", [], {}]),
    st.sampled_from([["x"], [None], {"message": "no"}, [{"logprob": -0.5}], {"content": "x"}]),
    st.just([{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
)


TEXTS = st.sampled_from(["four", "na\u00efve \U0001f600", "\ud83d", "x"])
PLACES = {
    (): ["model", "system_fingerprint", "object", "error", "choices", "usage", "timings"],
    ("usage",): ["prompt_tokens", "completion_tokens", "total_tokens", "input_tokens"],
    ("usage", "prompt_tokens_details"): ["cached_tokens"],
    ("usage", "completion_tokens_details"): ["reasoning_tokens"],
    ("choices", 0): ["message", "text", "finish_reason", "logprobs"],
    ("choices", 0, "message"): ["content", "refusal", "tool_calls", "reasoning"],
    ("choices", 0, "logprobs"): ["content", "token_logprobs"],
}
EDITS = st.sampled_from([(where, name) for where, names in PLACES.items() for name in names])


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Give an ordinary answer after up to four edits, each by something usual or odd."""
    body: dict[str, Any] = json.loads(json.dumps(ORDINARY))
    for where, name in draw(st.lists(EDITS, max_size=4)):
        place: Any = body
        for step in where:
            if isinstance(place, dict):
                place = place.setdefault(step, {})
            elif isinstance(place, list) and place and isinstance(step, int):
                place = place[step]
        if isinstance(place, dict):
            place[name] = deepcopy(draw(TEXTS | ODD))
    return body


def tolerant(body: dict[str, Any]) -> Generation:
    """Read as an answer of any shape is read."""
    out = Collector()
    chat.read_whole(body, out)
    return generation_of(Exchanged(reading=out.reading(streamed=False), failure=None))


@settings(max_examples=500)
@given(bodies())
@example(ORDINARY)
@example({**ORDINARY, "system_fingerprint": "fp"})
@example({**ORDINARY, "choices": [{"message": {"content": "a\ud83d"}, "finish_reason": "stop"}]})
@example({**ORDINARY, "error": {"message": "no"}})
@example({**ORDINARY, "object": "error"})
def test_an_answer_read_at_once_is_the_answer_read_with_care(body: dict[str, Any]) -> None:
    """Law: where the quick reader gives an answer, the tolerant one fails not and gives the same.

    The body passes through bytes first, as what a server sends does.
    """
    value = read_object(json.dumps(body).encode())
    assert value is not None
    quick = chat.read_ordinary(value)
    event("quick" if quick else "tolerant")
    if quick is None:
        return
    out = Collector()
    chat.read_whole(value, out)
    assert out.reading(streamed=False).status == "ok"
    assert quick == tolerant(dict(value))


def test_the_ordinary_answer_is_read_at_once() -> None:
    """Else nothing is gained: the shape that the interface's own documentation shows."""
    assert chat.read_ordinary(ORDINARY) == Generation(
        "four",
        usage=Usage(prompt_tokens=20, completion_tokens=6),
        finish_reason="stop",
        model_version="m",
    )


def test_what_has_more_to_it_is_left_to_the_tolerant_reader() -> None:
    """Log-probabilities, reasoning, tools, refusals and errors are not an ordinary answer."""
    message = {"content": "four"}
    for more in ("refusal", "tool_calls", "reasoning", "reasoning_content"):
        choice = {"message": {**message, more: "x"}, "finish_reason": "stop"}
        assert chat.read_ordinary({**ORDINARY, "choices": [choice]}) is None
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": [{}]}}
    assert chat.read_ordinary({**ORDINARY, "choices": [choice]}) is None
    assert chat.read_ordinary({**ORDINARY, "error": "x"}) is None
    assert chat.read_ordinary({**ORDINARY, "usage": None}) is None
