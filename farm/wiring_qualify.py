"""Where a qualification gets its doors: server, hooks, files, sandbox, lock, store."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from farm.config import variables_named
from farm.core.event import Event, note
from farm.core.moment import moment
from farm.errors import (
    Busy,
    FarmError,
    IdentityMismatch,
    NotPermitted,
    SandboxUnavailable,
    SpecError,
)
from farm.files.incarnation import current_incarnation, is_alive, is_gone
from farm.files.lock import FileLock
from farm.files.runfiles import RunFiles, read_file
from farm.qualify.cells import plan_of
from farm.qualify.config import OPERATIONAL, Config, complete_config, operation_of, read_config
from farm.qualify.devicelease import DeviceLease, check_device_lease, read_device_lease
from farm.qualify.hooks import Hooks, check_hooks, template_options
from farm.qualify.ports import CodeVerdict, Endpoint, LocalTokenizer
from farm.qualify.provenance import (
    PROVENANCE_FILE,
    invocation_of,
    observe_server,
    provenance_document,
)
from farm.qualify.run import Session, run_cells, write_results
from farm.runtime.interrupts import handlers_kept
from farm.store.directory import DirectoryStore, exists, wall_clock
from farm.store.planned import ensure_planned

if TYPE_CHECKING:
    import signal

    from farm.core.ledger import Ledger
    from farm.runtime.verify import Verification
    from farm.sandbox.runner import Sandbox

OnEvents = Callable[[Sequence[Event]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an invocation ended: the signal that cut it short, and whether all cells are done."""

    signal: signal.Signals | None
    complete: bool


def load_config(path: str) -> Config:
    """Read a complete configuration."""
    config = complete_config(read_config(read_file(path), file=path), file=path)
    check_hooks(config)
    return config


def load_device_lease(path: str) -> DeviceLease:
    """Read a device lease."""
    return read_device_lease(read_file(path), file=path)


def qualify(
    config: Config, lease: DeviceLease, *, output: str, on_events: OnEvents, farm_version: str
) -> Ended:
    """Measure every open cell of a configuration into `output`, holding the devices' lock.

    Raises `NotPermitted` when a check refuses, `SpecError` when `output` belongs to
    another configuration; what was published stands, and the same call goes on with the rest.
    """
    # here and not at the top: anyio loads for 40 ms, which only a run needs
    import anyio

    check_device_lease(lease, nodes=config.nodes, now=time.time())
    plan, cases = plan_of(config)
    with device_lock(lease.lock_path):
        # a directory is bound to its configuration, also to a mistake in it: what can be known of
        # one before anything is sent is found out before
        doors = None if exists(output) else _Doors(config)
        try:
            made = ensure_planned(output, plan, cases=cases)
        except IdentityMismatch as error:
            raise _other_configuration(output, config) from error
        with DirectoryStore(output, invocation_id=secrets.token_hex(8)) as store:
            if made:
                on_events(
                    store.tell(
                        [
                            note(
                                "store.initialized",
                                cases=plan.cases,
                                shards=len(plan.shards),
                                dataset_sha256=plan.identity.dataset_sha256,
                            )
                        ]
                    )
                )
            if store.ledger().settled:
                return _nothing_to_do(store, output)
            lock = store.run_lock()
            try:
                if not lock.try_acquire():
                    raise Busy(f"{output!r} is being run by {lock.body()}: wait for it, or end it")
                lock.say(f"process {os.getpid()} since {moment(int(wall_clock()))}")
                store.sweep(alive=is_alive)
                files = RunFiles(output)
                try:
                    with handlers_kept():
                        return anyio.run(
                            _measure,
                            config,
                            lease,
                            store,
                            files,
                            doors or _Doors(config),
                            on_events,
                            farm_version,
                        )
                finally:
                    files.close()
            finally:
                lock.close()


class _Doors:
    """The server of a configuration, not opened yet, and its tokenizer."""

    def __init__(self, config: Config) -> None:
        """Read the key and the tokenizer; raises `SpecError` where one is not there."""
        self.endpoint = open_endpoint(config)
        self.tokenizer = load_tokenizer(config)


