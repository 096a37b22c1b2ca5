"""Hooks believe bodies, not status codes: each meets a server that says yes and means no."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from farm.adapters.measured import MeasuredEndpoint
from farm.errors import NotPermitted
from farm.qualify.cells import Cell
from farm.qualify.config import Config, complete_config, read_config
from farm.qualify.devicelease import DeviceLease
from farm.qualify.hooks import Hooks
from farm.qualify.preflight import check_room, preflight, slot_room
from farm.qualify.resources import NodeState, check_nodes, read_state
from farm.wiring_qualify import OperatorCommands
from tests.qualify.servers import COMPLETE

Replies = dict[tuple[str, str], Any]  # (method, path) -> status and body, or a list of them in turn
CELL = Cell(index=0, context=512, concurrency=2, repeat=0, cache="cold")


def config_of(**changes: Any) -> Config:
    raw = {**COMPLETE, "url": "http://127.0.0.1:1", "hook_timeout_s": 1, **changes}
    return complete_config(read_config(json.dumps(raw).encode(), file="c"), file="c")


def lease_of(**changes: Any) -> DeviceLease:
    given: dict[str, Any] = {
        "nodes": ("localhost",),
        "expires_unix": time.time() + 60,
        "lock_path": "/unused",
        "allowed_gpu_pids": (),
    }
    return DeviceLease(**{**given, **changes})


def against(replies: Replies, act: Callable[[Hooks], Coroutine[Any, Any, Any]], **changes: Any):
    """Let hooks act on a server with these replies; give what they return and what was asked."""
    asked: list[tuple[str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        text = await request.text()
        place = (request.method, request.path_qs)
        asked.append((*place, json.loads(text) if text else None))
        said = replies.get(place, (404, {"error": "no such path"}))
        if isinstance(said, list):
            said = said.pop(0) if len(said) > 1 else said[0]
        status, body = said
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.json_response(body, status=status)

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        try:
            async with MeasuredEndpoint(
                f"http://127.0.0.1:{port}", connections=2, timeout_s=5
            ) as endpoint:
                hooks = Hooks(
                    config_of(**changes), lease_of(), endpoint=endpoint, commands=OperatorCommands()
                )
                return await act(hooks)
        finally:
            await runner.cleanup()

    return asyncio.run(run()), asked


def reset(hooks: Hooks) -> Coroutine[Any, Any, None]:
    return hooks.reset_cache()


IDLE = [{"id": 0, "is_processing": False}, {"id": 1, "is_processing": False}]
BUSY = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}]
ERASE = "/slots/{}?action=erase"


def test_llama_reset_waits_for_idle_slots_and_erases_each() -> None:
    """Busy twice, then idle; both slots are erased, in order, and looked at again."""
    replies: Replies = {
        ("GET", "/slots"): [(200, BUSY), (200, BUSY), (200, IDLE)],
        ("POST", ERASE.format(0)): (200, {"id_slot": 0, "n_erased": 10}),
        ("POST", ERASE.format(1)): (200, {"id_slot": 1, "n_erased": 0}),
    }
    _, asked = against(replies, reset)
    paths = [path for method, path, _ in asked if method == "POST"]
    assert paths == [ERASE.format(0), ERASE.format(1)]


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ({("GET", "/slots"): (200, BUSY)}, r"slots \[0\] are busy after 1 s"),
        ({("GET", "/slots"): (501, {"error": "off"})}, "/slots answers 501"),
        ({("GET", "/slots"): (200, [])}, "/slots answers 200"),
        (
            {("GET", "/slots"): (200, IDLE), ("POST", ERASE.format(0)): (501, {"error": "no"})},
            "--slot-save-path",
        ),
        ({("GET", "/slots"): (200, IDLE), ("POST", ERASE.format(0)): (200, {})}, "slot 0 answers"),
        *(
            (
                {("GET", "/slots"): (200, IDLE), ("POST", ERASE.format(0)): (200, told)},
                "slot 0 answers",
            )
            for told in (
                {"id_slot": 1, "n_erased": 3},
                {"id_slot": 0, "n_erased": True},
                {"id_slot": 0, "n_erased": -1},
            )
        ),
    ],
)
def test_llama_reset_without_its_proof_is_a_refusal(replies: Replies, why: str) -> None:
    """A cold cell needs an empty cache, not a polite answer."""
    with pytest.raises(NotPermitted, match=why):
        against(replies, reset)


def idle(hooks: Hooks) -> Coroutine[Any, Any, None]:
    return hooks.wait_until_idle()


def test_a_server_at_work_is_waited_for_and_another_client_is_a_refusal() -> None:
    """What a killed run left behind ends; who stays is not ours, in a primed cell as in a cold."""
    slots = ("GET", "/slots")
    _, asked = against({slots: [(200, BUSY), (200, BUSY), (200, IDLE)]}, idle)
    assert len(asked) == 3
    with pytest.raises(NotPermitted, match=r"slots \[0\] are busy after 1 s: somebody else"):
        against({slots: (200, BUSY)}, idle)


@pytest.mark.parametrize("said", [(404, {}), (501, {}), (200, {"a": 1}), (200, [3, None])])
def test_a_server_that_tells_of_no_slots_is_taken_for_idle(said: Any) -> None:
    """vLLM and SGLang have none."""
    against({("GET", "/slots"): said}, idle)


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        ((200, {"success": True}), True),
        ((200, {"success": False}), False),  # what a status check takes for success
        ((200, {}), False),
        ((200, ""), False),
        ((404, {}), False),
        ([(200, {"success": False}), (200, {"success": True})], True),
    ],
)
def test_vllm_reset_reads_success(said: Any, ok: bool) -> None:
    """The server answers 200 with {"success": bool}."""
    replies: Replies = {("POST", "/reset_prefix_cache"): said}
    if ok:
        against(replies, reset, reset_cache="vllm-reset")
        return
    with pytest.raises(NotPermitted, match="not known to be empty"):
        against(replies, reset, reset_cache="vllm-reset")


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        ((200, "Cache flushed.\nPlease check backend logs"), True),
        ((200, {"success": True}), True),
        ((200, {"success": False, "message": "running"}), False),
        ((200, ""), False),
        ((400, "Cache flushed."), False),
        ([(400, "not flushed"), (200, "Cache flushed.")], True),
    ],
)
def test_sglang_reset_reads_the_body_and_tries_again(said: Any, ok: bool) -> None:
    """It answers 400 while anything runs; older ones answer a sentence."""
    replies: Replies = {("POST", "/flush_cache"): said}
    if ok:
        against(replies, reset, reset_cache="sglang-reset")
        return
    with pytest.raises(NotPermitted, match="not known to be empty"):
        against(replies, reset, reset_cache="sglang-reset")


def test_llama_count_renders_with_the_tools_and_counts_control_tokens() -> None:
    """Both requests carry what the server itself would do."""
    replies: Replies = {
        ("POST", "/apply-template"): (200, {"prompt": "<s>hi"}),
        ("POST", "/tokenize"): (200, {"tokens": [1, 2, 3]}),
    }
    tools = [{"type": "function", "function": {"name": "f"}}]
    count, asked = against(
        replies,
        lambda hooks: hooks.count_tokens([{"role": "user", "content": "hi"}], tools),
        request_options={"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1},
    )
    assert count == 3
    assert asked[0][2] == {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": tools,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert asked[1][2] == {"content": "<s>hi", "add_special": True, "parse_special": True}


def test_a_counter_that_is_not_there_is_a_refusal() -> None:
    """Another server than llama.cpp's."""
    with pytest.raises(NotPermitted, match="/apply-template answers 404"):
        against({}, lambda hooks: hooks.count_tokens([], []))


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "hook.py"
    path.write_text(text, "utf-8")
    return [sys.executable, str(path)]


