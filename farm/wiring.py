"""Where concrete doors are named: stores, processes, clocks, and the loops they are given to."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from farm.core.event import Event, Note, note
from farm.core.isolation import isolation_of
from farm.core.moment import moment
from farm.core.plan import QUALIFICATION, TASKS, Plan, ScorerName, check_identity
from farm.core.vocabulary import METRICS
from farm.errors import Busy, SpecError, UsageError
from farm.files.incarnation import current_incarnation, is_alive, is_gone
from farm.runtime.settings import RunSettings
from farm.scoring.programrules import rules_of
from farm.scoring.registry import DEFAULT, scorer
from farm.store.directory import DirectoryStore, exists, wall_clock
from farm.store.protocol import Store

if TYPE_CHECKING:
    from signal import Signals

    from farm.runtime.interrupts import Interrupts
    from farm.runtime.prospects import Ending
    from farm.runtime.watch import Watch
    from farm.sandbox.runner import Sandbox
    from farm.store.initialize import Request

OnEvents = Callable[[Sequence[Event]], None]
_PULSE_S = 1.0  # between two words of a worker about a slow shard, unless it is to stall sooner


@cache
def invocation_id() -> str:
    """Give the random name of this call of a command: one a process, however often it opens stores.

    Events carry it, so that what one command told can be found among all that a store has.
    """
    return secrets.token_hex(8)


def open_store(path: str, *, qualification: bool = False) -> DirectoryStore:
    """Open a store for reading or for changes.

    Raises `SpecError` for the store of a qualification unless the caller can do with one: its
    cases are tasks of a served model, which no metric scores.
    """
    store = DirectoryStore(path, invocation_id=invocation_id())
    if is_qualification(store) and not qualification:
        store.close()
        raise SpecError(
            f"{path!r} is a qualification, not a run of predictions: see it with 'farm qualify "
            "summary', set two side by side with 'farm qualify compare', check one with "
            "'farm verify'"
        )
    return store


def is_qualification(store: DirectoryStore) -> bool:
    """Tell whether a store holds the cells of a qualification."""
    return store.plan.identity.scorer == QUALIFICATION


def scorer_name(name: str = DEFAULT) -> ScorerName:
    """Give a scorer of this farm as part of an identity; raises `SpecError` on unknown names."""
    found = scorer(name)
    if found.needs and name.partition("@")[0] not in METRICS:
        needs = " and ".join(found.needs)
        raise SpecError(f"metric {name!r} needs a {needs}: a run gives that to farm's own only")
    return ScorerName(name=found.name, version=found.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """What `init` and `run` were told about a store; None is not given."""

    input: str | None
    shards: int | None = None
    scorer: str | None = None
    name: str | None = None
    max_text_bytes: int | None = None
    map: str = ""
    ignore_extra: bool = False
    auto_id: bool = False
    coerce: bool = False


def ensure_store(path: str, options: InitOptions, *, on_events: OnEvents) -> None:
    """Make the store, or hold what is given against the one that is there."""
    # here and not at the top: readers of input need numpy, which `status` and `events` do not
    from farm.store.initialize import check_request, initialize

    request = _request(options)
    if exists(path):
        with open_store(path) as store:
            check_request(store.plan, request, store=path)
            tell_if_untold(store, on_events)
        return
    if options.input is None:
        raise SpecError(f"there is no store at {path!r} yet: give --input FILE to make one")
    initialize(path, request, default_scorer=scorer_name())
    tell_of_the_store(path, on_events)


def start_rescore(old: DirectoryStore, into: str, name: str, *, on_events: OnEvents) -> None:
    """Make a store of another's cases under another scorer, unless it is there already."""
    from farm.store.initialize import initialize_copy

    check_recorded(old.plan)
    wanted = _wanted_scorer(name)
    if exists(into):
        with open_store(into) as store:
            given = msgspec.structs.replace(old.plan.identity, scorer=wanted)
            check_identity(store.plan.identity, given, store=into)
        return
    initialize_copy(into, old, scorer=wanted)
    tell_of_the_store(into, on_events)


def tell_of_the_store(path: str, on_events: OnEvents) -> None:
    """Tell that a store was made."""
    with open_store(path) as store:
        on_events(store.tell([_made(store.plan)]))


def tell_if_untold(store: DirectoryStore, on_events: OnEvents) -> None:
    """Tell that a store was made if its maker was killed before he could."""
    if not store.events_size():
        made = _made(store.plan)
        fields = {**made.fields, "recovered": True}
        on_events(store.tell([msgspec.structs.replace(made, fields=fields)]))


def _made(plan: Plan) -> Note:
    return note(
        "store.initialized",
        cases=plan.cases,
        shards=len(plan.shards),
        dataset_sha256=plan.identity.dataset_sha256,
    )


def _request(options: InitOptions) -> Request:
    from farm.core.case import MAX_TEXT_BYTES
    from farm.files.mapping import Rules, parse_map
    from farm.store.initialize import Request

    return Request(
        input=options.input,
        rules=Rules(
            max_text_bytes=options.max_text_bytes or MAX_TEXT_BYTES,
            map=parse_map(options.map) if options.map else (),
            ignore_extra=options.ignore_extra,
            auto_id=options.auto_id,
            coerce=options.coerce,
        ),
        shards=options.shards,
        scorer=None if options.scorer is None else _wanted_scorer(options.scorer),
        models=None if options.name is None else (options.name,),
    )


def _wanted_scorer(name: str) -> ScorerName:
    try:
        return scorer_name(name)
    except SpecError as error:  # on the command line an unknown name is wrong usage
        raise UsageError(f"--scorer: {error}") from error


