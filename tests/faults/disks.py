"""Disks to be broken: mounted for a test, and always taken away again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.faults.recording_disk import FILE, FLUSH, HEADER

SIZE_MB = {"ext4": 24, "xfs": 320}  # near the least that each can be made with
_SCRIPT = os.path.join(os.path.dirname(__file__), "recording_disk.py")


def sudo(*command: str) -> str:
    """Run a command of the system; its stderr is in the error when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def mounted(*options: str, at: str) -> Iterator[str]:
    """Mount something at a new folder for the length of a block."""
    os.makedirs(at, exist_ok=True)
    sudo("mount", *options, at)
    try:
        yield at
    finally:
        unmount(at)


def unmount(at: str) -> None:
    """Unmount; lazily when something still holds on, so that nothing is ever left."""
    if subprocess.run(["umount", at], capture_output=True, check=False).returncode:
        subprocess.run(["umount", "-l", at], capture_output=True, check=False)


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system on a recording disk, mounted at `root`."""

    folder: str
    kind: str

    @property
    def root(self) -> str:
        return os.path.join(self.folder, "root")

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "log")

    def recorded(self) -> int:
        """Give how many bytes of the log there are, which is a moment in the disk's life."""
        return os.path.getsize(self.log)

    def fail(self, *, failing: bool) -> None:
        """Have every write and flush fail from now on, or no more."""
        with open(os.path.join(self.folder, "mode"), "w") as file:
            file.write("fail" if failing else "")


@contextlib.contextmanager
def recording_disk(folder: str, kind: str) -> Iterator[Disk]:
    """Make a file system of a kind on a new recording disk and mount it."""
    disk = Disk(folder, kind)
    image, fuse = os.path.join(folder, "image"), os.path.join(folder, "fuse")
    with open(image, "wb") as file:
        file.truncate(SIZE_MB[kind] << 20)
    sudo(f"mkfs.{kind}", "-q", "-F" if kind == "ext4" else "-f", image)
    sudo("cp", "--sparse=always", image, os.path.join(folder, "before"))
    disk.fail(failing=False)
    os.mkdir(fuse)
    with contextlib.ExitStack() as stack:
        arguments = [fuse, image, disk.log, os.path.join(folder, "mode")]
        server = subprocess.Popen([sys.executable, _SCRIPT, *arguments], stdin=subprocess.DEVNULL)
        stack.callback(_end, server, fuse)
        _await(fuse + FILE, server)
        device = sudo("losetup", "--find", "--show", fuse + FILE)
        stack.callback(subprocess.run, ["losetup", "-d", device], check=False)
        stack.enter_context(mounted("-t", kind, device, at=disk.root))
        yield disk
        disk.fail(failing=False)


def _await(path: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    while not os.path.exists(path):
        assert server.poll() is None, "the recording disk ended"
        assert time.monotonic() < end, "the recording disk did not come up"
        time.sleep(0.01)  # a mount appears when the kernel has it; nothing tells of it


def _end(server: subprocess.Popen[bytes], fuse: str) -> None:
    subprocess.run(["fusermount3", "-u", fuse], capture_output=True, check=False)
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        subprocess.run(["fusermount3", "-u", "-z", fuse], capture_output=True, check=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One write, or a flush when `data` is None; `end` is its place in the log."""

    end: int
    offset: int
    data: bytes | None


def read_log(path: str) -> list[Record]:
    """Read what a recording disk was told, in order."""
    records: list[Record] = []
    with open(path, "rb") as file:
        while header := file.read(HEADER.size):
            offset, length = HEADER.unpack(header)
            data = None if offset == FLUSH else file.read(length)
            records.append(Record(file.tell(), offset, data))
    return records


@dataclass(frozen=True, slots=True)
class Cut:
    """The power fails after `count` records; of the writes since the last flush some survive."""

    count: int
    survives: str  # none, all, some

    def surviving(self, records: Sequence[Record], chance: random.Random) -> list[Record]:
        """Give the writes that are on the disk afterwards."""
        past = records[: self.count]
        flushed = max((i for i, record in enumerate(past) if record.data is None), default=-1)
        return [
            record
            for place, record in enumerate(past)
            if record.data is not None
            and (
                place < flushed
                or self.survives == "all"
                or (self.survives == "some" and chance.random() < 0.5)
            )
        ]


def cuts(records: Sequence[Record], *, limit: int, chance: random.Random) -> list[Cut]:
    """Choose `limit` of all power cuts: after every record, with none, all or some surviving."""
    every = [
        Cut(count, survives)
        for count in range(1, len(records) + 1)
        for survives in ("none", "all", "some")
    ]
    return every if len(every) <= limit else chance.sample(every, limit)


@contextlib.contextmanager
def after_cut(disk: Disk, writes: Sequence[Record]) -> Iterator[str]:
    """Mount what a power cut left of a disk, and give the folder."""
    image = os.path.join(disk.folder, "after")
    sudo("cp", "--sparse=always", os.path.join(disk.folder, "before"), image)
    with open(image, "r+b") as file:
        for record in writes:
            file.seek(record.offset)
            file.write(record.data or b"")
    try:
        # every image has the identity of the first, which XFS would take for the same disk twice
        options = "loop,nouuid" if disk.kind == "xfs" else "loop"
        with mounted("-t", disk.kind, "-o", options, image, at=disk.folder + "/cut") as root:
            yield root
    finally:
        os.unlink(image)


def scratch() -> str | None:
    """Name a folder in memory for images, None for the usual one."""
    free = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
    return "/dev/shm" if free > 1 << 30 else None
