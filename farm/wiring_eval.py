"""Where an evaluation gets its doors: tasks, models, answer cache, cost ledger, sandbox, store."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import msgspec

from farm.adapters.models import read_models
from farm.adapters.prices import price_name, read_prices
from farm.adapters.settings import Common, RecordedSettings, deciding
from farm.config import variables_named
from farm.core.cost import Prices
from farm.core.isolation import isolation_of
from farm.core.plan import Plan, check_identity
from farm.core.task import TaskSpec
from farm.core.trial import Trials, encode_tasks, has_trials, plan_trials
from farm.errors import IdentityMismatch, Problem, SpecError
from farm.files.incarnation import current_incarnation, is_gone
from farm.files.tasks import validate_file
from farm.runtime.asked import tasks_of
from farm.runtime.settings import RunSettings
from farm.sandbox.runner import Sandbox, Settings, cores
from farm.scoring.registry import scorer
from farm.scoring.trial import runs_programs
from farm.store.cacheplace import answers_kept, place_of_cache
from farm.store.costs import CostLedger
from farm.store.directory import DirectoryStore, exists
from farm.store.planned import ensure_planned
from farm.store.protocol import MODELS_FILE, TASKS_FILE
from farm.wiring import OnEvents, open_store, run, tell_of_the_store

if TYPE_CHECKING:
    from farm.runtime.prospects import Ending
    from farm.runtime.watch import Watch

COSTS_FILE: Final = "costs.jsonl"
_SHOWN: Final = 100  # bad tasks that are named
_SILENCE_S: Final = 120.0  # of a process that says twice a second how far it is


class AskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process that asks is told; never a key."""

    models: str  # the path of the models file
    cache: str
    costs: str
    prices: str = ""
    concurrency: int | None = None  # instead of each model's own
    share: float = 1.0  # the part of the run's limits that falls to this process
    slots: int = 1  # programs at a time
    max_cost: Decimal | None = None
    max_tokens: int | None = None
    accept_errors: bool = False
    require_isolation: str | None = None
    allow_unisolated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What an evaluation was told to ask; None is not given, and the store's is taken."""

    tasks: str | None
    models: str | None
    names: tuple[str, ...] = ()
    samples: int | None = None
    limit: int | None = None
    categories: tuple[str, ...] = ()
    shards: int | None = None
    allow_bad_tasks: bool = False


def ensure_evaluation(path: str, selection: Selection, *, on_events: OnEvents) -> list[str]:
    """Make the store of an evaluation, or hold what is given against the one that is there.

    Gives what was passed over: bad tasks, where they are allowed. Raises `SpecError` with all
    that is wrong, `IdentityMismatch` when the store is of other tasks, models or settings.
    """
    if exists(path):
        with open_store(path) as store:
            return _check_store(store, selection)
    if selection.tasks is None or selection.models is None:
        raise SpecError(f"there is no store at {path!r} yet: give --tasks FILE and --models FILE")
    tasks, passed_over = _read_tasks(selection.tasks, selection)
    models = _read_models(selection.models, selection.names)
    _check_sources(models)  # a store is bound to its models, also to a mistake in them
    trials = Trials(tasks=tasks, models=tuple(models), samples=selection.samples or 1)
    kept = {TASKS_FILE: encode_tasks(tasks), MODELS_FILE: _encode_models(models)}
    plan, cases = plan_trials(trials, shards=selection.shards, version_of=_version_of, files=kept)
    if ensure_planned(path, plan, cases=cases, extras=kept):
        tell_of_the_store(path, on_events)
    return passed_over


def _check_store(store: DirectoryStore, selection: Selection) -> list[str]:
    """Refuse what is not of this store; raises `IdentityMismatch` and names it."""
    plan = store.plan
    if not has_trials(plan):
        raise SpecError(
            f"{store.path!r} holds recorded predictions: continue it with `farm run`, or give "
            "another --store"
        )
    stored_tasks, passed_over = tuple(tasks_of(store).values()), list[str]()
    if selection.tasks is not None:
        tasks, passed_over = _read_tasks(selection.tasks, selection)
    else:
        tasks = _selected(stored_tasks, selection, path=store.path)
    stored = plan.identity.models
    names = selection.names or stored
    if selection.models is not None:
        models = _read_models(selection.models, selection.names)
        names = tuple(models)
        _check_models(store, {name: models[name] for name in stored if name in models})
    samples = plan.cases // (len(stored_tasks) * len(stored))
    trials = Trials(tasks=tasks, models=names, samples=selection.samples or samples)
    shards = plan.identity.shards if selection.shards is None else selection.shards
    given, _ = plan_trials(trials, shards=shards, version_of=_version_of)
    was = {"models": stored, "shards": plan.identity.shards, "samples": samples}
    now = {"models": names, "shards": shards, "samples": trials.samples}
    # the plainest reason first, down to what no digest of cases covers, as a limit of time
    _hold(store, was | _fields_of(stored_tasks), now | _fields_of(tasks))
    check_identity(plan.identity, given.identity, store=store.path)
    return passed_over


