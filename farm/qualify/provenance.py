"""What was measured, with what, and what the server said of itself: provenance.json.

What the configuration claims and what was observed stand side by side; where they differ a
warning says so. Every invocation that worked on the run adds one entry.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from farm.qualify.config import Config, config_sha256, provenance_of
from farm.qualify.devicelease import DeviceLease
from farm.qualify.ports import Endpoint
from farm.qualify.workload import WINDOW

PROVENANCE_FILE: Final = "provenance.json"
SCHEMA: Final = 1
_TOLD: Final = ("build_info", "model_path", "model_alias", "model_ftype", "total_slots", "version")


async def observe_server(endpoint: Endpoint, *, config: Config) -> dict[str, Any]:
    """Ask the server what it is, by whatever of /props and /version it has."""
    seen: dict[str, Any] = {}
    for path in ("/props", "/version"):
        reply = await endpoint.control("GET", path, timeout_s=config.hook_timeout_s)
        body = reply.body if reply.status == 200 and isinstance(reply.body, dict) else {}
        seen |= {name: body[name] for name in _TOLD if isinstance(body.get(name), str | int)}
        settings = body.get("default_generation_settings")
        if isinstance(settings, dict) and isinstance(settings.get("n_ctx"), int):
            seen["context_per_slot"] = settings["n_ctx"]
        template = body.get("chat_template")
        if isinstance(template, str):
            digest = sha256(template.encode("utf-8", "surrogatepass")).hexdigest()
            seen["template_sha256"] = digest
    return seen


def invocation_of(
    lease: DeviceLease,
    server: Mapping[str, Any],
    *,
    operation: Mapping[str, Any],
    farm_version: str,
    now: float,
) -> dict[str, Any]:
    """Return the entry of one invocation; `operation` is how it reached the server."""
    return {
        "began_unix": now,
        "farm_version": farm_version,
        "python": platform.python_version(),
        "system": platform.platform(),
        "operation": dict(operation),
        "device_lease": msgspec.to_builtins(lease),
        "server": dict(server),
    }


def provenance_document(
    config: Config, *, run_id: str, before: Mapping[str, Any] | None, invocation: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document, the entries of earlier invocations kept."""
    earlier = list(before.get("invocations", [])) if before else []
    invocations = [*earlier, dict(invocation)]
    shown = msgspec.to_builtins(msgspec.structs.replace(config, api_key_env=None))
    return {
        "schema_version": SCHEMA,
        "run_id": run_id,
        "provenance": provenance_of(config),
        "config_sha256": config_sha256(config),
        "config": shown,
        "fixtures": {
            "mode": config.fixture_mode,
            "seed": config.fixture_seed,
            "window_tokens": WINDOW,
        },
        "percentiles": "nearest-rank",
        "invocations": invocations,
        "warnings": _warnings(config, invocations),
    }


def _warnings(config: Config, invocations: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for entry in invocations:
        template = entry["server"].get("template_sha256")
        if template is not None and template != config.template_sha256.lower():
            found.append(
                f"the server's template has sha256 {template}, the configuration says "
                f"{config.template_sha256}"
            )
        slots, each = entry["server"].get("total_slots"), entry["server"].get("context_per_slot")
        if (
            slots not in (None, 1)
            and each
            and max(config.concurrency) > 1
            and not (config.total_context)
        ):
            found.append(
                f"the server tells {each} tokens for each of {slots} slots, as it also does when "
                f"they share {each} (a unified cache): say in total_context what all of them have"
            )
    # a server that was not there described nothing
    told = [entry["server"] for entry in invocations if entry["server"]]
    servers = {msgspec.json.encode(server, order="sorted") for server in told}
    if len(servers) > 1:
        found.append("the server described itself differently in another invocation of this run")
    return list(dict.fromkeys(found))
