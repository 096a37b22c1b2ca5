"""Measure the way of a trial to an endpoint and back: trials per CPU-second of one client.

    python tests/bench/bench_client.py [--trials 6000] [--concurrency 64] [--rounds 3]

(a) a plain aiohttp loop that posts a ready body and parses the reply: the floor;
(b) adapter, guard, throttle and retry;
(c) the same with the durable cache: every answer on disk before it is given;
(d) the same with the cost ledger: three lines written for each call;
(e) (d) again, every answer from the cache.

The server is a process of its own that answers at once, and its CPU is not counted. Each figure
is the best of the rounds: the machine only ever adds time. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import orjson

from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.openai import OpenAIEndpoint
from farm.adapters.settings import OpenAISettings
from farm.core.cost import Prices
from farm.core.task import TaskSpec
from farm.store.cache import GenerationCache
from farm.store.costs import CostLedger

SERVER = """
import asyncio, json
BODY = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "The answer is 42."},
     "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26}}).encode()
HEAD = b"HTTP/1.1 200 OK\\\\r\\\\ncontent-type: application/json\\\\r\\\\n"
REPLY = HEAD + b"content-length: %d\\\\r\\\\n\\\\r\\\\n" % len(BODY) + BODY

class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.held = transport, b""
    def data_received(self, data):
        self.held += data
        while True:
            head, blank, rest = self.held.partition(b"\\\\r\\\\n\\\\r\\\\n")
            if not blank:
                return
            length = int(head.lower().partition(b"content-length:")[2].split(b"\\\\r\\\\n")[0])
            if len(rest) < length:
                return
            self.held = rest[length:]
            self.transport.write(REPLY)

async def main():
    server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
""".replace("\\\\", "\\")
TASK = TaskSpec(
    task_id="t",
    category="open",
    prompt="p",
    targets=("42",),
    metric_name="exact_match",
    post_process="none",
)
PROMPT = "What do you get if you multiply six by seven? Think, and answer in one sentence. " * 3


async def in_parallel(
    one: Callable[[int], Awaitable[object]], *, trials: int, concurrency: int
) -> None:
    """Make trials by as many loops as may be out at a time."""
    numbers = iter(range(trials))

    async def loop() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(loop() for _ in range(concurrency)))


async def plain(url: str, *, trials: int, concurrency: int) -> float:
    """Post a ready body in a loop; give CPU seconds."""
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": PROMPT}]})
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:

        async def one(number: int) -> None:
            async with session.post(f"{url}/v1/chat/completions", data=body) as reply:
                value = orjson.loads(await reply.read())
                assert value["choices"][0]["message"]["content"]

        began = time.process_time()
        await in_parallel(one, trials=trials, concurrency=concurrency)
        return time.process_time() - began


async def composed(
    url: str, around: Surroundings, *, trials: int, concurrency: int
) -> tuple[float, float]:
    """Ask through the wrappers; give CPU seconds and wall seconds."""
    settings = OpenAISettings(
        adapter="openai",
        base_url=f"{url}/v1",
        model="m",
        concurrency=concurrency,
        request={"temperature": 0, "max_tokens": 64},
    )
    endpoint = OpenAIEndpoint(settings, name="m")
    async with ComposedModel(endpoint, settings, around) as model:

        async def one(number: int) -> None:
            generation = await model.ask(PROMPT, TASK, sample=number)
            assert generation.failure is None

        began, wall = time.process_time(), time.perf_counter()
        await in_parallel(one, trials=trials, concurrency=concurrency)
        return time.process_time() - began, time.perf_counter() - wall


def measured(url: str, *, trials: int, concurrency: int) -> dict[str, tuple[float, float]]:
    """Run each part once; give trials per CPU-second and per second of wall time."""
    rates: dict[str, tuple[float, float]] = {}
    sizes = {"trials": trials, "concurrency": concurrency}
    cpu = asyncio.run(plain(url, **sizes))
    rates["(a) plain aiohttp loop"] = (trials / cpu, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        cache = GenerationCache(f"{folder}/b.sqlite")
        other = GenerationCache(f"{folder}/c.sqlite")
        ledger = CostLedger(f"{folder}/costs.jsonl", prices=Prices())
        parts = {
            "(b) adapter and wrappers": Surroundings(),
            "(c) with the durable cache": Surroundings(cache=cache),
            "(d) with cache and ledger": Surroundings(cache=other, ledger=ledger),
            "(e) all from the cache": Surroundings(cache=other, ledger=ledger),
        }
        for name, around in parts.items():
            cpu, wall = asyncio.run(composed(url, around, **sizes))
            rates[name] = (trials / cpu, trials / wall)
        ledger.close()
        cache.close()
        other.close()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=6000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        rounds = [
            measured(url, trials=options.trials, concurrency=options.concurrency)
            for _ in range(options.rounds)
        ]
    finally:
        server.kill()
        server.wait()
    print(f"{options.trials} trials, {options.concurrency} at a time, best of {options.rounds}")
    for name in rounds[0]:
        cpu = max(one[name][0] for one in rounds)
        wall = max(one[name][1] for one in rounds)
        beside = f", {wall:,.0f}/s of wall time" if wall else ""
        print(f"{name}: {cpu:,.0f} per CPU-second{beside}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
