"""Hold the files of a qualification against each other: what was changed by hand shows here.

The plan binds the configuration, a receipt the verdicts and the digest of its cell's record, a
request's identifier its fixture and, with the configuration, the bytes of its first request.
Figures themselves cannot be made again; that they are those that were published, can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from farm.core.lease import Lease
from farm.core.ledger import Ledger
from farm.core.plan import Plan, Shard
from farm.core.receipt import Receipt, receipt_name
from farm.errors import Corrupt, FarmError
from farm.qualify.bodies import request_body
from farm.qualify.cells import Cell, cells_of, plan_of, request_ids
from farm.qualify.config import Config, config_sha256, provenance_of
from farm.qualify.ports import Files
from farm.qualify.records import CellRecord, receipt_of
from farm.qualify.run import RESULTS_FILE, checked_fixture, results_text
from farm.qualify.workload import TOOLS

_SORTED = msgspec.json.Encoder(order="sorted")
_RECORDS = msgspec.json.Decoder(CellRecord)
_OTHER_RECORD = "its verdicts or its digest are not those of the cell's record"


def config_of(document: Mapping[str, Any], plan: Plan, *, path: str) -> Config:
    """Give the configuration that provenance.json shows; raises `Corrupt` if it is not the plan's.

    The name of the key's variable is not in it, and is no part of the plan.
    """
    try:
        config = msgspec.convert(document.get("config"), Config)
    except msgspec.ValidationError as error:
        raise Corrupt(path=path, reason=f"holds no configuration: {error}") from error
    if plan_of(config)[0].run_id != plan.run_id:
        raise Corrupt(path=path, reason="its configuration is not the one of the plan")
    return config


def receipt_again(files: Files, shard: Shard, lease: Lease) -> tuple[Receipt, str]:
    """Make a shard's receipt from its cell's record; also give what to say if it is another."""
    line = files.cell(receipt_name(lease.shard, lease.version))
    pid = 0 if lease.receipt is None else lease.receipt.worker_pid
    return receipt_of(_record(line, shard.name), line, worker_pid=pid), _OTHER_RECORD


def shows(document: Mapping[str, Any], config: Config) -> bool:
    """Tell whether what provenance.json shows is what its configuration says."""
    said = msgspec.to_builtins(provenance_of(config))
    # as JSON, where a tuple is a list
    return bool(
        _SORTED.encode(document.get("provenance")) == _SORTED.encode(said)
        and document.get("config_sha256") == config_sha256(config)
    )


def problems_beside(ledger: Ledger, files: Files, config: Config) -> Iterator[str]:
    """Say what does not hold of results, fixtures and first requests."""
    try:
        if files.read(RESULTS_FILE) != results_text(ledger, files.cell):
            yield f"{RESULTS_FILE}: is not what the cells give; the next run writes it anew"
    except FarmError as error:
        yield str(error)
    cells = {cell.shard: cell for cell in cells_of(config)}
    for lease in ledger.leases:
        if lease.done:
            try:
                yield from _cell_problems(cells[lease.shard], lease, files, config)
            except FarmError as error:
                yield str(error)


def _cell_problems(cell: Cell, lease: Lease, files: Files, config: Config) -> Iterator[str]:
    path = receipt_name(lease.shard, lease.version)
    record = _record(files.cell(path), path)
    if [task.request_id for task in record.tasks] != list(request_ids(config, cell)):
        yield f"cells/{path}: its tasks are not those of the plan"
        return
    for task in record.tasks:
        saved = files.fixture(task.request_id)
        if saved is None:
            yield f"fixtures/{task.request_id}.json: missing"
            continue
        fixture = checked_fixture(saved, task.request_id)
        cold = cell.cache == "cold"
        body = request_body(config, fixture.messages, TOOLS, first=True, cold=cold)
        initial = task.phases.get("initial")
        if initial is None or initial.request_sha256 != sha256(body).hexdigest():
            yield f"cells/{path}: {task.request_id} was asked with other bytes than its fixture's"


def _record(line: bytes, path: str) -> CellRecord:
    try:
        return _RECORDS.decode(line)
    except msgspec.DecodeError as error:
        raise Corrupt(path=f"cells/{path}", reason=f"not the record of a cell: {error}") from error