ECHO = "import json,sys,os; q=json.load(sys.stdin); print(json.dumps({}))"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"cleared": q["hook"] == "reset_cache"}', None),
        ('{"cleared": "true"}', "the hook says"),
        ('{"cleared": False}', "the hook says"),
        ('{"ok": True}', "the hook says"),
        ("[1]", "JSON object"),
    ],
)
def test_a_reset_program_must_say_cleared(tmp_path: Path, answer: str, why: str | None) -> None:
    """{"cleared": true} and nothing like it."""
    command = program(tmp_path, ECHO.format(answer))
    if why is None:
        against({}, reset, reset_cache=command)
        return
    with pytest.raises(NotPermitted, match=why):
        against({}, reset, reset_cache=command)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sys; sys.exit(3)", "ended with 3"),
        ("print('{')", "did not answer with JSON"),
        ("import time; time.sleep(60)", "did not end within 0.5 s"),
        ("print('x' * 2_000_000)", "more than|did not answer"),
    ],
)
def test_a_program_that_does_not_do_its_work_is_a_refusal(
    tmp_path: Path, text: str, why: str
) -> None:
    """It is named, and ended when its time is over."""
    hook = {"command": program(tmp_path, text), "timeout_s": 0.5 if "sleep" in text else 30}
    with pytest.raises(NotPermitted, match=why):
        against({}, reset, reset_cache=hook)


