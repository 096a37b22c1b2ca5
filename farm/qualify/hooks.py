"""The operator's three hooks: is the device free, how many tokens is this, is the cache empty.

A hook is built in, named by a word, or a program that answers JSON with JSON. A built-in hook
believes bodies, not status codes: a server may say 200 and still not have done it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio

from farm.core.served import ControlReply
from farm.errors import NotPermitted, SpecError
from farm.qualify.config import Config, Hook, HookCommand
from farm.qualify.devicelease import DeviceLease
from farm.qualify.ports import Commands, Endpoint, LocalTokenizer
from farm.qualify.resources import NodeState, check_nodes, state_of_node

BUILT_IN: Final = {
    "resource_check": ("resources",),
    "token_counter": ("llama-count", "tokenizer"),
    "reset_cache": ("llama-reset", "vllm-reset", "sglang-reset"),
}
_FIGURES: Final = ("mem_available_gib", "disk_free_gib")
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


def check_hooks(config: Config) -> None:
    """Refuse a word that names no built-in hook, by the field it stands in."""
    for field, words in BUILT_IN.items():
        hook = getattr(config, field)
        if isinstance(hook, str) and hook not in words:
            raise SpecError(
                f"{field}: {hook!r} is not built in: give one of {', '.join(words)}, "
                "or a command as a list"
            )


class Hooks:
    """The hooks of one configuration, over the ports they act through."""

    def __init__(
        self,
        config: Config,
        lease: DeviceLease,
        *,
        endpoint: Endpoint,
        commands: Commands,
        tokenizer: LocalTokenizer | None = None,
    ) -> None:
        self._config = config
        self._lease = lease
        self._endpoint = endpoint
        self._commands = commands
        self._tokenizer = tokenizer

    async def check_resources(self) -> Mapping[str, Any]:
        """Confirm that every node is free and large enough; raises `NotPermitted`.

        Returns what was seen, by node. A program answers
        ``{"exclusive": true, "nodes": [{"node", "mem_available_gib", "disk_free_gib"}]}``.
        """
        config = self._config
        if config.resource_check == "resources":
            states = [
                await state_of_node(
                    node,
                    commands=self._commands,
                    disk_path=config.disk_path,
                    timeout_s=config.hook_timeout_s,
                )
                for node in config.nodes
            ]
        else:
            answer = await self._ask(
                config.resource_check,
                {
                    "hook": "resource_check",
                    "nodes": list(config.nodes),
                    "allowed_gpu_pids": list(self._lease.allowed_gpu_pids),
                    "min_mem_available_gib": config.min_mem_available_gib,
                    "min_disk_free_gib": config.min_disk_free_gib,
                },
            )
            if answer.get("exclusive") is not True:
                raise NotPermitted(
                    f"the resource hook does not confirm exclusive use, it says {_shown(answer)}: "
                    "end other work on the nodes, then run the same command again"
                )
            states = _told_states(answer, config.nodes)
        return check_nodes(states, config=config, lease=self._lease)

    async def wait_until_idle(self) -> None:
        """Wait for work that the server's slots still do; raises `NotPermitted` if it goes on.

        A run that was killed leaves requests behind for a moment; another client stays. Servers
        that tell of no slots are taken for idle.
        """
        await self._retry_until(self._busy_slots, refuse=self._not_alone)

    async def count_tokens(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> int:
        """Count the tokens of a conversation as the server will see it."""
        hook = self._config.token_counter
        if hook == "llama-count":
            return await self._llama_count(messages, tools)
        if hook == "tokenizer":
            if self._tokenizer is None:
                raise SpecError("token_counter 'tokenizer' needs the field tokenizer: a local file")
            return self._tokenizer.count(messages, tools)
        question = {
            "hook": "token_counter",
            "model": self._config.model,
            "url": self._config.url,
            "request": {
                "model": self._config.model,
                "messages": list(messages),
                "tools": list(tools),
                **template_options(self._config),
            },
        }
        answer = await self._ask(hook, question)
        count = answer.get("tokens", answer.get("count"))
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise NotPermitted(f"the token counter gives no {{'tokens': n}}: {_shown(answer)}")
        return count

    async def reset_cache(self) -> None:
        """Empty the model's prefix cache; raises `NotPermitted` unless it is known to be empty."""
        hook = self._config.reset_cache
        if hook == "llama-reset":
            await self._llama_reset()
        elif hook == "vllm-reset":
            await self._retry_until(self._vllm_reset, refuse=_not_cleared)
        elif hook == "sglang-reset":
            await self._retry_until(self._sglang_reset, refuse=_not_cleared)
        else:
            question = {
                "hook": "reset_cache",
                "model": self._config.model,
                "url": self._config.url,
                "nodes": list(self._config.nodes),
            }
            answer = await self._ask(hook, question)
            if answer.get("cleared") is not True:
                raise _not_cleared(f"the hook says {_shown(answer)}")

    async def _ask(self, hook: Hook, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(hook, HookCommand):
            argv = (hook,) if isinstance(hook, str) else hook
            hook = HookCommand(command=argv)
        return await self._commands.hook(
            hook.command, question, environment=hook.environment, timeout_s=hook.timeout_s
        )

    async def _llama_count(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> int:
        body = {"messages": list(messages), **template_options(self._config)}
        if tools:
            body["tools"] = list(tools)
        rendered = await self._control("POST", "/apply-template", body)
        prompt = rendered.get("prompt")
        if not isinstance(prompt, str):
            raise NotPermitted(f"/apply-template gives no prompt: {_shown(rendered)}")
        # as the server itself reads a rendered prompt: control tokens are tokens
        counted = await self._control(
            "POST", "/tokenize", {"content": prompt, "add_special": True, "parse_special": True}
        )
        tokens = counted.get("tokens")
        if not isinstance(tokens, list):
            raise NotPermitted(f"/tokenize gives no tokens: {_shown(counted)}")
        return len(tokens)

    async def _llama_reset(self) -> None:
        """Wait until every slot is idle, then erase each; the answer must name the slot."""
        await self._retry_until(self._llama_idle, refuse=_not_cleared)
        slots = await self._slots()
        for slot in slots:
            place = slot.get("id")
            path = f"/slots/{place}?action=erase"
            reply = await self._endpoint.control(
                "POST", path, {}, timeout_s=self._config.hook_timeout_s
            )
            body = reply.body if isinstance(reply.body, dict) else {}
            erased = body.get("n_erased")
            counted = type(erased) is int and erased >= 0  # True is no count
            if reply.status != 200 or body.get("id_slot") != place or not counted:
                raise _not_cleared(
                    f"slot {place} answers {_said(reply)}; start the server with --slot-save-path "
                    "when it does not support slot actions"
                )
        if any(slot.get("is_processing") for slot in await self._slots()):
            raise _not_cleared("a slot began to work while the slots were erased")

    async def _llama_idle(self) -> str:
        return _busy(await self._slots())

    async def _busy_slots(self) -> str:
        reply = await self._endpoint.control("GET", "/slots", timeout_s=self._config.hook_timeout_s)
        return _busy(reply.body) if reply.status == 200 and isinstance(reply.body, list) else ""

    def _not_alone(self, why: str) -> NotPermitted:
        return NotPermitted(
            f"{self._config.url}: {why}: somebody else uses the server, keep them away, "
            "then run the same command again"
        )

    async def _slots(self) -> list[Mapping[str, Any]]:
        reply = await self._endpoint.control("GET", "/slots", timeout_s=self._config.hook_timeout_s)
        slots = reply.body
        usable = isinstance(slots, list) and all(isinstance(one, dict) for one in slots)
        if reply.status != 200 or not slots or not usable:
            raise _not_cleared(f"/slots answers {_said(reply)}")
        return list(slots)

    async def _vllm_reset(self) -> str:
        reply = await self._endpoint.control(
            "POST", "/reset_prefix_cache", {}, timeout_s=self._config.hook_timeout_s
        )
        body = reply.body if isinstance(reply.body, dict) else {}
        if reply.status == 404:
            raise _not_cleared("there is no /reset_prefix_cache: set VLLM_SERVER_DEV_MODE=1")
        if reply.status == 200 and body.get("success") is True:
            return ""
        return f"/reset_prefix_cache answers {_said(reply)}"

    async def _sglang_reset(self) -> str:
        reply = await self._endpoint.control(
            "POST", "/flush_cache", {}, timeout_s=self._config.hook_timeout_s
        )
        if reply.status in (404, 405):
            raise _not_cleared(f"/flush_cache answers {_said(reply)}")
        body = reply.body if isinstance(reply.body, dict) else {}
        # newer ones answer an object, older ones a sentence; each can say no under a 200
        denied = body.get("success") is False or "not flushed" in reply.text.lower()
        confirmed = body.get("success") is True or "cache flushed" in reply.text.lower()
        if reply.status == 200 and confirmed and not denied:
            return ""
        return f"/flush_cache answers {_said(reply)}"

    async def _retry_until(
        self, attempt: Callable[[], Awaitable[str]], *, refuse: Callable[[str], NotPermitted]
    ) -> None:
        """Try until an attempt has nothing to complain of, for `hook_timeout_s` at most."""
        end = anyio.current_time() + self._config.hook_timeout_s
        pause = _FIRST_PAUSE_S
        while complaint := await attempt():
            if anyio.current_time() + pause >= end:
                raise refuse(f"{complaint} after {self._config.hook_timeout_s:g} s")
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _control(self, method: str, path: str, body: object) -> Mapping[str, Any]:
        reply = await self._endpoint.control(
            method, path, body, timeout_s=self._config.hook_timeout_s
        )
        if reply.status != 200 or not isinstance(reply.body, dict):
            raise NotPermitted(
                f"{path} answers {_said(reply)}: the built-in counter needs a llama.cpp server"
            )
        return reply.body


def template_options(config: Config) -> dict[str, Any]:
    """Return the request options that change what the template makes of a conversation."""
    names = (
        "chat_template_kwargs",
        "reasoning_format",
        "reasoning_effort",
        "add_generation_prompt",
    )
    return {name: config.request_options[name] for name in names if name in config.request_options}


def _told_states(answer: Mapping[str, Any], nodes: Sequence[str]) -> list[NodeState]:
    """Read what a program told of nodes: a list of objects, or objects by name.

    Figures beside them, and not in them, are those of every node; without `nodes` the answer is
    for all that were asked about.
    """
    told = answer.get("nodes")
    if told is None:
        told = list(nodes)
    if isinstance(told, dict):
        told = [{"node": node, **one} for node, one in told.items() if isinstance(one, dict)]
    states = []
    for one in told if isinstance(told, list) else []:
        known = {"node": one} if isinstance(one, str) else one
        if not isinstance(known, dict):
            continue
        name = known.get("node", known.get("name"))
        memory, disk = (_figure(known.get(word, answer.get(word))) for word in _FIGURES)
        if isinstance(name, str):
            states.append(NodeState(node=name, mem_available_gib=memory, disk_free_gib=disk))
    return states


def _figure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _busy(slots: Sequence[object]) -> str:
    busy = [one.get("id") for one in slots if isinstance(one, dict) and one.get("is_processing")]
    return f"slots {busy} are busy" if busy else ""


def _not_cleared(why: str) -> NotPermitted:
    return NotPermitted(
        f"the cache is not known to be empty, {why}: a cold cell cannot be measured; "
        "mend it, then run the same command again"
    )


def _said(reply: ControlReply) -> str:
    if reply.status == 0:
        return f"nothing ({reply.text})"
    return f"{reply.status} {_shown(reply.body) if reply.body is not None else repr(reply.text)}"


def _shown(value: object) -> str:
    return repr(value)[:200]
