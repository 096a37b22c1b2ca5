"""A disk in user space: one file whose every write and flush is recorded, and may be failed.

`recording_disk.py MOUNTPOINT IMAGE LOG MODE`. LOG gets records of (offset, length, bytes), both
numbers as little-endian 64-bit integers; a flush has the offset `FLUSH` and no bytes. While the
file MODE holds the word `fail`, writes and flushes return EIO and nothing is recorded.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from typing import Any

FLUSH = 2**64 - 1
HEADER = struct.Struct("<QQ")
FILE = "/disk"


def serve(mountpoint: str, image: str, log: str, mode: str) -> None:
    # here and not at the top: only where there is FUSE; the constants above serve everywhere
    import mfusepy  # type: ignore[import-untyped]

    fd = os.open(image, os.O_RDWR)
    record = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def check() -> None:
        if os.path.getsize(mode):
            raise mfusepy.FuseOSError(errno.EIO)

    class Disk(mfusepy.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: Any = None) -> dict[str, int]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            if path != FILE:
                raise mfusepy.FuseOSError(errno.ENOENT)
            size = os.fstat(fd).st_size
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": size}

        def readdir(self, path: str, fh: Any) -> list[str]:
            return [".", "..", FILE[1:]]

        def open(self, path: str, flags: int) -> int:
            return 0

        def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
            return os.pread(fd, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: Any) -> int:
            check()
            os.pwrite(fd, data, offset)
            os.write(record, HEADER.pack(offset, len(data)) + bytes(data))
            return len(data)

        def fsync(self, path: str, datasync: int, fh: Any) -> int:
            check()
            os.write(record, HEADER.pack(FLUSH, 0))
            return 0

    mfusepy.FUSE(Disk(), mountpoint, foreground=True, nothreads=True, direct_io=True)


if __name__ == "__main__":
    serve(*sys.argv[1:5])