def _check_sources(models: Mapping[str, Common]) -> None:
    """Raise `SpecError` for a key that is not set, or a file of answers that cannot be read."""
    from farm.adapters.recorded import read_recorded  # what only reads a store needs no adapter

    _check_keys(models)
    for settings in models.values():
        if isinstance(settings, RecordedSettings):
            read_recorded(settings.file, model=settings.model)


def _check_keys(models: Mapping[str, Common]) -> None:
    from farm.adapters.registry import read_key  # what only reads a store needs no adapter

    for name, model in models.items():
        named = getattr(model, "key_env", "")
        read_key(name, model, environment=variables_named([named] if named else []))


def _hold(store: DirectoryStore, stored: Mapping[str, object], given: Mapping[str, object]) -> None:
    for field in [*stored, *(given.keys() - stored.keys())]:
        old, new = stored.get(field), given.get(field)
        if old != new:
            raise IdentityMismatch(
                store=store.path,
                field=field,
                stored=old,
                given=new,
                answers=answers_kept(store.path),
            )


def _fields_of(tasks: Sequence[TaskSpec]) -> dict[str, object]:
    """Give everything that decides on a run's questions and verdicts, by the name of its place."""
    found: dict[str, object] = {"tasks": [task.task_id for task in tasks]}
    for task in tasks:
        for name, value in msgspec.structs.asdict(task).items():
            found[f"{name} of task {task.task_id!r}"] = value
    return found


def _check_models(store: DirectoryStore, models: Mapping[str, Common]) -> None:
    stored = msgspec.json.decode(store.read_kept(MODELS_FILE), type=dict[str, dict[str, Any]])
    given = msgspec.json.decode(_encode_models(models), type=dict[str, dict[str, Any]])
    for name, settings in given.items():
        _hold(
            store,
            {f"models.{name}.{field}": value for field, value in stored.get(name, {}).items()},
            {f"models.{name}.{field}": value for field, value in settings.items()},
        )


def _encode_models(models: Mapping[str, Common]) -> bytes:
    """Give what decides on the answers of models, as a file of a store."""
    kept = {name: deciding(settings) for name, settings in models.items()}
    return msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n"


def _version_of(metric: str) -> str:
    return scorer(metric).version


def _read_tasks(path: str, selection: Selection) -> tuple[tuple[TaskSpec, ...], list[str]]:
    check = validate_file(path)
    problems = [
        Problem(
            file=path,
            place=f"line {error.line_number}",
            field=error.field,
            rule=error.rule,
            detail=error.detail,
        )
        for error in check.errors
    ]
    if problems and not selection.allow_bad_tasks:
        raise SpecError(
            f"{len(problems)} problems in the tasks, --allow-bad-tasks leaves those out:",
            problems=problems[:_SHOWN],
            total=len(problems),
        )
    return _selected(check.tasks, selection, path=path), [str(problem) for problem in problems]


def _selected(
    tasks: Iterable[TaskSpec], selection: Selection, *, path: str
) -> tuple[TaskSpec, ...]:
    """Give the tasks that are wanted; raises `SpecError` when none is."""
    categories = selection.categories
    wanted = [task for task in tasks if not categories or task.category in categories]
    if not wanted:
        raise SpecError(f"{path!r}: no task is left to ask: mend the tasks, or select others")
    return tuple(wanted[: selection.limit])


def _read_models(path: str, names: Sequence[str]) -> dict[str, Common]:
    models = read_models(path)
    for name in names:
        if name not in models:
            raise SpecError(f"{path!r}: has no model {name!r}; it has {', '.join(models)}")
    return {name: models[name] for name in dict.fromkeys(names or models)}


