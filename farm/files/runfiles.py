"""The files of a qualification beside its store, and how they are read again.

::

    fixtures/        one a request id: the prepared conversation
    cells/           one an accepted (shard, version): the record of the cell, immutable
    results.jsonl    the records that count, in the order of the plan; derived, replaced whole
    provenance.json  what was measured, with what, by whom

Every file is whole or not there.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import msgspec

from farm.errors import Corrupt, SpecError
from farm.files.atomic import Folder, make_folders, open_written, storage_errors
from farm.files.incarnation import is_alive

FIXTURES = "fixtures"
CELLS = "cells"
RESULTS_FILE = "results.jsonl"
PROVENANCE_FILE = "provenance.json"


class RunFiles:
    """The files of a run beside its store, in the store's directory.

    `reading` makes no folder and takes away nothing that a killed process left.
    """

    def __init__(self, path: str, *, reading: bool = False) -> None:
        self._path = path
        for name in () if reading else (FIXTURES, CELLS):
            make_folders(os.path.join(path, name))
        self._folder = Folder(path)
        poison = self._folder.poison
        self._fixtures = Folder(os.path.join(path, FIXTURES), poison=poison)
        self._cells = Folder(os.path.join(path, CELLS), poison=poison)
        for folder in () if reading else (self._fixtures, self._cells):
            folder.sweep(alive=is_alive)

    def close(self) -> None:
        """Close the folders."""
        for folder in (self._folder, self._fixtures, self._cells):
            folder.close()

    def fixture(self, request_id: str) -> bytes | None:
        """Give a fixture that was saved before."""
        return _read(self._fixtures, f"{request_id}.json")

    def keep_fixture(self, request_id: str, data: bytes) -> None:
        """Save a fixture."""
        self._fixtures.replace(f"{request_id}.json", data)

    def keep_cell(self, name: str, data: bytes) -> None:
        """Save the record of a cell, once."""
        self._cells.create_once({name: data})

    def cell(self, name: str) -> bytes:
        """Give the record of a cell."""
        data = _read(self._cells, name)
        if data is None:
            path = os.path.join(self._path, CELLS, name)
            raise Corrupt(path=path, reason="missing, and the ledger counts on it")
        return data

    def read(self, name: str) -> bytes | None:
        """Give a file of that name, None when there is none."""
        return _read(self._folder, name)

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in place of the one of that name, unless it is the same."""
        if _read(self._folder, name) != data:
            self._folder.replace(name, data)

    def json(self, name: str) -> dict[str, Any] | None:
        """Give a JSON object that was written before, None when there is none."""
        data = _read(self._folder, name)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            path = os.path.join(self._path, name)
            raise Corrupt(path=path, reason=f"not a JSON object: {error}") from error


def _read(folder: Folder, name: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        return folder.read(name)
    return None


def read_run(path: str) -> tuple[list[bytes], dict[str, Any]]:
    """Read the lines of results.jsonl and provenance.json of a run's directory."""
    place = os.path.join(path, RESULTS_FILE)
    if not os.path.exists(place):
        raise SpecError(f"{path!r} holds no results.jsonl: give the --output of a qualification")
    with storage_errors(place), open(open_written(place), "rb") as file:
        lines = file.read().splitlines()
    document = os.path.join(path, PROVENANCE_FILE)
    try:
        return lines, msgspec.json.decode(read_file(document), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Corrupt(path=document, reason=f"not a JSON object: {error}") from error


def read_fixtures(path: str) -> dict[str, str]:
    """Give the digest of the archive of every fixture a run saved, by request id."""
    folder = os.path.join(path, FIXTURES)
    found: dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise SpecError(f"{path!r} holds no fixtures: give the --output of a run") from error
    for name in names:
        if name.endswith(".json") and not name.startswith("."):
            place = os.path.join(folder, name)
            try:
                fixture = msgspec.json.decode(read_file(place), type=dict[str, Any])
                found[str(fixture["request_id"])] = str(fixture["archive_sha256"])
            except (msgspec.DecodeError, KeyError) as error:
                raise Corrupt(path=place, reason=f"not a fixture: {error}") from error
    return found


def read_file(path: str) -> bytes:
    """Read a small file of the user's; raises `SpecError` when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise SpecError(f"{path!r} cannot be read: {reason}") from error
