"""A server with a script instead of a model, for rehearsals: `python -m farm.qualify.scripted`.

It speaks as llama.cpp's server does (slots that remember a prompt, templates, tokens, timings)
and does the task right, unless a fault is asked for. Its tokens are words and signs, so every
count can be checked by hand. It prints its port on one line and ends when its stdin does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from farm.qualify.script import (
    FAULTS,
    TEMPLATE,
    Script,
    Slot,
    phase_of,
    pieces_of,
    render,
    shared,
    tokens_of,
)
from farm.qualify.voices import ChatVoice, ResponsesVoice, Voice, chat_messages, framed


def application(script: Script) -> web.Application:
    """Return the server, ready to be run.

    Longer than other functions: one small closure a path, with the table of paths at its end.
    """
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
        body = await request.json()
        return await _answer(request, script, body, messages=body["messages"], voice=ChatVoice())

    async def responses(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        tools = [{"type": "function", "function": tool} for tool in body.get("tools", [])]
        for tool in tools:
            tool["function"].pop("type", None)
        chat = {**body, "tools": tools, "max_tokens": body.get("max_output_tokens", 512)}
        messages = chat_messages(body["input"])
        return await _answer(request, script, chat, messages=messages, voice=ResponsesVoice())

    app.router.add_get("/health", health)
    app.router.add_get("/props", props)
    app.router.add_get("/slots", slots)
    app.router.add_post("/slots/{id}", erase)
    app.router.add_post("/apply-template", template)
    app.router.add_post("/tokenize", tokenize)
    app.router.add_post("/v1/chat/completions", completions)
    app.router.add_post("/v1/responses", responses)
    return app


async def _answer(
    request: web.Request,
    script: Script,
    body: dict[str, Any],
    *,
    messages: list[dict[str, Any]],
    voice: Voice,
) -> web.StreamResponse:
    """Answer a conversation as the script says, in the words of an interface."""
    phase = phase_of(messages)
    prompt = tokens_of(render(messages, body.get("tools", [])))
    pieces = pieces_of(script, messages, phase, max_tokens=body.get("max_tokens", 512))
    slot = await _take_slot(script, prompt)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    try:
        cached = _cached(script, slot, prompt, allowed=body.get("cache_prompt", True))
        await asyncio.sleep((len(prompt) - cached) * script.prefill_s)
        await response.prepare(request)
        await _say(response, voice.begin())
        for place, piece in enumerate(pieces):
            if place == len(pieces) // 2 and await _fails(request, response, script, phase):
                return response
            await asyncio.sleep(script.pause_s)
            await _say(response, voice.piece(piece))
        await _say(response, voice.finish("tool_calls" if "tool_calls" in pieces[-1] else "stop"))
        if script.has("late_usage"):
            await asyncio.sleep(0.2)
        costs = _costs(script, prompt=len(prompt), cached=cached, made=len(pieces))
        await _say(response, voice.usage(*costs))
        if voice.done:
            await response.write(voice.done)
        slot.prompt = prompt
        script.remembered.append(prompt)
        return response
    except ConnectionResetError:
        return response  # the client has left; nobody is to be told
    finally:
        async with script.free:
            slot.busy = False
            script.free.notify()


def _cached(script: Script, slot: Slot, prompt: tuple[str, ...], *, allowed: bool) -> int:
    """Return how many tokens of a prompt are known; the last one is always computed again."""
    known = [slot.prompt] if allowed else []
    if script.has("sticky_cache"):
        known = script.remembered
    most = max((shared(one, prompt) for one in known), default=0)
    return min(most, max(0, len(prompt) - 1))


async def _take_slot(script: Script, prompt: tuple[str, ...]) -> Slot:
    """Take the free slot that knows most of the prompt, waiting for one."""
    async with script.free:
        await script.free.wait_for(lambda: any(not slot.busy for slot in script.slots))
        free = [slot for slot in script.slots if not slot.busy]
        slot = max(free, key=lambda one: shared(one.prompt, prompt))
        slot.busy = True
        return slot


async def _fails(
    request: web.Request, response: web.StreamResponse, script: Script, phase: str
) -> bool:
    """Do the fault that ends an answer in its middle; tell whether there was one."""
    if script.has("cut", phase) and request.transport is not None:
        request.transport.abort()
        return True
    if script.has("midstream_error", phase):
        await _say(response, [{"error": {"message": "out of memory", "code": 500}}])
        await response.write(ChatVoice.done)
        return True
    return False


def _costs(
    script: Script, *, prompt: int, cached: int, made: int
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return usage and timings, None of each when the script is silent."""
    if script.has("no_usage"):
        return None, None
    counted = prompt + (200 if script.has("token_mismatch") else 0)
    usage: dict[str, Any] = {
        "prompt_tokens": counted,
        "completion_tokens": made,
        "total_tokens": counted + made,
    }
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
    return usage, timings


async def _say(response: web.StreamResponse, events: list[Any]) -> None:
    for event in events:
        await response.write(framed(event))


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