def _other_configuration(output: str, config: Config) -> SpecError:
    """Say in what a directory's configuration differs from this one."""
    refusal = f"{output!r} was made for another configuration"
    try:
        before = msgspec.json.decode(read_file(os.path.join(output, PROVENANCE_FILE)))["config"]
    except (FarmError, msgspec.DecodeError, KeyError, TypeError):
        before = None  # made, and ended before anything was known of its server
    if isinstance(before, dict):
        ours = msgspec.json.decode(msgspec.json.encode(config))
        differs = sorted(
            name
            for name in ours
            if name not in OPERATIONAL and ours[name] != before.get(name, ours[name])
        )
        refusal += f", it differs in {', '.join(differs)}" if differs else ""
    way_out = "give another --output" + ("" if _has_results(output) else ", or remove this one")
    return SpecError(f"{refusal}; nothing was changed: {way_out}")


def _has_results(output: str) -> bool:
    """Tell whether a cell was measured, or may have been."""
    try:
        with DirectoryStore(output) as store:
            return any(lease.done for lease in store.ledger().leases)
    except FarmError:
        return True


def _nothing_to_do(store: DirectoryStore, output: str) -> Ended:
    files = RunFiles(output)
    try:
        # a process killed after its last commit left the lines behind
        write_results(store.ledger(), files)
    finally:
        files.close()
    return Ended(signal=None, complete=store.ledger().complete)


