"""The process that asks: `python -I -m farm.runtime.asker_main --store DIR --parent PID ...`.

It speaks the protocol of `farm.core.message` as any worker does. What it asks with, and where
answers and calls are kept, comes as one JSON option; keys come from the environment by the names
that the models file gives, and go nowhere.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import uvloop

from farm.adapters.compose import ComposedModel, Surroundings, share_of
from farm.adapters.models import read_models
from farm.adapters.protocol import Endpoint
from farm.adapters.registry import make_endpoint
from farm.adapters.settings import Common, HttpSettings, PluginSettings
from farm.config import variables_named
from farm.core.event import Note
from farm.core.message import MAX_LINE_BYTES, Batch, Message, Ready, Stopped, decode_batch
from farm.errors import FarmError, SpecError, StorageError
from farm.runtime.asked import tasks_of
from farm.runtime.asker import Asker
from farm.runtime.settings import RunSettings
from farm.runtime.worker_main import die_with_parent, open_protocol
from farm.scoring.trial import TrialJudge
from farm.store.cache import GenerationCache
from farm.store.costs import CostLedger
from farm.store.directory import DirectoryStore
from farm.wiring_eval import AskOptions, open_costs, programs_for

_SHOWN: Final = 1000  # characters of a foreign error
_COLLECT_AFTER: Final = 20_000  # new objects; by default 700


def main(argv: list[str]) -> int:
    """Serve batches from stdin until it ends; give the exit code."""
    options = dict(zip(argv[::2], argv[1::2], strict=True))
    say = open_protocol()
    die_with_parent(int(options["--parent"]))
    try:
        asked = msgspec.json.decode(options["--options"], type=AskOptions)
        uvloop.run(serve(options["--store"], asked, say=say, batches=_batches()))
    except BrokenPipeError:  # the supervisor is gone, and nobody is left to tell
        return 1
    except Exception as error:  # noqa: BLE001  the worker's top: between processes go records
        return _stopped(error, say)
    return 0


def _stopped(error: BaseException, say: Callable[[Message], None]) -> int:
    """Say why this process cannot go on; of a group, what its first error says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FarmError):
        say(Stopped(reason=str(error), exit_code=error.exit_code))
        return error.exit_code
    say(Stopped(reason=f"{type(error).__name__}: {error}", exit_code=0))
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doors:
    """What a process that asks has open."""

    store: DirectoryStore
    models: dict[str, Common]
    judge: TrialJudge
    cache: GenerationCache
    costs: CostLedger


async def serve(
    path: str,
    options: AskOptions,
    *,
    say: Callable[[Message], None],
    batches: AsyncIterator[Batch],
) -> None:
    """Open everything, inside out, and ask until there is nothing more to ask."""
    with ExitStack() as opened:
        doors = _open(path, options, opened)
        opened.enter_context(_rare_collections())
        async with AsyncExitStack() as endpoints:
            asker = await _asker(doors, options, say, endpoints)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asker.stop)
            say(Ready(worker_pid=os.getpid()))
            await asker.run(batches)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage in cycles less often, and not among what is open for the whole run.

    Calls make next to none, and with many tasks in memory the search took a tenth of the time.
    """
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _open(path: str, options: AskOptions, opened: ExitStack) -> _Doors:
    store = opened.enter_context(DirectoryStore(path))
    models = read_models(options.models)
    models = {name: models[name] for name in store.plan.identity.models}
    isolation = RunSettings(
        require_isolation=options.require_isolation, allow_unisolated=options.allow_unisolated
    )
    programs = opened.enter_context(programs_for(store, isolation, slots=options.slots))
    cache = GenerationCache(options.cache)
    opened.callback(cache.close)
    costs = open_costs(options.costs, prices=options.prices, models=models)
    opened.callback(costs.close)
    return _Doors(store=store, models=models, judge=TrialJudge(programs), cache=cache, costs=costs)


async def _asker(
    doors: _Doors,
    options: AskOptions,
    say: Callable[[Message], None],
    endpoints: AsyncExitStack,
) -> Asker:
    """Compose the models and give the loop that asks them."""
    later: list[Asker] = []  # the models are made before who hears of them

    def tell(noted: Note) -> None:
        later[0].tell(noted)

    async def pause(seconds: float) -> None:
        await later[0].pause(seconds)

    around = Surroundings(
        cache=doors.cache,
        ledger=doors.costs,
        max_money=options.max_cost,
        max_tokens=options.max_tokens,
        share=options.share,
        refusals_halt=not options.accept_errors,
        kept_in=options.cache,
        tell=tell,
        sleep=pause,
    )
    composed: dict[str, ComposedModel] = {}
    limits: dict[str, int] = {}
    for name, given in doors.models.items():
        settings = given
        if options.concurrency is not None:
            settings = msgspec.structs.replace(given, concurrency=options.concurrency)
        endpoint = _endpoint_of(name, settings)
        composed[name] = await endpoints.enter_async_context(
            ComposedModel(endpoint, settings, around)
        )
        limits[name] = share_of(settings.concurrency, options.share)
    asker = Asker(
        doors.store,
        tasks=tasks_of(doors.store),
        models=composed,
        limits=limits,
        judge=doors.judge,
        worker_pid=os.getpid(),
        say=say,
        accept_errors=options.accept_errors,
        answered=[name for name, one in doors.costs.spending().items() if one.answered],
        settle=doors.costs.sync,
        cost=lambda: _cost(doors.costs) if options.prices else "",
    )
    later.append(asker)
    return asker


def _endpoint_of(name: str, settings: Common) -> Endpoint:
    """Make the endpoint of a model; whatever an adapter of a plugin raises names the model.

    Here and not where the run is prepared: an adapter may load weights, or take a device, and
    there is room for that once.
    """
    try:
        return make_endpoint(name, settings, environment=_environment_of(settings))
    except (MemoryError, StorageError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, FarmError) and not isinstance(settings, PluginSettings):
            raise
        told = str(error) if isinstance(error, FarmError) else f"{type(error).__name__}: {error}"
        raise SpecError(
            f"model {name!r}: its adapter {settings.adapter!r} could not be made: {told[:_SHOWN]}"
        ) from error


def _environment_of(settings: Common) -> dict[str, str]:
    """Give the variables that a model may see: its key's, or those a program is granted."""
    if isinstance(settings, HttpSettings):
        return variables_named([settings.key_env] if settings.key_env else [])
    return variables_named(getattr(settings, "environment", ()))


def _cost(costs: CostLedger) -> str:
    spent = costs.spent()
    return "" if spent.money is None else f"{spent.money:.4f} {costs.currency}"


async def _batches() -> AsyncIterator[Batch]:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        yield decode_batch(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
