"""The cases of a store: written in one pass, read by shard, and derived again in file order."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.core.canonical import DatasetDigest, canonical
from farm.core.case import Case
from farm.core.partition import bucket
from farm.errors import Corrupt, SpecError, StorageError, StorageFull
from farm.files.atomic import storage_errors
from farm.files.fresh import FreshFile
from farm.files.records import Batch, batch_of, read_cases
from farm.files.source import find_source
from farm.store.casefile import CASES_NAME, ORDER_NAME, ShardCases, StagedCases, read_extent
from farm.store.caseorder import dataset_digests
from farm.store.casewriter import FLUSH_BYTES, write_cases

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "cases.json"
here = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def case(id: str, response: str = "r", **more: object) -> Case:
    return msgspec.convert(
        {"id": id, "prompt": "p", "expected": "e", "response": response, **more}, Case
    )


def stage(
    directory: Path, batches: list[list[Case]], shards: int = 4, flush_bytes: int = FLUSH_BYTES
) -> StagedCases:
    return write_cases(
        map(batch_of, batches), shards=shards, directory=str(directory), flush_bytes=flush_bytes
    )


def bytes_of(directory: Path, shard: ShardCases) -> bytes:
    path = str(directory / CASES_NAME)
    with open(path, "rb") as file:
        return b"".join(read_extent(file.fileno(), path, extent) for extent in shard.extents)


def shard_of(directory: Path, shard: ShardCases) -> list[bytes]:
    return bytes_of(directory, shard).splitlines()


def test_the_sample_lies_in_its_published_shards(tmp_path: Path) -> None:
    """The digest is the reference implementation's; shard-0 to shard-3 hold case-d to case-a."""
    staged = write_cases(read_cases(find_source(str(SAMPLE))), shards=4, directory=str(tmp_path))
    assert staged.count == 4
    assert (
        staged.dataset_sha256 == "60eb5c9ae5c3fce2a328d662094c3204689130101ad85c1f4563ce0cd27dd267"
    )
    held = [
        (shard.index, msgspec.json.decode(line, type=Case).id)
        for shard in staged.shards
        for line in shard_of(tmp_path, shard)
    ]
    assert held == [(0, "case-d"), (1, "case-c"), (2, "case-b"), (3, "case-a")]


ids = st.lists(st.text("abé<\n", min_size=1, max_size=5), unique=True, max_size=30)


@here
@given(ids, st.integers(1, 7), st.integers(1, 9), st.integers(1, 400))
def test_however_records_are_blocked_the_store_says_the_same(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], size: int, shards: int, flush: int
) -> None:
    """Shards cover the cases, are disjoint, keep file order; the digests are the dataset's."""
    directory = tmp_path_factory.mktemp("store")
    targets = {"targets": ["x"]}
    cases = [case(text, text * 9, **(targets if len(text) > 3 else {})) for text in ids]
    batches = [cases[at : at + size] for at in range(0, len(cases), size)]
    staged = stage(directory, batches, shards, flush_bytes=flush)
    digest = DatasetDigest()
    digest.update([canonical(case) for case in cases])
    assert staged.dataset_sha256 == digest.dataset_sha256
    assert staged.tasks_sha256 == digest.tasks_sha256
    by_bucket = sorted(cases, key=lambda case: bucket(case.id, shards))
    wanted = {
        index: [canonical(case) for case in some]
        for index, some in groupby(by_bucket, key=lambda case: bucket(case.id, shards))
    }
    assert {shard.index: shard_of(directory, shard) for shard in staged.shards} == wanted
    for shard in staged.shards:
        data = bytes_of(directory, shard)
        assert shard.sha256 == hashlib.sha256(data).hexdigest()
        assert shard.cases == data.count(b"\n")
    assert dataset_digests(str(directory), staged.shards) == (
        staged.dataset_sha256,
        staged.tasks_sha256,
        len(cases),
    )


def test_long_records_and_long_shards_are_derived_again(tmp_path: Path) -> None:
    """Records longer than what is read ahead, and more records than are placed at a time."""
    cases = [case(f"{n}", "x" * (40_000 if n % 9_000 == 0 else 3)) for n in range(40_000)]
    staged = stage(tmp_path, [cases], 3)
    assert dataset_digests(str(tmp_path), staged.shards) == (
        staged.dataset_sha256,
        staged.tasks_sha256,
        40_000,
    )


def test_order_names_the_bucket_of_each_record_in_file_order(tmp_path: Path) -> None:
    """Two bytes a record, little endian; with 1,000 shards b is in 77 and a in 220.

    FNV-1a-32 of "b" is 0xe70c2de5 = 3876335077, of "a" 0xe40c292c = 3826002220.
    """
    stage(tmp_path, [[case("b")], [case("a")]], 1000)
    assert (tmp_path / ORDER_NAME).read_bytes() == bytes([77, 0, 220, 0])


def test_files_are_private_and_never_written_over(tmp_path: Path) -> None:
    stage(tmp_path, [[case("a")]])
    for name in (CASES_NAME, ORDER_NAME):
        assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600
    before = (tmp_path / CASES_NAME).read_bytes()
    with pytest.raises(StorageError, match="file exists"):
        stage(tmp_path, [[case("b")]])
    assert (tmp_path / CASES_NAME).read_bytes() == before


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", tmp_path / CASES_NAME)
    with pytest.raises(StorageError):
        stage(tmp_path, [[case("a")]])
    assert not (tmp_path / "elsewhere").exists()


