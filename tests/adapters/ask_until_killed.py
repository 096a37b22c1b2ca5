"""A process that asks forty questions through all wrappers; the test that starts it kills it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from farm.adapters.compose import ComposedModel, Surroundings
from farm.adapters.openai import OpenAIEndpoint
from farm.core.cost import Prices
from farm.store.cache import GenerationCache
from farm.store.costs import CostLedger
from tests.adapters.asking import openai_settings, task


async def main(url: str, folder: str) -> None:
    settings = openai_settings(url, concurrency=4)
    around = Surroundings(
        cache=GenerationCache(f"{folder}/generations.sqlite"),
        ledger=CostLedger(f"{folder}/costs.jsonl", prices=Prices()),
    )
    endpoint = OpenAIEndpoint(settings, name="model")
    async with ComposedModel(endpoint, settings, around) as model:
        await asyncio.gather(*(model.ask(f"p{n}", task()) for n in range(40)))
        await asyncio.Event().wait()  # done or not, it ends by the kill


asyncio.run(main(sys.argv[1], sys.argv[2]))
