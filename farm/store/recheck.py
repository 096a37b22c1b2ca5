"""What does not hold in the files beside a run's receipts: kept answers and the cost ledger.

Both are only read, and whatever is found is told: opening them to work with, as a run does,
would stop at the first fault, and add to the ledger.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final
from urllib.parse import quote

import msgspec

from farm.core.cost import Entry, Opened
from farm.core.generation import decode_generation
from farm.errors import Corrupt
from farm.files.atomic import open_written
from farm.store.cache import checksum_of

_SHOWN: Final = 20  # faults of one file that are told one by one


def ledger_problems(path: str) -> Iterator[str]:
    """Name the lines of a cost ledger that are no entries; none where there is no file.

    A line that was cut short by a kill is none of them: it is the last, or whoever opened the
    ledger next ended it and wrote so in the next line.
    """
    bad: list[int] = []
    suspect = 0
    try:
        with open(open_written(path), "rb") as file:
            for number, line in enumerate(file, start=1):
                entry = _entry_of(line)
                if suspect and not isinstance(entry, Opened):
                    bad.append(suspect)
                suspect = number if entry is None and line.strip() else 0
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{path}: cannot be read: {error.strerror}"
        return
    except Corrupt as error:
        yield str(error)
        return
    yield from _told(path, [f"line {number} is not an entry" for number in bad])


def cache_problems(path: str) -> Iterator[str]:
    """Name the kept answers whose bytes are not what was written; none where there is no file.

    The database is opened for reading alone. Where no run is or was cut off at it, not even its
    locks are taken.
    """
    if not os.path.exists(path):
        return
    found: list[str] = []
    try:
        with closing(_opened(path)) as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                found += [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
                found = [fault for fault in found if fault != "ok"]
                rows = connection.execute("SELECT digest, value, checksum FROM generations")
                found += [fault for row in rows if (fault := _fault_of(*row))]
    # what SQLite says of a damaged schema quotes its bytes, which need not be text
    except (sqlite3.Error, UnicodeDecodeError) as error:
        found.append(str(error))
    yield from _told(path, found)


def _opened(path: str) -> sqlite3.Connection:
    log = f"{path}-wal"
    busy = os.path.exists(log) and os.path.getsize(log) > 0
    mode = "mode=ro" if busy else "mode=ro&immutable=1"
    place = quote(os.fsencode(os.path.abspath(path)))
    return sqlite3.connect(f"file:{place}?{mode}", uri=True, isolation_level=None)


def _fault_of(digest: object, value: object, checksum: object) -> str:
    if not isinstance(digest, bytes) or not isinstance(value, bytes):
        return f"the answer {digest!r:.80} is not of bytes"
    if checksum != checksum_of(digest, value):
        return f"the answer {digest.hex()} was changed"
    try:
        decode_generation(value)
    except msgspec.DecodeError as error:
        return f"the answer {digest.hex()} cannot be read: {error}"
    return ""


def _entry_of(line: bytes) -> Entry | None:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return None


def _told(path: str, found: list[str]) -> Iterator[str]:
    for fault in found[:_SHOWN]:
        yield f"{path}: {fault}"
    if len(found) > _SHOWN:
        yield f"{path}: {len(found) - _SHOWN} more faults of this kind"


_decoder = msgspec.json.Decoder(Entry)