def run(
    store: DirectoryStore,
    settings: RunSettings,
    *,
    on_events: OnEvents,
    prepare: Callable[[Plan, RunSettings], RunSettings] | None = None,
    watch: Watch | None = None,
) -> Ending:
    """Run a store to its end, as far as it goes, holding its run lock.

    A run with nothing to do changes no file: its events go to the log alone. `prepare` completes
    the settings once the lock is held, and refuses what cannot be run; by default for programs.
    `watch` looks on.
    """
    # here and not at the top: anyio loads for 40 ms, which only a run needs
    import anyio

    from farm.runtime.interrupts import Interrupts
    from farm.runtime.prospects import anything_to_do

    store.confirm()
    now = int(wall_clock()) if settings.now_ms is None else settings.now_ms
    if store.ledger().settled:
        return _nothing_to_do(store, on_events)
    lock = store.run_lock()
    try:
        if not lock.try_acquire():
            holder = lock.body() or "another process"
            raise Busy(f"{store.path!r} is being run by {holder}: wait for it, or end it")
        if not anything_to_do(store.ledger(), settings, now=now):
            return _nothing_to_do(store, on_events)
        store.sweep(alive=is_alive)  # first of all: it may free the space that a full disk lacks
        tell_if_untold(store, on_events)
        settings = (prepare or isolated)(store.plan, settings)
        lock.say(f"process {os.getpid()} since {moment(now)}")
        with Interrupts(leave=lambda number: _leave(number, settings.again)) as interrupts:
            return anyio.run(_evaluate, store, settings, on_events, interrupts, watch)
    finally:
        lock.close()


def check_recorded(plan: Plan) -> None:
    """Refuse a run whose cases are asked of models where recorded predictions are scored."""
    if plan.identity.scorer.name == TASKS:
        raise SpecError("the cases of this run are asked of models: continue it with `farm eval`")


@contextmanager
def programs_of(
    plan: Plan, *, require_isolation: str | None, allow_unisolated: bool
) -> Iterator[Sandbox | None]:
    """Open what runs the programs of a plan, None where its scorer runs none.

    Raises `SandboxUnavailable` before anything is done when the machine does not grant what is
    asked for.
    """
    check_recorded(plan)
    name = plan.identity.scorer.name
    if not scorer(name).runs_programs:
        yield None
        return
    with program_runner(
        name, require_isolation=require_isolation, allow_unisolated=allow_unisolated
    ) as sandbox:
        yield sandbox


@contextmanager
def program_runner(
    metric: str, *, require_isolation: str | None, allow_unisolated: bool
) -> Iterator[Sandbox]:
    """Open what runs programs by the rules in a metric's name; raises as `programs_of`."""
    # here and not at the top: a run that scores texts never needs it
    from farm.sandbox.runner import Sandbox, Settings

    rules = rules_of(metric)
    settings = Settings(
        imports=rules.imports,
        timeout_s=rules.timeout_s,
        require_isolation=require_isolation,
        allow_unisolated=allow_unisolated,
    )
    with Sandbox(settings, slots=1) as sandbox:
        sandbox.isolation  # noqa: B018  starts the slot, and raises where it may not
        yield sandbox


def isolated(plan: Plan, settings: RunSettings) -> RunSettings:
    """Complete settings where programs are to be run; refuses before anything is claimed.

    No more workers than cores, each with one slot: more would only make programs look slow.
    """
    # here and not at the top: a run that scores texts never needs it
    from farm.sandbox.runner import cores

    with programs_of(
        plan,
        require_isolation=settings.require_isolation,
        allow_unisolated=settings.allow_unisolated,
    ) as sandbox:
        if sandbox is None:
            return settings
        isolation = isolation_of(sandbox.isolation)
    return replace(settings, isolation=isolation, workers=min(settings.workers, cores()))


def _nothing_to_do(store: DirectoryStore, on_events: OnEvents) -> Ending:
    from farm.runtime.evaluate import last_note
    from farm.runtime.prospects import Ending

    ending = Ending()
    last = [last_note(store.ledger(), ending, elapsed_s=0.0)]
    # events that a kill kept from being told are something to do after all
    on_events(store.tell(last) if store.events_missing() else store.number(last))
    return ending


async def _evaluate(
    store: Store,
    settings: RunSettings,
    on_events: OnEvents,
    interrupts: Interrupts,
    watch: Watch | None,
) -> Ending:
    from farm.runtime.evaluate import evaluate

    return await evaluate(store, settings, on_events=on_events, interrupts=interrupts, watch=watch)


def _leave(number: Signals, again: str) -> None:
    """End this process at once; what is committed is durable and workers die with it."""
    from farm.log import last_line

    last_line(f"left at once by {number.name}; everything finished is kept, continue with: {again}")
    os._exit(128 + number)


def run_settings(store: str, settings: RunSettings) -> RunSettings:
    """Complete the options of a run with what this process and this host are."""
    command = [
        sys.executable, "-I", "-m", "farm.runtime.worker_main",
        "--store", os.path.abspath(store),
        "--parent", str(os.getpid()),
        "--delay-ms", str(settings.delay_ms),
        "--pulse-s", str(min(_PULSE_S, settings.stall_s / 4)),
    ]  # fmt: skip
    if settings.require_isolation:
        command += ["--require-isolation", settings.require_isolation]
    if settings.allow_unisolated:
        command += ["--allow-unisolated", "yes"]
    return replace(
        settings,
        incarnation=current_incarnation() if settings.now_ms is None else "",
        name=f"run-{secrets.token_hex(4)}",
        again=f"farm run --store {shlex.quote(store)}",
        worker_command=command,
        is_gone=is_gone,
    )
