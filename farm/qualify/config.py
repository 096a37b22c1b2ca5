"""What a qualification measures: the configuration of one served model, read and checked.

A configuration is provenance first. A field that is missing, or still says REQUIRED, is named;
`plan` shows what is missing, `run` refuses to measure without it. Nothing is guessed.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from farm.core.address import address_fault
from farm.errors import Problem, SpecError
from farm.qualify.manifest import is_required, read_fields, read_manifest

Filled = Annotated[str, Meta(min_length=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Gib = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
CacheMode = Literal["cold", "primed"]

LARGEST_CONTEXT: Final = 16 * 1024 * 1024
SMALLEST_CONTEXT: Final = 256
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HookCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that answers JSON with JSON, and the variables it may see."""

    command: Annotated[tuple[Filled, ...], Meta(min_length=1)]
    environment: tuple[Filled, ...] = ("PATH", "HOME", "LANG")
    timeout_s: Seconds = 120.0


# The name of a built-in hook, a command line, or a command with its settings.
Hook = Filled | Annotated[tuple[Filled, ...], Meta(min_length=1)] | HookCommand
Context = Annotated[int, Meta(ge=SMALLEST_CONTEXT, le=LARGEST_CONTEXT)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration of one model; the first fields have no default on purpose.

    Fields that may be null still have to be given: null says "there is none", silence nothing.
    Contexts and limits are in tokens, times in seconds.
    """

    model: Filled
    url: Filled
    nodes: Annotated[tuple[Filled, ...], Meta(min_length=1)]
    model_sha256: Filled
    engine_commit: Filled
    template_sha256: Filled
    engine_binary_sha256: str | None
    quantization: str | None
    draft_model: str | None
    draft_sha256: str | None
    reasoning_mode: str | bool | dict[str, Any] | None
    sampler: str | dict[str, Any] | None  # an object goes into every request
    max_context_per_request: Positive
    min_mem_available_gib: Gib
    min_disk_free_gib: Gib
    resource_check: Hook
    token_counter: Hook
    reset_cache: Hook
    protocol: Literal["chat_completions", "responses"] = "chat_completions"
    contexts: Annotated[tuple[Context, ...], Meta(min_length=1)] = (8192, 32768, 65536)
    concurrency: Annotated[tuple[Annotated[int, Meta(ge=1, le=64)], ...], Meta(min_length=1)] = (
        1,
        2,
        4,
    )
    repeats: Annotated[int, Meta(ge=1, le=100)] = 3
    cache_modes: Annotated[tuple[CacheMode, ...], Meta(min_length=1)] = ("cold", "primed")
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 512
    total_context: Positive | None = None  # what all slots share, where the server does not tell
    fixture_mode: Literal["equal_tokens", "fixed_bytes"] = "equal_tokens"
    fixture_seed: int = 0
    request_options: dict[str, Any] = {}
    api_key_env: str | None = None
    timeout_s: Seconds = 600.0
    hook_timeout_s: Seconds = 30.0  # for built-in hooks, the wait for idle slots included
    tokenizer: str | None = None  # a local file, for the counter `tokenizer`
    disk_path: Filled = "/"  # whose free space counts, on every node


# What identifies the thing measured, in the order it is shown. Two runs that differ in one of
# these are two experiments.
PROVENANCE: Final = (
    "model",
    "model_sha256",
    "engine_commit",
    "engine_binary_sha256",
    "template_sha256",
    "quantization",
    "draft_model",
    "draft_sha256",
    "reasoning_mode",
    "sampler",
    "protocol",
    "nodes",
    "max_context_per_request",
    "request_options",
)
# How the thing is reached and watched, which says nothing of it: a run may go on with others.
OPERATIONAL: Final = (
    "url",
    "api_key_env",
    "resource_check",
    "min_mem_available_gib",
    "min_disk_free_gib",
    "disk_path",
    "hook_timeout_s",
)
USAGE_OPTION: Final = "stream_options"  # asks for usage; null leaves it out of every request
_OWN_REQUEST_FIELDS: Final = frozenset(
    {
        "input", "max_completion_tokens", "max_output_tokens", "max_tokens", "messages", "model",
        "n", "store", "stream", USAGE_OPTION, "tools",
    }
)  # fmt: skip


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that may be incomplete: what is missing, by name, and the rest."""

    config: Config | None  # None when anything is missing
    missing: tuple[str, ...]
    known: dict[str, Any]  # every field that could be read, defaults filled in


def read_config(data: bytes, *, file: str) -> Manifest:
    """Read a configuration; raises `SpecError` naming every field that breaks a rule.

    Fields that are missing or REQUIRED are no problem here; they are listed in `missing`.
    """
    raw = read_manifest(data, file=file)
    if raw.get("protocol") in ("chat", "chat-completions"):
        raw["protocol"] = "chat_completions"
    known, problems = read_fields(raw, Config, file=file)
    missing = tuple(
        field.name
        for field in msgspec.structs.fields(Config)
        if is_required(raw.get(field.name)) or (field.required and field.name not in raw)
    )
    problems += _across_fields(known, file=file)
    if problems:
        raise SpecError(problems=problems)
    config = None if missing else Config(**known)
    return Manifest(config=config, missing=missing, known=known)


def complete_config(manifest: Manifest, *, file: str) -> Config:
    """Give the configuration, or refuse by name what it lacks."""
    if manifest.config is None:
        raise SpecError(
            problems=[
                Problem(
                    file,
                    "",
                    name,
                    "missing_provenance",
                    "is missing or still REQUIRED: say what is measured"
                    + (", or null when there is none" if _may_be_null(name) else ""),
                )
                for name in manifest.missing
            ]
        )
    return manifest.config


def config_sha256(config: Config) -> str:
    """Return the digest of everything a configuration says of what is measured and how."""
    values = msgspec.to_builtins(config)
    bare = {name: value for name, value in values.items() if name not in OPERATIONAL}
    return sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def operation_of(config: Config) -> dict[str, Any]:
    """Return the fields of `OPERATIONAL` as JSON values, the name of the key's variable apart."""
    values = msgspec.to_builtins(config)
    return {name: values[name] for name in OPERATIONAL if name != "api_key_env"}


def provenance_of(config: Config) -> dict[str, Any]:
    """Return the fields of `PROVENANCE` as JSON values."""
    values = msgspec.to_builtins(config)
    return {name: values[name] for name in PROVENANCE}


def _may_be_null(name: str) -> bool:
    return name in {
        "engine_binary_sha256",
        "quantization",
        "draft_model",
        "draft_sha256",
        "reasoning_mode",
        "sampler",
        "total_context",
    }


def _across_fields(known: dict[str, Any], *, file: str) -> list[Problem]:
    """Check what no single field can say."""
    problems: list[Problem] = []

    def refuse(field: str, rule: str, detail: str) -> None:
        problems.append(Problem(file, "", field, rule, detail))

    for name in ("contexts", "concurrency", "nodes", "cache_modes"):
        values = known.get(name, ())
        if len(set(values)) != len(values):
            refuse(name, "duplicate", f"names {_repeated(values)!r} twice: each once")
    fault = address_fault(known["url"]) if "url" in known else None
    if fault is not None:
        refuse("url", *fault)
    if not _VARIABLE.fullmatch(known.get("api_key_env") or "A"):
        detail = "must be the name of an environment variable, never the key itself"
        refuse("api_key_env", "not_a_variable", detail)
    limit = known.get("max_context_per_request")
    room = known["max_tokens"] + TOOL_TURN_TOKENS if "max_tokens" in known else 0
    for context in known.get("contexts", ()):
        if limit is not None and context + room > limit:
            refuse(
                "contexts",
                "no_room",
                f"{context} and {room} for output and tool turn are more than "
                f"max_context_per_request {limit}: leave it out or give the server more",
            )
    options = known.get("request_options", {})
    sampler = known.get("sampler")
    for name, given in (("request_options", options), ("sampler", sampler)):
        set_here = given if isinstance(given, dict) else {}
        taken = sorted(_OWN_REQUEST_FIELDS & set_here.keys())
        if taken == [USAGE_OPTION] and set_here[USAGE_OPTION] is None:
            continue
        if taken:
            refuse(name, "not_an_option", f"{taken[0]!r} is set by the qualification itself")
    if isinstance(sampler, dict):
        twice = sorted(name for name in sampler.keys() & options if sampler[name] != options[name])
        if twice:
            refuse(
                "request_options",
                "conflict",
                f"{twice[0]!r} is {options[twice[0]]!r} here and {sampler[twice[0]]!r} in sampler",
            )
    return problems


# Room that a slot must have beside context and output: the call, its response, the template.
TOOL_TURN_TOKENS: Final = 192


def _repeated(values: tuple[object, ...]) -> object:
    return next(value for value in values if values.count(value) > 1)