def files_of_models(path: str) -> dict[str, str | None]:
    """Give the files that models of a models file answer from, by what names them."""
    return {
        f"model {name!r}": settings.file
        for name, settings in read_models(path).items()
        if isinstance(settings, RecordedSettings)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How models are asked, apart from what decides on their answers."""

    models: str
    concurrency: int | None = None
    cache: str | None = None
    prices: str | None = None
    max_cost: Decimal | None = None
    max_tokens: int | None = None
    accept_errors: bool = False


def prepared(
    store: DirectoryStore, asking: Asking, plan: Plan, settings: RunSettings
) -> RunSettings:
    """Complete the settings of a run that asks; refuses before anything is claimed.

    Raises what a worker would stop with: a models file or price list that cannot be read, a key
    that is not set, a bound in money without prices, and a machine without the isolation that
    programs need.
    """
    models = _read_models(asking.models, plan.identity.models)
    _check_models(store, models)
    _check_keys(models)
    if asking.max_cost is not None and not asking.prices:
        raise SpecError("--max-cost: without prices no money is counted: add --prices FILE")
    if asking.prices:
        read_prices(asking.prices)
    limits = [asking.concurrency or model.concurrency for model in models.values()]
    # a process asks at least one thing at a time, and together they must not ask too many
    settings = replace(settings, workers=min(settings.workers, *limits))
    per_shard = max(1, plan.cases // max(1, len(plan.shards)))
    with programs_for(store, settings, slots=1) as sandbox:
        isolation = None if sandbox is None else isolation_of(sandbox.isolation)
    options = AskOptions(
        models=os.path.abspath(asking.models),
        cache=place_of_cache(store.path, asking.cache, models=tuple(models)),
        costs=os.path.abspath(os.path.join(store.path, COSTS_FILE)),
        prices=os.path.abspath(asking.prices) if asking.prices else "",
        concurrency=asking.concurrency,
        share=1 / settings.workers,
        slots=max(1, cores() // settings.workers),
        max_cost=asking.max_cost,
        max_tokens=asking.max_tokens,
        accept_errors=asking.accept_errors,
        require_isolation=settings.require_isolation,
        allow_unisolated=settings.allow_unisolated,
    )
    command = [
        sys.executable, "-I", "-m", "farm.runtime.asker_main",
        "--store", os.path.abspath(store.path),
        "--parent", str(os.getpid()),
        "--options", msgspec.json.encode(options).decode(),
    ]  # fmt: skip
    return replace(
        settings,
        incarnation=current_incarnation(),
        name=f"eval-{secrets.token_hex(4)}",
        worker_command=command,
        isolation=isolation,
        deadline_grace_s=settings.grace_s,  # what is out is paid for
        stall_s=_SILENCE_S,
        overlapping=True,
        shards_per_process=max(1, len(plan.shards)),
        shards_per_batch=max(1, ceil(sum(limits) / per_shard)),
    )


@contextmanager
def programs_for(
    store: DirectoryStore, settings: RunSettings, *, slots: int
) -> Iterator[Sandbox | None]:
    """Open what runs the programs of an evaluation, None where no task asks for one.

    Raises `SandboxUnavailable` when the machine does not grant what is asked for.
    """
    if not any(runs_programs(task) for task in tasks_of(store).values()):
        yield None
        return
    with Sandbox(
        Settings(
            require_isolation=settings.require_isolation,
            allow_unisolated=settings.allow_unisolated,
        ),
        slots=slots,
    ) as sandbox:
        sandbox.isolation  # noqa: B018  starts a slot, and raises where it may not
        yield sandbox


def open_costs(path: str, *, prices: str, models: Mapping[str, Common]) -> CostLedger:
    """Open the cost ledger of a run."""
    return CostLedger(
        path,
        prices=read_prices(prices) if prices else Prices(),
        price_names={name: price_name(name, settings) for name, settings in models.items()},
    )


def run_evaluation(
    store: DirectoryStore,
    asking: Asking | None,
    settings: RunSettings,
    *,
    on_events: OnEvents,
    watch: Watch | None,
) -> Ending:
    """Ask what is not answered yet, as far as that goes; see `farm.wiring.run`."""

    def prepare(plan: Plan, given: RunSettings) -> RunSettings:
        if asking is None:
            raise SpecError(f"{store.path!r} is not complete: give --models FILE to go on")
        return prepared(store, asking, plan, given)

    # who is gone is asked before anything is prepared: a run that was killed goes on at once
    settings = replace(settings, is_gone=is_gone)
    return run(store, settings, on_events=on_events, prepare=prepare, watch=watch)


def costs_of(store: DirectoryStore) -> str:
    """Give the path of a store's cost ledger."""
    return os.path.join(store.path, COSTS_FILE)
