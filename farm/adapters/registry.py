"""From the name of an adapter to its settings and its endpoint; plugins stand beside our own.

An adapter's module is loaded by its first use: a run of mocks must not pay for HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from farm.adapters.lift import LiftedEndpoint
from farm.adapters.protocol import Endpoint, ModelAdapter
from farm.adapters.secret import Secret, variable_shown
from farm.adapters.settings import (
    AnthropicSettings,
    CommandSettings,
    Common,
    HttpSettings,
    MockSettings,
    OpenAISettings,
    PluginSettings,
    RecordedSettings,
    ScriptedSettings,
    deciding,
)
from farm.errors import SpecError

GROUP: Final = "farm.adapters"  # the entry-point group of plugins
PluginMaker = Callable[[str, Mapping[str, Any]], ModelAdapter]

_SETTINGS: Final[dict[str, type[Common]]] = {
    "openai": OpenAISettings,
    "anthropic": AnthropicSettings,
    "command": CommandSettings,
    "recorded": RecordedSettings,
    "rule_based": MockSettings,
    "noisy": MockSettings,
    "biased": MockSettings,
    "scripted": ScriptedSettings,
}


def adapter_names() -> tuple[str, ...]:
    """Return every adapter there is: farm's own in fixed order, then plugins, sorted."""
    return (*_SETTINGS, *sorted(_plugins().keys() - _SETTINGS.keys()))


def settings_type(adapter: str) -> type[Common] | None:
    """Return what a models file may say of an adapter, None when there is no such adapter."""
    own = _SETTINGS.get(adapter)
    if own is not None:
        return own
    return PluginSettings if adapter in _plugins() else None


def make_endpoint(name: str, settings: Common, *, environment: Mapping[str, str]) -> Endpoint:
    """Make the endpoint of a model; nothing is opened yet.

    Raises SpecError when a key is not in the environment, a recorded file cannot be read, or a
    plugin cannot be loaded.
    """
    if isinstance(settings, HttpSettings):
        return _http_endpoint(name, settings, environment)
    if isinstance(settings, CommandSettings):
        from farm.adapters.command import CommandEndpoint

        return CommandEndpoint(settings, name=name, environment=environment)
    adapter = _adapter(name, settings)
    return LiftedEndpoint(
        adapter,
        name=name,
        version=settings.model_version,
        identity={**deciding(settings), "content": getattr(adapter, "content", "")},
        threads=settings.concurrency,
    )


def read_key(name: str, settings: Common, *, environment: Mapping[str, str]) -> Secret | None:
    """Take a model's key from the environment, None where it has none.

    Raises SpecError for one that is not set, or that no header can carry.
    """
    if not isinstance(settings, HttpSettings) or not settings.key_env:
        return None
    if settings.key_env not in environment:
        raise SpecError(
            f"model {name!r}: its key is looked for in the environment variable "
            f"{variable_shown(settings.key_env)}, which is not set: set it and run again"
        )
    return Secret(environment[settings.key_env], name=settings.key_env)


def _http_endpoint(name: str, settings: HttpSettings, environment: Mapping[str, str]) -> Endpoint:
    key = read_key(name, settings, environment=environment)
    if isinstance(settings, AnthropicSettings):
        from farm.adapters.anthropic import AnthropicEndpoint

        return AnthropicEndpoint(settings, name=name, key=key)
    if isinstance(settings, OpenAISettings):
        from farm.adapters.openai import OpenAIEndpoint

        return OpenAIEndpoint(settings, name=name, key=key)
    raise SpecError(f"model {name!r}: {type(settings).__name__} has no adapter")


def _adapter(name: str, settings: Common) -> ModelAdapter:
    if isinstance(settings, MockSettings):
        return _mock(settings)
    if isinstance(settings, ScriptedSettings):
        from farm.adapters.scripted import ScriptedAdapter

        return ScriptedAdapter(settings.steps, model_id=name)
    if isinstance(settings, RecordedSettings):
        from farm.adapters.recorded import RecordedAdapter, read_recorded

        return RecordedAdapter(read_recorded(settings.file, model=settings.model), model_id=name)
    if isinstance(settings, PluginSettings):
        return _plugin(settings.adapter)(name, settings.options)
    raise SpecError(f"model {name!r}: {type(settings).__name__} has no adapter")


def _mock(settings: MockSettings) -> ModelAdapter:
    from farm.adapters.mock import BiasedAdapter, NoisyAdapter, RuleBasedAdapter

    if settings.adapter == "noisy":
        accuracy = 0.3 if settings.accuracy is None else settings.accuracy
        return NoisyAdapter(seed=settings.seed, accuracy=accuracy)
    if settings.adapter == "biased":
        return BiasedAdapter(category=settings.category)
    return RuleBasedAdapter()


def _plugins() -> dict[str, Any]:
    # only for names that are not ours: the import costs as much as a small run
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _plugin(adapter: str) -> PluginMaker:
    point = _plugins().get(adapter)
    if point is None:
        raise SpecError(f"adapter {adapter!r} is not installed: install the package that has it")
    try:
        make = point.load()
    except (ImportError, AttributeError) as error:
        raise SpecError(f"adapter {adapter!r} cannot be loaded: {error}") from error
    if not callable(make):
        raise SpecError(f"adapter {adapter!r}: its entry point is not a function")
    return make  # type: ignore[no-any-return]
