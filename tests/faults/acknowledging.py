"""A run that says what it has acknowledged: `acknowledging.py STORE INPUT PLANTED`.

It makes a store and works through it by hand, one line on stdout for each thing that is durable
by farm's word; after each it waits for a line on stdin, so that the reader knows the moment.
PLANTED is a fault of farm itself, to show that it would be found: `no_fsync` skips the sync of
files, `no_folder_fsync` that of folders, `none` is farm as it is.
"""

from __future__ import annotations

import os
import stat
import sys

from farm.core.lease import Lease
from farm.files import atomic
from farm.files.fresh import FreshFile
from farm.runtime.by_hand import HandSettings, work_once
from farm.store.directory import DirectoryStore
from farm.wiring import InitOptions, ensure_store

STORE, INPUT, PLANTED = sys.argv[1:4]
_full_sync = atomic.full_sync


def say(*words: object) -> None:
    print(*words, flush=True)
    sys.stdin.readline()


def sync(fd: int) -> None:
    is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
    if (PLANTED == "no_folder_fsync") != is_folder:
        _full_sync(fd)


if PLANTED != "none":
    atomic.full_sync = sync
if PLANTED == "no_fsync":
    FreshFile.sync = lambda self: None  # type: ignore[method-assign]

ensure_store(STORE, InitOptions(input=INPUT, shards=3), on_events=lambda events: None)
say("made")


def claimed(lease: Lease) -> None:
    say("claimed", lease.shard, lease.version)


settings = HandSettings(worker_id="w", worker_pid=1, ttl_ms=10, now_ms=100)
with DirectoryStore(STORE) as store:
    while (done := work_once(store, settings, on_claim=claimed)) is not None:
        assert done.receipt is not None
        say("done", done.shard, done.version, done.receipt.sha256)