async def _measure(
    config: Config,
    lease: DeviceLease,
    store: DirectoryStore,
    files: RunFiles,
    doors: _Doors,
    on_events: OnEvents,
    farm_version: str,
) -> Ended:
    async with doors.endpoint as endpoint:
        server = await observe_server(endpoint, config=config)
        entry = invocation_of(
            lease,
            server,
            operation=operation_of(config),
            farm_version=farm_version,
            now=time.time(),
        )
        document = provenance_document(
            config, run_id=store.plan.run_id, before=files.json(PROVENANCE_FILE), invocation=entry
        )
        files.replace(PROVENANCE_FILE, msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        with SandboxJudge() as judge:
            ended_by = await run_cells(
                Session(
                    config=config,
                    lease=lease,
                    store=store,
                    files=files,
                    endpoint=endpoint,
                    hooks=Hooks(
                        config,
                        lease,
                        endpoint=endpoint,
                        commands=OperatorCommands(),
                        tokenizer=doors.tokenizer,
                    ),
                    judge=judge,
                    worker=f"qualify-{secrets.token_hex(4)}",
                    incarnation=current_incarnation(),
                    is_gone=is_gone,
                    on_events=on_events,
                )
            )
    return Ended(signal=ended_by, complete=store.ledger().complete)


def verify_qualification(
    store: DirectoryStore,
    *,
    digests: Callable[[], tuple[str, str, int]],
    receipt_names: Callable[[], list[str]],
) -> Verification:
    """Check the store of a qualification and the files beside it; nothing is sent or written."""
    from farm.qualify.recheck import config_of, problems_beside, receipt_again, shows
    from farm.runtime.verify import verify

    files = RunFiles(store.path, reading=True)

    def beside(ledger: Ledger) -> Iterator[str]:
        try:
            document = files.json(PROVENANCE_FILE)
            if document is None:
                if any(lease.done for lease in ledger.leases):
                    yield f"{PROVENANCE_FILE}: missing"
                return
            config = config_of(document, store.plan, path=PROVENANCE_FILE)
            if not shows(document, config):
                yield f"{PROVENANCE_FILE}: what it shows is not what its configuration says"
            yield from problems_beside(ledger, files, config)
        except FarmError as error:
            yield str(error)

    try:
        return verify(
            store,
            digests=digests,
            receipt_names=receipt_names,
            rescore=lambda data, shard, lease: receipt_again(files, shard, lease),
            beside=beside,
        )
    finally:
        files.close()


def open_endpoint(config: Config) -> Endpoint:
    """Give the server of a configuration, not opened yet; reads the key it names."""
    # here and not at the top: aiohttp loads for 100 ms, which a summary does not need
    from farm.adapters.measured import MeasuredEndpoint
    from farm.adapters.secret import Secret, variable_shown

    key = None
    if config.api_key_env:
        found = variables_named([config.api_key_env])
        if config.api_key_env not in found:
            raise SpecError(
                "api_key_env: the key is looked for in the environment variable "
                f"{variable_shown(config.api_key_env)}, which is not set: set it and run again"
            )
        key = Secret(found[config.api_key_env], name=config.api_key_env)
    return MeasuredEndpoint(
        config.url, connections=max(config.concurrency), timeout_s=config.timeout_s, key=key
    )


def load_tokenizer(config: Config) -> LocalTokenizer | None:
    """Load the tokenizer a configuration counts with, None when it counts otherwise."""
    if config.token_counter != "tokenizer":
        return None
    from farm.adapters.localtokenizer import LocalTokenizer

    if config.tokenizer is None:
        raise SpecError("token_counter 'tokenizer' needs the field tokenizer: a local directory")
    kwargs = template_options(config).get("chat_template_kwargs", {})
    return LocalTokenizer(config.tokenizer, template_options=kwargs)


@contextmanager
def device_lock(path: str) -> Iterator[None]:
    """Hold the exclusive advisory lock of the devices; raises `NotPermitted` when it is held."""
    if os.path.isdir(path):
        raise SpecError(f"lock_path: {path!r} is a folder: name a file in it")
    if os.path.islink(path):
        raise SpecError(f"lock_path: {path!r} is a link: name the file itself")
    lock = FileLock(path)
    try:
        if not lock.try_acquire():
            raise NotPermitted(
                f"{path}: another qualification holds the devices ({lock.body() or 'unnamed'}): "
                "wait for its end, then run the same command again"
            )
        lock.say(f"process {os.getpid()}")
        yield
    finally:
        lock.close()


class OperatorCommands:
    """Runs hooks and programs with the variables they are granted."""

    async def hook(
        self,
        argv: Sequence[str],
        question: Mapping[str, Any],
        *,
        environment: Sequence[str],
        timeout_s: float,
    ) -> Mapping[str, Any]:
        """Run a hook; see `farm.qualify.ports`."""
        from farm.adapters.hookcommand import run_hook

        return await run_hook(
            argv, question, environment=variables_named(environment), timeout_s=timeout_s
        )

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> str:
        """Run a program; see `farm.qualify.ports`."""
        from farm.adapters.hookcommand import run_command

        # ssh needs its agent and its home, nvidia-smi the path
        granted = variables_named(["PATH", "HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME"])
        output = await run_command(argv, b"", environment=granted, timeout_s=timeout_s)
        return output.decode("utf-8", "replace")


class SandboxJudge:
    """Runs the withheld cases in the sandbox, which starts with the first program."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    def __call__(self, source: str) -> CodeVerdict:
        """Judge one program; where there is no isolation it is not evaluated."""
        # here and not at the top: only a run that reaches code needs it
        from farm.sandbox.restricted import run_restricted
        from farm.sandbox.runner import Sandbox

        try:
            if self._sandbox is None:
                self._sandbox = Sandbox(slots=1)
            result = run_restricted(source, sandbox=self._sandbox)
        except SandboxUnavailable as error:
            return CodeVerdict(
                evaluated=False, passed=None, reason="no_isolation", detail=str(error)
            )
        return CodeVerdict(
            evaluated=result.evaluated,
            passed=result.passed,
            reason=result.reason,
            detail=result.detail,
            isolation="" if result.isolation is None else result.isolation.level,
        )

    def __enter__(self) -> SandboxJudge:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._sandbox is not None:
            self._sandbox.close()


def outputs_of(path: str) -> tuple[str, bytes]:
    """Read outputs.jsonl of a directory of saved outputs."""
    place = os.path.join(path, "outputs.jsonl")
    return place, read_file(place)