def test_a_program_that_never_stops_talking_is_ended_and_not_kept(tmp_path: Path) -> None:
    """A MiB is the most that is held of it, whatever time it would have."""
    hook = {"command": ["sh", "-c", "yes"], "timeout_s": 60}
    with pytest.raises(NotPermitted, match="said more than 1048576 bytes"):
        against({}, reset, reset_cache=hook)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_a_program_leaves_behind_does_not_hold_its_answer_up(tmp_path: Path) -> None:
    """A child in a session of its own keeps the pipe open; the answer was given before."""
    ready, held = tmp_path / "ready", tmp_path / "held"
    os.mkfifo(ready)
    os.mkfifo(held)
    # the program answers once its child has left; the child stays until the end of the test
    left = f"setsid sh -c 'echo go > {ready}; read line < {held}' & read line < {ready};"
    hook = {"command": ["sh", "-c", f'{left} echo "{{\\"cleared\\": true}}"'], "timeout_s": 60}
    against({}, reset, reset_cache=hook)
    with held.open("w") as release:
        release.write("go\n")


def test_a_program_sees_the_variables_it_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment is not for hooks."""
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("GRANTED", "y")
    answer = '{"cleared": os.environ.get("SECRET_KEY") is None and "GRANTED" in os.environ}'
    hook = {"command": program(tmp_path, ECHO.format(answer)), "environment": ["GRANTED"]}
    against({}, reset, reset_cache=hook)


def test_a_resource_program_confirms_exclusive_use_and_tells_of_every_node(tmp_path: Path) -> None:
    """Exclusive must be true; thresholds are held by the run, not by the program."""
    node = '{"node": "localhost", "mem_available_gib": 8, "disk_free_gib": 1}'
    for answer, why in (
        ('{"exclusive": True, "nodes": [' + node + "]}", None),
        ('{"exclusive": False, "nodes": [' + node + "]}", "does not confirm"),
        ('{"nodes": [' + node + "]}", "does not confirm"),
        ('{"exclusive": True, "nodes": []}', "says nothing of it"),
    ):
        command = program(tmp_path, ECHO.format(answer))
        act = {"resource_check": command, "min_mem_available_gib": 8}
        if why is None:
            against({}, lambda hooks: hooks.check_resources(), **act)
            continue
        with pytest.raises(NotPermitted, match=why):
            against({}, lambda hooks: hooks.check_resources(), **act)
    command = program(tmp_path, ECHO.format('{"exclusive": True, "nodes": [' + node + "]}"))
    act = {"resource_check": command, "min_disk_free_gib": 2}
    with pytest.raises(NotPermitted, match=r"disk free is 1\.00 GiB, 2 are asked for"):
        against({}, lambda hooks: hooks.check_resources(), **act)


@pytest.mark.parametrize(
    "answer",
    [
        {"nodes": {"localhost": {"mem_available_gib": 8, "disk_free_gib": 1}}},
        {"nodes": [{"name": "localhost", "mem_available_gib": 8.0}], "disk_free_gib": 1},
        {"nodes": ["localhost"], "mem_available_gib": 8, "disk_free_gib": 1},
        {"mem_available_gib": 8, "disk_free_gib": 1},
    ],
)
def test_a_resource_program_may_say_it_in_every_plain_way(answer: dict[str, Any]) -> None:
    """By name, in a list, or once for all nodes that were asked about."""
    said = json.dumps({"exclusive": True, **answer})
    act = {"resource_check": ["echo", said], "min_mem_available_gib": 8, "min_disk_free_gib": 1}
    seen, _ = against({}, lambda hooks: hooks.check_resources(), **act)
    assert seen["localhost"]["mem_available_gib"] == 8
    act["min_mem_available_gib"] = 9
    with pytest.raises(NotPermitted, match="memory available is 8"):
        against({}, lambda hooks: hooks.check_resources(), **act)


def test_this_node_can_be_asked() -> None:
    """The built-in script on this machine: memory and disk are seen."""
    found, _ = against({}, lambda hooks: hooks.check_resources())
    assert found["localhost"]["mem_available_gib"] > 0
    assert found["localhost"]["disk_free_gib"] > 0


PRINTED = """Warning: added a host
farm-memory 8388608
farm-disk /dev/sda1 100 50 2097152 50% /
farm-gpu seen
farm-pid 41
farm-pid 7
"""


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)


# what ssh does with a command: one text, to the shell of the other machine
SSH = 'while [ "$1" != -- ]; do shift; done; echo "$2" >> "$0.hosts"; exec sh -c "$3"'


@pytest.mark.parametrize(
    ("smi", "allowed", "why"),
    [
        ("echo 41; echo 42", (41, 42), None),
        ("echo 41; echo 42", (41,), r"processes \[42\] compute on its GPU"),
        ("echo '[Not Found]'", (), "cannot be looked into"),
        ("exit 9", (), "cannot be looked into"),
        ("true", (), None),
    ],
)
def test_another_node_is_asked_through_ssh(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    smi: str,
    allowed: tuple[int, ...],
    why: str | None,
) -> None:
    """The same script on every node; a path with quotes in it comes through as it is."""
    tool(tmp_path, "ssh", SSH)
    tool(tmp_path, "nvidia-smi", smi)
    disk = tmp_path / "a 'quoted' \"$HOME\" path"
    disk.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = config_of(nodes=["gpu-1", "gpu-2"], disk_path=str(disk), hook_timeout_s=20)
    lease = lease_of(nodes=("gpu-1", "gpu-2"), allowed_gpu_pids=allowed)
    endpoint = MeasuredEndpoint("http://127.0.0.1:1", connections=1, timeout_s=1)
    hooks = Hooks(config, lease, endpoint=endpoint, commands=OperatorCommands())
    if why is not None:
        with pytest.raises(NotPermitted, match=why):
            asyncio.run(hooks.check_resources())
        return
    seen = asyncio.run(hooks.check_resources())
    assert (tmp_path / "ssh.hosts").read_text("utf-8").split() == ["gpu-1", "gpu-2"]
    for node in ("gpu-1", "gpu-2"):
        assert seen[node]["gpu"] == "seen"
        assert seen[node]["compute_pids"] == allowed
        assert seen[node]["disk_free_gib"] > 0
        assert seen[node]["mem_available_gib"] > 0


def test_a_node_that_cannot_be_reached_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence is no leave; a name that ssh would take for an option is none."""
    tool(tmp_path, "ssh", "echo 'no route to host' >&2; exit 255")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for node, why in (("gpu-1", "ended with 255.*no route"), ("-oProxyCommand=x", "no host name")):
        config, lease = config_of(nodes=[node]), lease_of(nodes=(node,))
        endpoint = MeasuredEndpoint("http://127.0.0.1:1", connections=1, timeout_s=1)
        hooks = Hooks(config, lease, endpoint=endpoint, commands=OperatorCommands())
        with pytest.raises(NotPermitted, match=why):
            asyncio.run(hooks.check_resources())


