"""Paid answers, kept durably under the digest of their request; one SQLite file.

WAL and synchronous FULL: an answer that was acknowledged survives a power cut. Answers that
arrive within a few milliseconds share one commit. Several processes may use one file at once,
and several runs one after another. Every row carries a checksum, so that a changed byte is
found where it is read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

import msgspec

from farm.core.generation import Generation, decode_generation, encode_generation
from farm.errors import Busy, Corrupt, StorageError, StorageFull
from farm.files.atomic import Folder, storage_errors
from farm.store.lane import Lane

GATHER_S: Final = 0.01  # with the sync itself well within 50 ms
_APPLICATION: Final = 0x6661726D  # "farm", in the file's header
_VERSION: Final = 1
_BUSY_S: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS generations (
    digest BLOB PRIMARY KEY NOT NULL,
    model TEXT NOT NULL,
    value BLOB NOT NULL,
    checksum BLOB NOT NULL
)
"""
_SELECT: Final = "SELECT digest, value, checksum FROM generations WHERE digest IN"
_COPY: Final = "SELECT digest, model, value, checksum FROM generations WHERE model IN"
_COPIED: Final = 1000  # rows in one commit, and in memory
_INSERT: Final = "INSERT OR IGNORE INTO generations VALUES"
# of one statement: each step of one lets go of the interpreter, and waits to have it again
_ROWS: Final = 100
Row = TypeVar("Row")


class _Keep(msgspec.Struct, frozen=True):
    digest: bytes
    model: str
    value: bytes


