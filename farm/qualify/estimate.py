"""What a run would do and cost, from the configuration alone: no request, no hook.

Tokens are upper bounds: every answer as long as it may be, no cache hit but in primed waves.
The time is what those tokens take at the assumed rates, one cell after another.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.qualify.cells import PHASES, Cell, matrix
from farm.qualify.config import PROVENANCE, TOOL_TURN_TOKENS, Manifest

_SHORT_PROMPT = 320  # tokens of the requests without the archive, at most


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds of a run."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    prefill_tokens_s: float  # assumed
    decode_tokens_s: float


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What `plan` prints."""

    model: str | None
    ready: bool
    missing: tuple[str, ...]
    provenance: dict[str, Any]
    cells: int
    matrix: tuple[Cell, ...]
    estimate: Estimate
    notes: tuple[str, ...]


def planned(manifest: Manifest, *, prefill_tokens_s: float, decode_tokens_s: float) -> Planned:
    """Return the plan of a configuration, complete or not; rates are in tokens a second."""
    known = manifest.known
    cells = matrix(
        contexts=known.get("contexts", ()),
        concurrency=known.get("concurrency", ()),
        repeats=known.get("repeats", 0),
        cache_modes=known.get("cache_modes", ()),
    )
    values = msgspec.to_builtins(known)
    return Planned(
        model=known.get("model"),
        ready=not manifest.missing,
        missing=manifest.missing,
        provenance={name: values[name] for name in PROVENANCE if name in values},
        cells=len(cells),
        matrix=cells,
        estimate=_estimate(
            cells,
            max_tokens=known.get("max_tokens", 0),
            prefill_tokens_s=prefill_tokens_s,
            decode_tokens_s=decode_tokens_s,
        ),
        notes=tuple(_notes(known)),
    )


def _estimate(
    cells: tuple[Cell, ...], *, max_tokens: int, prefill_tokens_s: float, decode_tokens_s: float
) -> Estimate:
    requests = prompt = completion = 0
    seconds = 0.0
    for cell in cells:
        primed = cell.cache == "primed"
        asked = len(PHASES) + primed
        # the tool turn holds the first conversation again, and so does a prime
        of_task = cell.context * (2 + primed) + TOOL_TURN_TOKENS + max_tokens + 2 * _SHORT_PROMPT
        requests += asked * cell.concurrency
        prompt += of_task * cell.concurrency
        completion += asked * max_tokens * cell.concurrency
        # streams share the prefill, each decodes at its own rate
        seconds += of_task * cell.concurrency / prefill_tokens_s
        seconds += asked * max_tokens / decode_tokens_s
    return Estimate(
        requests=requests,
        prompt_tokens=prompt,
        completion_tokens=completion,
        seconds=round(seconds, 1),
        prefill_tokens_s=prefill_tokens_s,
        decode_tokens_s=decode_tokens_s,
    )


def _notes(known: dict[str, Any]) -> list[str]:
    notes = [
        "cold is an empty prefix cache of the model, not a cold page cache or an unloaded model",
        "a prime proves no residency: only the server's own cached-token count does",
        "a closed loop says nothing of saturation",
        "the lock keeps other qualifications away, not other clients",
    ]
    for name in ("model_sha256", "template_sha256", "engine_binary_sha256", "draft_sha256"):
        value = known.get(name)
        if isinstance(value, str) and not (
            len(value) == 64 and all(c in "0123456789abcdef" for c in value.lower())
        ):
            notes.append(f"{name} {value!r:.80} is not 64 hex digits")
    return notes