def test_what_a_node_prints_is_read() -> None:
    """8388608 KiB are 8 GiB, 2097152 KiB are 2."""
    assert read_state("n", PRINTED) == NodeState(
        node="n", mem_available_gib=8.0, disk_free_gib=2.0, gpu="seen", compute_pids=(7, 41)
    )


@pytest.mark.parametrize(
    ("printed", "allowed", "why"),
    [
        (PRINTED, (7, 41), None),
        (PRINTED, (41,), r"processes \[7\] compute"),
        (PRINTED.replace("seen", "none").replace("farm-pid", "x"), (), None),
        (PRINTED.replace("seen", "unreadable"), (7, 41), "cannot be looked into"),
        (PRINTED.replace("pid 7", "pid [N/A]"), (41,), "cannot be looked into"),
        (PRINTED.replace("farm-memory", "x"), (7, 41), "memory available is not known"),
        (PRINTED.replace("8388608", "4194304"), (7, 41), "memory available is 4.00 GiB"),
        ("", (7, 41), "not known"),
    ],
)
def test_a_node_is_refused_for_what_it_lacks_or_who_is_on_it(
    printed: str, allowed: tuple[int, ...], why: str | None
) -> None:
    """Foreign compute processes, too little of anything, or nothing known."""
    config = config_of(nodes=["n"], min_mem_available_gib=5, min_disk_free_gib=1)
    states, lease = [read_state("n", printed)], lease_of(allowed_gpu_pids=allowed)
    if why is None:
        check_nodes(states, config=config, lease=lease)
        return
    with pytest.raises(NotPermitted, match=why):
        check_nodes(states, config=config, lease=lease)


