"""The matrix: every (context, concurrency, repeat, cache mode), its order and its place in a plan.

A cell is a shard of a plan, its tasks are the shard's cases; so leases, receipts and resumption
are those of any other run.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from farm.core.canonical import DatasetDigest, canonical_lines
from farm.core.case import Case
from farm.core.partition import MAX_SHARDS, shard_name
from farm.core.plan import QUALIFICATION, Identity, Plan, Shard, make_plan
from farm.errors import SpecError
from farm.qualify.config import CacheMode, Config, config_sha256
from farm.qualify.workload import request_id_of

PHASES = ("initial", "appended_tool_turn", "client_compaction", "code_holdout")


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell; `index` counts from 0 in the order of the run."""

    index: int
    context: int
    concurrency: int
    repeat: int
    cache: CacheMode

    @property
    def shard(self) -> str:
        """The name of the cell's shard."""
        return shard_name(self.index)

    @property
    def label(self) -> str:
        """The cell in words, for messages."""
        return (
            f"{self.context} tokens, {self.concurrency} at once, repeat {self.repeat}, {self.cache}"
        )


def matrix(
    *,
    contexts: tuple[int, ...],
    concurrency: tuple[int, ...],
    repeats: int,
    cache_modes: tuple[CacheMode, ...],
) -> tuple[Cell, ...]:
    """Return all cells: contexts outermost, then concurrency, repeats (from 0), cache modes.

    Raises `SpecError` for more cells than a plan has shards.
    """
    count = len(contexts) * len(concurrency) * repeats * len(cache_modes)
    if count > MAX_SHARDS:
        raise SpecError(
            f"{count} cells are more than the {MAX_SHARDS} of a plan: measure fewer contexts, "
            "concurrencies or repeats in one run"
        )
    found = [
        (context, at_once, repeat, cache)
        for context in contexts
        for at_once in concurrency
        for repeat in range(repeats)
        for cache in cache_modes
    ]
    return tuple(
        Cell(index=index, context=context, concurrency=at_once, repeat=repeat, cache=cache)
        for index, (context, at_once, repeat, cache) in enumerate(found)
    )


def cells_of(config: Config) -> tuple[Cell, ...]:
    """Return the cells of a configuration."""
    return matrix(
        contexts=config.contexts,
        concurrency=config.concurrency,
        repeats=config.repeats,
        cache_modes=config.cache_modes,
    )


def request_ids(config: Config, cell: Cell) -> tuple[str, ...]:
    """Return the stable identifiers of a cell's requests; both cache modes share them."""
    return tuple(
        request_id_of(
            seed=config.fixture_seed,
            context=cell.context,
            concurrency=cell.concurrency,
            repeat=cell.repeat,
            stream=stream,
        )
        for stream in range(cell.concurrency)
    )


def case_id(request_id: str, cell: Cell) -> str:
    """Return the id of a task as a case of the plan."""
    return f"{request_id}|{cell.cache}"


def plan_of(config: Config) -> tuple[Plan, bytes]:
    """Return the plan of a qualification and the canonical records of its cases.

    The records name the configuration by digest, so a plan belongs to one configuration.
    """
    digest = DatasetDigest()
    whole = config_sha256(config)
    shards: list[Shard] = []
    records = b""
    for cell in cells_of(config):
        block = canonical_lines(
            Case(
                id=case_id(request_id, cell),
                prompt=f"{cell.label}; configuration {whole}",
                expected="success",
                response="",
            )
            for request_id in request_ids(config, cell)
        )
        digest.update(block.split(b"\n")[:-1])
        shards.append(
            Shard(
                name=cell.shard,
                cases=cell.concurrency,
                sha256=sha256(block).hexdigest(),
                extents=((len(records), len(block)),),
            )
        )
        records += block
    identity = Identity(
        dataset_sha256=digest.dataset_sha256,
        shards=len(shards),
        scorer=QUALIFICATION,
        models=(config.model,),
    )
    plan = make_plan(
        identity=identity,
        tasks_sha256=digest.tasks_sha256,
        cases=sum(shard.cases for shard in shards),
        shards=tuple(shards),
    )
    return plan, records
