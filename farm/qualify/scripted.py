"""A server with a script instead of a model, for rehearsals: `python -m farm.qualify.scripted`.

It speaks as llama.cpp's server does (slots that remember a prompt, templates, tokens, timings)
and does the task right, unless a fault is asked for. Its tokens are words and signs, so every
count can be checked by hand. It prints its port on one line and ends when its stdin does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

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


def application(script: Script) -> web.Application:
    """Return the server, ready to be run."""
    app = web.Application(client_max_size=64 * 1024 * 1024)

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def props(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "default_generation_settings": {"n_ctx": script.context_per_slot},
                "total_slots": len(script.slots),
                "chat_template": TEMPLATE,
                "build_info": "scripted-1",
                "model_path": "none: a script",
            }
        )

    async def slots(request: web.Request) -> web.Response:
        busy = False
        if script.has("busy_slots"):
            busy = script.busy_answers != 0
            script.busy_answers -= script.busy_answers > 0
        return web.json_response(
            [
                {
                    "id": slot.id,
                    "n_ctx": script.context_per_slot,
                    "is_processing": slot.busy or busy,
                }
                for slot in script.slots
            ]
        )

    async def erase(request: web.Request) -> web.Response:
        if script.has("no_erase"):
            message = "This server does not support slots action"
            return web.json_response({"error": {"message": message, "code": 501}}, status=501)
        slot = script.slots[int(request.match_info["id"])]
        erased = len(slot.prompt)
        slot.prompt = ()
        return web.json_response({"id_slot": slot.id, "n_erased": erased})

    async def template(request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response({"prompt": render(body["messages"], body.get("tools", []))})

    async def tokenize(request: web.Request) -> web.Response:
        count = len(tokens_of((await request.json())["content"]))
        return web.json_response({"tokens": list(range(count))})

    async def completions(request: web.Request) -> web.StreamResponse:
        return await _complete(request, script)

    app.router.add_get("/health", health)
    app.router.add_get("/props", props)
    app.router.add_get("/slots", slots)
    app.router.add_post("/slots/{id}", erase)
    app.router.add_post("/apply-template", template)
    app.router.add_post("/tokenize", tokenize)
    app.router.add_post("/v1/chat/completions", completions)
    return app


async def _complete(request: web.Request, script: Script) -> web.StreamResponse:
    body = await request.json()
    messages, tools = body["messages"], body.get("tools", [])
    phase = phase_of(messages)
    prompt = tokens_of(render(messages, tools))
    slot = await _take_slot(script, prompt)
    try:
        known = [slot.prompt] if body.get("cache_prompt", True) else []
        if script.has("sticky_cache"):
            known = script.remembered
        most = max((_shared(one, prompt) for one in known), default=0)
        cached = min(most, max(0, len(prompt) - 1))
        await asyncio.sleep((len(prompt) - cached) * script.prefill_s)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if request.transport is None:
            return response
        pieces = list(_pieces(script, messages, phase, max_tokens=body.get("max_tokens", 512)))
        await _event(response, _choice({"role": "assistant", "content": None}))
        for place, piece in enumerate(pieces):
            if place == len(pieces) // 2 and await _fails(request, response, script, phase):
                return response
            await asyncio.sleep(script.pause_s)
            await _event(response, _choice(piece))
        finish = "tool_calls" if "tool_calls" in pieces[-1] else "stop"
        await _event(response, _choice({}, finish=finish))
        await _end(response, script, prompt=len(prompt), cached=cached, made=len(pieces))
        slot.prompt = prompt
        script.remembered.append(prompt)
        return response
    finally:
        async with script.free:
            slot.busy = False
            script.free.notify()


async def _take_slot(script: Script, prompt: tuple[str, ...]) -> Slot:
    """Take the free slot that knows most of the prompt, waiting for one."""
    async with script.free:
        await script.free.wait_for(lambda: any(not slot.busy for slot in script.slots))
        free = [slot for slot in script.slots if not slot.busy]
        slot = max(free, key=lambda one: _shared(one.prompt, prompt))
        slot.busy = True
        return slot


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):  # the common beginning, whatever follows
        if left != right:
            break
        count += 1
    return count


def _pieces(
    script: Script, messages: Sequence[dict[str, Any]], phase: str, *, max_tokens: int
) -> list[dict[str, Any]]:
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


async def _fails(
    request: web.Request, response: web.StreamResponse, script: Script, phase: str
) -> bool:
    """Do the fault that ends an answer in its middle; tell whether there was one."""
    if script.has("cut", phase) and request.transport is not None:
        request.transport.abort()
        return True
    if script.has("midstream_error", phase):
        await _event(response, {"error": {"message": "out of memory", "code": 500}})
        await response.write(b"data: [DONE]\n\n")
        return True
    return False


async def _end(
    response: web.StreamResponse, script: Script, *, prompt: int, cached: int, made: int
) -> None:
    if script.has("late_usage"):
        await asyncio.sleep(0.2)
    if not script.has("no_usage"):
        counted = prompt + (200 if script.has("token_mismatch") else 0)
        usage: dict[str, Any] = {"prompt_tokens": counted, "completion_tokens": made}
        usage["total_tokens"] = counted + made
        took_ms = made * script.pause_s * 1000
        timings: dict[str, Any] = {
            "prompt_n": counted - cached,
            "predicted_n": made,
            "predicted_ms": took_ms,
            "predicted_per_second": made / (took_ms / 1000) if took_ms else 0.0,
        }
        if not script.has("no_cache_count"):
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
            timings["cache_n"] = cached
        if script.drafts:
            timings |= {"draft_n": 2 * made, "draft_n_accepted": made}
        await _event(response, {"choices": [], "usage": usage, "timings": timings})
    await response.write(b"data: [DONE]\n\n")


def _choice(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "scripted", "object": "chat.completion.chunk", "choices": [choice]}


async def _event(response: web.StreamResponse, value: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(value).encode() + b"\n\n")


async def serve(script: Script) -> None:
    """Serve on a free port of the loopback, say which, and end with stdin."""
    runner = web.AppRunner(application(script), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sockets = site._server.sockets  # type: ignore[union-attr]
        sys.stdout.write(json.dumps({"port": sockets[0].getsockname()[1]}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)
    finally:
        await runner.cleanup()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m farm.qualify.scripted", description=__doc__)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context", type=int, default=4096, help="tokens of each slot")
    parser.add_argument("--pause-s", type=float, default=0.01)
    parser.add_argument("--busy-answers", type=int, default=3, help="-1: for ever")
    parser.add_argument("--drafts", action="store_true")
    parser.add_argument("--fault", action="append", default=[], help=", ".join(FAULTS))
    given = parser.parse_args()
    script = Script(
        slots=[Slot(place) for place in range(given.slots)],
        context_per_slot=given.context,
        pause_s=given.pause_s,
        faults=frozenset(given.fault),
        drafts=given.drafts,
        busy_answers=given.busy_answers,
    )
    asyncio.run(serve(script))


if __name__ == "__main__":
    main()
