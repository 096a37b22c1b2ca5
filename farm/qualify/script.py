"""What the scripted server knows: its tokens, its slots, its faults, and the right answers.

How it is spoken to is `farm.qualify.scripted`, how it speaks `farm.qualify.voices`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

TEMPLATE: Final = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
FAULTS: Final = {
    "busy_slots": "the slots say that they work, for the first questions or for ever",
    "cut": "the connection ends in mid-answer, in the phase after the colon",
    "late_usage": "usage comes 0.2 s after the last text",
    "midstream_error": "an error object comes after a 200, in the phase after the colon",
    "no_cache_count": "neither usage nor timings say what was cached",
    "no_erase": "the slots cannot be erased: 501",
    "no_usage": "usage and timings never come",
    "sticky_cache": "the server says that it forgets and remembers every prompt",
    "token_mismatch": "the server counts 200 tokens more than its tokenizer",
    "wrong_arguments": "the call has another key",
    "wrong_tool": "the call is of another tool",
}
SOLUTION: Final = """def invoice_total(rows):
    total = 0
    for row in rows:
        quantity = row["quantity"]
        price = row["unit_price_cents"]
        discount = row.get("discount_percent", 0)
        if discount is None:
            discount = 0
        if quantity < 0 or price < 0 or discount < 0 or discount > 100:
            raise ValueError("invalid row")
        total += quantity * price * (100 - discount) // 100
    return total
"""
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_RECORD: Final = re.compile(r"\{[^{}]*unit_price_cents[^{}]*\}")
_CHANGED: Final = re.compile(r"changed the quantity to (\d+)")


@dataclass(slots=True)
class Slot:
    """A slot and the prompt it remembers."""

    id: int
    prompt: tuple[str, ...] = ()
    busy: bool = False


@dataclass(slots=True, kw_only=True)
class Script:
    """How the server behaves; `faults` are words of `FAULTS`, some with a phase after a colon."""

    slots: list[Slot]
    context_per_slot: int = 4096
    pause_s: float = 0.01  # between chunks
    prefill_s: float = 0.00002  # for each token that is not cached
    faults: frozenset[str] = frozenset()
    drafts: bool = False
    busy_answers: int = 3
    remembered: list[tuple[str, ...]] = field(default_factory=list)  # every prompt ever
    free: asyncio.Condition = field(default_factory=asyncio.Condition)

    def has(self, fault: str, phase: str = "") -> bool:
        """Tell whether a fault is asked for, in this phase."""
        return fault in self.faults or f"{fault}:{phase}" in self.faults


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a text: words and signs."""
    return tuple(_TOKEN.findall(text))


def render(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """Return a conversation as one prompt, tools first."""
    parts = [json.dumps(tools)] if tools else []
    for message in messages:
        calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        parts.append(f"<|{message['role']}|>\n{message.get('content') or ''}{calls}")
    return "\n".join([*parts, "<|assistant|>\n"])


def phase_of(messages: Sequence[dict[str, Any]]) -> str:
    """Return which phase of the task a conversation is in."""
    last = messages[-1]
    if last["role"] == "tool":
        return "appended_tool_turn"
    if "invoice_total" in last["content"]:
        return "code_holdout"
    return "client_compaction" if _CHANGED.search(last["content"]) else "initial"


def answer_to(messages: Sequence[dict[str, Any]], phase: str) -> str:
    """Return the right answer of a phase that answers in text."""
    if phase == "code_holdout":
        return f"```python\n{SOLUTION}```"
    found = _RECORD.search(messages[-1]["content"])
    record = json.loads(found.group()) if found else {"unit_price_cents": 0, "quantity": 0}
    changed = _CHANGED.search(messages[-1]["content"])
    quantity = int(changed.group(1)) if changed else record["quantity"]
    return f"TOTAL_CENTS={record['unit_price_cents'] * quantity}"


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many tokens two prompts have in common at their beginning."""
    count = 0
    for left, right in zip(one, other, strict=False):  # the common beginning, whatever follows
        if left != right:
            break
        count += 1
    return count


def pieces_of(
    script: Script, messages: Sequence[dict[str, Any]], phase: str, *, max_tokens: int
) -> list[dict[str, Any]]:
    """Return what an answer is made of, each piece one token, as deltas of chat completions."""
    if phase == "initial":
        name = "write_record" if script.has("wrong_tool") else "read_record"
        key = "sku-74" if script.has("wrong_arguments") else "sku-73"
        call = f"call_{messages[0]['content'][:8]}"
        opened = {"index": 0, "id": call, "type": "function", "function": {"name": name}}
        arguments = ['{"key":', f'"{key}"', "}"]
        return [
            {"tool_calls": [opened]},
            *({"tool_calls": [{"index": 0, "function": {"arguments": a}}]} for a in arguments),
        ]
    text = answer_to(messages, phase)
    parts = text.splitlines(keepends=True) if "\n" in text else re.findall(r"[^=]+=?|=", text)
    return [{"content": part} for part in parts[:max_tokens]]
