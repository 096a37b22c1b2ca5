"""What a models file may say of a model: one frozen value for each adapter.

Only shapes and bounds; reading files and naming every fault is farm.adapters.models. Times are
in seconds, limits per minute are those of the whole run.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Filled = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
PerMinute = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Natural = Annotated[int, Meta(ge=0)]


class Common(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every model may have, whatever its adapter."""

    adapter: Filled
    model_version: str = ""  # part of an answer's identity: change it when the model changes
    concurrency: Annotated[int, Meta(ge=1, le=4096)] = 16  # the most calls at a time
    adaptive: bool = True  # find the concurrency the endpoint bears, between 1 and the above
    rpm: PerMinute | None = None
    tpm: PerMinute | None = None
    timeout_s: Seconds = 600.0  # for one call
    attempts: Annotated[int, Meta(ge=1, le=10)] = 6
    case_timeout_s: Seconds = 1800.0  # for the attempts of one case and the pauses between them
    patience_s: Seconds = 60.0  # how long an endpoint may be gone before the run stops
    price: str = ""  # the name in prices.toml, when it is not the model's


# What changes how a model is asked and not what it answers; headers may hold secrets.
_OPERATIONAL: Final = frozenset(
    {"concurrency", "adaptive", "rpm", "tpm", "timeout_s", "attempts", "case_timeout_s"}
    | {"patience_s", "price", "key_env", "idle_s", "headers"}
)


def deciding(settings: Common) -> dict[str, Any]:
    """Give what decides on a model's answers, as JSON values; never a secret."""
    given: dict[str, Any] = msgspec.to_builtins(settings)
    return {field: value for field, value in given.items() if field not in _OPERATIONAL}


class HttpSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models behind HTTP share."""

    model: Filled
    base_url: Filled
    key_env: str = ""  # the environment variable that holds the key
    stream: bool = False
    system: str = ""
    idle_s: Seconds = 300.0  # the longest silence within an answer
    headers: dict[str, str] = {}
    request: dict[str, Any] = {}  # goes into every request as it is


class OpenAISettings(HttpSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chat completions and completions, as OpenAI, vLLM, llama.cpp and Ollama serve them."""

    api: Literal["chat", "completions"] = "chat"
    logprobs: bool = False
    seed: Natural | None = None  # a sample's own seed is this plus its index


class AnthropicSettings(HttpSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages."""

    base_url: Filled = "https://api.anthropic.com"
    version: Filled = "2023-06-01"
    max_tokens: Annotated[int, Meta(ge=1)] = 1024


class CommandSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that is run for each call: request JSON in, generation JSON out."""

    argv: Annotated[tuple[Filled, ...], Meta(min_length=1)]
    environment: tuple[Filled, ...] = ("PATH", "HOME", "LANG")  # the variables it may see
    directory: str = ""
    model: str = ""  # told to the program


class RecordedSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of answers that are replayed."""

    file: Filled
    model: str = ""  # take the lines of this model alone


class MockSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The three mock models."""

    seed: Natural = 0
    accuracy: Share | None = None  # of `noisy`
    category: Filled = "arithmetic"  # of `biased`


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a scripted model does when asked: wait, then answer or fail.

    `times` is how often before the next step's turn comes; the last one stays.
    """

    task: str = ""  # "" is every task that has no steps of its own
    text: str = ""
    confidence: Share | None = None
    failure: str = ""  # a word of FAILURES
    retry_after_s: float | None = None
    delay_s: Annotated[float, Meta(ge=0)] = 0.0
    times: Annotated[int, Meta(ge=1)] = 1


class ScriptedSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that does what its script says, for tests and rehearsals."""

    steps: Annotated[tuple[Step, ...], Meta(min_length=1)]


class PluginSettings(Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adapter of another package; `options` are given to it as they are."""

    options: dict[str, Any] = {}