class GenerationCache:
    """Answers by digest. Raises StorageError, StorageFull, Corrupt and Busy, and nothing else.

    After a write that failed in a way that leaves its outcome open, nothing more is written by
    this process.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._poison = ""
        _create(path)
        self._writer = self._connect()
        try:
            self._prepare()
            self._reader = self._connect()
        except BaseException:
            self._writer.close()
            raise
        self._finds = Lane(self._find_all, name="cache-find", gather_s=0.0)
        self._keeps = Lane(self._keep_all, name="cache-keep", gather_s=GATHER_S)

    async def find(self, digest: str) -> Generation | None:
        """Give the answer kept under a digest, None when there is none."""
        return (await self.find_many([digest]))[0]

    async def find_many(self, digests: Sequence[str]) -> list[Generation | None]:
        """Give for each digest the answer kept under it, None when there is none."""
        return await self._finds.do([bytes.fromhex(digest) for digest in digests])

    async def keep(self, digest: str, generation: Generation, *, model: str) -> Generation:
        """Make an answer durable; give the one that counts, which is the first ever kept.

        That is `generation` itself if none was kept before, and never otherwise.
        """
        job = _Keep(bytes.fromhex(digest), model, encode_generation(generation))
        earlier = await self._keeps.do(job)
        return generation if earlier is None else earlier

    def copy_from(self, other: GenerationCache, *, models: Sequence[str]) -> None:
        """Make durable here what another cache holds of some models; what is here already stays.

        Raises `Corrupt` for an answer that was changed there. For the time before anything is
        asked: it runs in the caller's thread.
        """
        marks = ", ".join("?" * len(models))
        with other._errors():
            rows = other._reader.execute(f"{_COPY} ({marks})", tuple(models))
        while True:
            with other._errors():
                part = rows.fetchmany(_COPIED)
                for digest, _, value, checksum in part:
                    other._read(digest, value, checksum)
            if not part:
                return
            with self._errors(writing=True):
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    self._insert(part)
                    self._writer.execute("COMMIT")
                finally:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")

    def count(self) -> int:
        """Return how many answers are kept."""
        with self._errors():
            rows = self._reader.execute("SELECT count(*) FROM generations").fetchone()
        return int(rows[0])

    def close(self) -> None:
        """Finish what was begun and close the file."""
        self._keeps.close()
        self._finds.close()
        with self._errors():
            self._reader.close()
            self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        with self._errors():
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = FULL")
            return connection

    def _prepare(self) -> None:
        with self._errors():
            (application,) = self._writer.execute("PRAGMA application_id").fetchone()
            (version,) = self._writer.execute("PRAGMA user_version").fetchone()
            (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and (application, version) != (_APPLICATION, _VERSION):
                reason = f"a database of another program or version ({application}, {version})"
                raise Corrupt(path=self.path, reason=reason)
            (mode,) = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                reason = "this file system cannot share a database: put it on a local disk"
                raise StorageError(path=self.path, reason=reason)
            if not tables:
                self._writer.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._writer.execute(f"PRAGMA user_version = {_VERSION}")
                self._writer.execute(_SCHEMA)

    def _find_all(self, jobs: list[list[bytes]]) -> list[list[Generation | None]]:
        with self._errors():
            kept = self._look_up(self._reader, [digest for job in jobs for digest in job])
        return [[kept.get(digest) for digest in job] for job in jobs]

    def _look_up(
        self, connection: sqlite3.Connection, digests: Sequence[bytes]
    ) -> dict[bytes, Generation]:
        kept: dict[bytes, Generation] = {}
        for part in _parts(digests):
            marks = ", ".join("?" * len(part))
            rows = connection.execute(f"{_SELECT} ({marks})", part)
            kept |= {row[0]: self._read(*row) for row in rows}
        return kept

    def _read(self, digest: bytes, value: bytes, checksum: bytes) -> Generation:
        if checksum != checksum_of(digest, value):
            raise Corrupt(path=self.path, reason=f"the answer {digest.hex()} was changed")
        try:
            return decode_generation(value)
        except msgspec.DecodeError as error:
            reason = f"the answer {digest.hex()} cannot be read: {error}"
            raise Corrupt(path=self.path, reason=reason) from error

    def _keep_all(self, jobs: list[_Keep]) -> list[Generation | None]:
        """Write a group in one commit; give the answers that count, None where all are new."""
        if self._poison:
            raise StorageError(path=self.path, reason=self._poison)
        rows = [
            (job.digest, job.model, job.value, checksum_of(job.digest, job.value)) for job in jobs
        ]
        is_new = [True] * len(rows)
        kept: dict[bytes, Generation] = {}
        with self._errors(writing=True):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if self._insert(rows) < len(rows):
                    # rare: begin anew, row by row, to know which were kept before
                    self._writer.execute("ROLLBACK")
                    self._writer.execute("BEGIN IMMEDIATE")
                    is_new = [self._insert([row]) > 0 for row in rows]
                    kept = self._look_up(self._writer, [job.digest for job in jobs])
                self._writer.execute("COMMIT")
            finally:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
        return [None if new else kept[job.digest] for job, new in zip(jobs, is_new, strict=True)]

    def _insert(self, rows: Sequence[tuple[bytes, str, bytes, bytes]]) -> int:
        """Insert what is not there yet; return how many rows that were."""
        written = 0
        for part in _parts(rows):
            marks = ", ".join(["(?, ?, ?, ?)"] * len(part))
            values = [value for row in part for value in row]
            written += self._writer.execute(f"{_INSERT} {marks}", values).rowcount
        return written

    @contextlib.contextmanager
    def _errors(self, *, writing: bool = False) -> Iterator[None]:
        """Translate what SQLite says into farm's errors, once, here."""
        try:
            yield
        except sqlite3.Error as error:
            translated = _translate(error, self.path)
            if writing and isinstance(translated, StorageError):
                # a sync that failed cannot be tried again: the next one would lie
                self._poison = str(error)
            raise translated from error
        except UnicodeDecodeError as error:
            # what SQLite says of a damaged schema quotes its bytes, which need not be text
            raise Corrupt(path=self.path, reason=str(error)) from error


def _create(path: str) -> None:
    """Make the file, if there is none, readable by its owner alone; its name is durable."""
    with storage_errors(path):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
    folder = Folder(os.path.dirname(os.path.abspath(path)))
    try:
        folder.sync()
    finally:
        folder.close()


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS]


def checksum_of(digest: bytes, value: bytes) -> bytes:
    """Give the checksum that stands beside an answer."""
    return blake2b(digest + value, digest_size=8).digest()


def _translate(error: sqlite3.Error, path: str) -> Busy | Corrupt | StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"{path}: another process held it for over {_BUSY_S:g} s; try later")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(path=path, reason=str(error))
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(path=path, reason=str(error))
    return StorageError(path=path, reason=str(error))