def test_what_the_reader_raises_passes_through(tmp_path: Path) -> None:
    def broken() -> Iterator[Batch]:
        yield batch_of([case("a")])
        raise SpecError("line 2 is bad")

    with pytest.raises(SpecError, match="line 2 is bad"):
        write_cases(broken(), shards=4, directory=str(tmp_path))


@pytest.mark.parametrize(
    ("code", "kind"),
    [("ENOSPC", StorageFull), ("EDQUOT", StorageFull), ("EROFS", StorageError),
     ("EIO", StorageError)],
)  # fmt: skip
def test_errors_of_the_disk_are_told_by_what_helps(code: str, kind: type[StorageError]) -> None:
    error = OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
    with pytest.raises(StorageError) as told, storage_errors("x"):
        raise error
    assert told.type is kind
    assert told.value.exit_code == 3


def test_a_disk_that_takes_no_more_reaches_the_caller(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes a write fall short, then fail, in the writing thread: both are met."""
    probe = """
import resource, signal, sys
from farm.core.case import Case
from farm.errors import StorageError
from farm.files.records import batch_of
from farm.store.casewriter import write_cases
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
cases = [Case(id=str(n), prompt="p", expected="e", response="r") for n in range(100)]
try:
    write_cases([batch_of(cases)], shards=4, directory=sys.argv[1])
except StorageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", probe, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert f"{tmp_path / CASES_NAME}: file too large" in done.stdout
    assert os.path.getsize(tmp_path / CASES_NAME) == 1000


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        (CASES_NAME, lambda data: data[:-1], "ends 1 bytes before"),
        (CASES_NAME, lambda data: b"\n" + data[1:], "shard-0 has a line that is too short"),
        (CASES_NAME, lambda data: b"{\n" + data[2:], "shard-0 has a line that is too short"),
        (
            CASES_NAME,
            lambda data: data + data[: data.index(b"\n") + 1],
            "has [0-9]+ bytes, the rec",
        ),
        (CASES_NAME, lambda data: data + b"\0", "has [0-9]+ bytes, the records of its shards are"),
        (ORDER_NAME, lambda data: data[:-1], "has an odd length"),
        (ORDER_NAME, lambda data: data[:-2], "has more records than the order file says"),
        (ORDER_NAME, lambda data: data + data[:2], "has fewer records than the order file says"),
        (ORDER_NAME, lambda data: data + b"\x09\x00", "names shard-9, which the plan does not"),
        (CASES_NAME, None, "is missing"),
        (ORDER_NAME, None, "is missing"),
    ],
)
def test_damage_is_reported_as_damage(
    tmp_path: Path, name: str, damage: object, reason: str
) -> None:
    staged = stage(tmp_path, [[case(letter) for letter in "abcd"]])
    data = (tmp_path / name).read_bytes()
    if callable(damage):
        (tmp_path / name).write_bytes(damage(data))
    else:
        os.unlink(tmp_path / name)
    with pytest.raises(Corrupt, match=reason):
        dataset_digests(str(tmp_path), staged.shards)


def test_changed_bytes_or_a_changed_order_change_the_digest(tmp_path: Path) -> None:
    staged = stage(tmp_path, [[case(letter) for letter in "abcd"]])
    for name, old, new in (
        (CASES_NAME, b'"r"', b'"R"'),
        (ORDER_NAME, (tmp_path / ORDER_NAME).read_bytes(), bytes([1, 0, 2, 0, 0, 0, 3, 0])),
    ):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data.replace(old, new, 1))
        derived = dataset_digests(str(tmp_path), staged.shards)
        assert derived[0] != staged.dataset_sha256
        (tmp_path / name).write_bytes(data)


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    """Three times the records cost at most 20 bytes each more at the peak."""
    probe = """
import os, resource, sys, tempfile
from farm.core.case import Case
from farm.files.records import read_cases
from farm.files.source import find_source
from farm.store.casewriter import write_cases
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "big.jsonl")
    with open(path, "w") as file:
        for number in range(int(sys.argv[1])):
            file.write('{"id":"%d","prompt":"p","expected":"e","response":"r"}\\n' % number)
    write_cases(read_cases(find_source(path)), shards=64, directory=directory)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    unit = 1 if sys.platform == "darwin" else 1024
    few, many = (
        int(subprocess.check_output([sys.executable, "-c", probe, str(count)])) * unit
        for count in (700_000, 2_100_000)
    )
    assert many - few < 20 * 1_400_000


def test_a_worker_reads_its_shard_without_numpy() -> None:
    probe = "import sys, farm.store.casefile; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


def test_fresh_files_count_what_they_took(tmp_path: Path) -> None:
    with FreshFile(str(tmp_path / "x")) as file:
        file.write(b"ab")
        file.write(b"")
        file.write(b"c")
        file.sync()
        assert file.size == 3
    assert (tmp_path / "x").read_bytes() == b"abc"