def room(replies: Replies, **changes: Any):
    found, _ = against(
        replies,
        lambda hooks: slot_room(hooks._endpoint, config=hooks._config),
        **changes,
    )
    return found


@pytest.mark.parametrize(
    ("props", "slots", "changes", "expected"),
    [
        # llama.cpp tells what each slot has
        ({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 2}, None, {}, (2, 2048)),
        # the smallest slot counts
        (
            {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 2},
            [{"id": 0, "n_ctx": 2048}, {"id": 1, "n_ctx": 1024}], {}, (2, 1024),
        ),
        # one 64K shared by four slots is 16K each
        ({"n_ctx": 65536, "total_slots": 4}, None, {}, (4, 16384)),
        ({"total_slots": 4}, None, {"total_context": 65536}, (4, 16384)),
        # a server that tells nothing is divided among those that work at a time
        (None, None, {"total_context": 65536, "concurrency": [1, 4]}, (None, 16384)),
        (None, None, {}, (None, None)),
    ],
)  # fmt: skip
def test_the_room_of_a_slot_is_found(props: Any, slots: Any, changes: Any, expected: Any) -> None:
    """A shared context is not a context for each."""
    replies: Replies = {}
    if props is not None:
        replies["GET", "/props"] = (200, props)
    if slots is not None:
        replies["GET", "/slots"] = (200, slots)
    found = room(replies, **changes)
    assert (found.slots, found.context_per_slot) == expected


@pytest.mark.parametrize(
    ("total", "at_once", "why"),
    [
        (None, 2, None),
        (1920, 2, None),  # 960 for each of two
        (1919, 2, "2 at once share 1919 \\(total_context\\)"),
        (1919, 1, None),
    ],
)
def test_slots_of_a_unified_cache_have_what_they_share(
    total: int | None, at_once: int, why: str | None
) -> None:
    """llama-server started without --parallel tells the whole context for each of four slots."""
    props = {"default_generation_settings": {"n_ctx": 1920}, "total_slots": 4}
    found = room({("GET", "/props"): (200, props)}, total_context=total)
    cell = msgspec.structs.replace(CELL, concurrency=at_once)
    if why is None:
        check_room(512, cell=cell, config=config_of(), room=found)
        return
    with pytest.raises(NotPermitted, match=why):
        check_room(512, cell=cell, config=config_of(), room=found)


@pytest.mark.parametrize(
    ("per_slot", "slots", "why"),
    [
        (960, 2, None),  # 512 + 256 output + 192 for the tool turn
        (959, 2, "each slot has 959"),
        (960, 1, "has 1 slots"),
    ],
)
def test_a_cell_must_fit_its_slots(per_slot: int, slots: int, why: str | None) -> None:
    """Input, output and the tool turn, for as many slots as work at a time."""
    props = {"default_generation_settings": {"n_ctx": per_slot}, "total_slots": slots}
    found = room({("GET", "/props"): (200, props)})
    if why is None:
        check_room(512, cell=CELL, config=config_of(), room=found)
        return
    with pytest.raises(NotPermitted, match=why):
        check_room(512, cell=CELL, config=config_of(), room=found)


def test_preflight_says_what_it_saw() -> None:
    """Everything passes: lease, node, slots."""
    props = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 4}

    async def act(hooks: Hooks) -> Any:
        return await preflight(
            CELL,
            config=hooks._config,
            lease=hooks._lease,
            hooks=hooks,
            endpoint=hooks._endpoint,
            now=time.time(),
        )

    seen, _ = against({("GET", "/props"): (200, props)}, act)
    assert seen["slots"] == {
        "slots": 4, "context_per_slot": 4096, "source": "props", "shared_context": None,
    }  # fmt: skip
    assert set(seen["nodes"]) == {"localhost"}
