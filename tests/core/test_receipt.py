"""What a worker publishes: its exact bytes, and the totals that are derived from them."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.core.isolation import Isolation
from farm.core.receipt import (
    ReceiptReference,
    build_receipt,
    check_bytes,
    encode_receipt,
    read_receipt,
    receipt_name,
    recount,
    refer,
)
from farm.core.result import CaseResult
from farm.errors import Corrupt
from tests.examples import receipt_bytes, reference, verdict

DATA = receipt_bytes("a", "b", wrong=("b",), pid=7)
REFERENCE = reference("a", "b", wrong=("b",), pid=7)


def test_the_wire_form_is_compact_json_in_the_published_order() -> None:
    """The report shows these bytes as `Result`, so they are a contract."""
    assert DATA == (
        b'{"worker_pid":7,"cases":['
        b'{"id":"a","correct":true,"score":1.0,"outcome":"correct"},'
        b'{"id":"b","correct":false,"score":0.0,"outcome":"wrong"}'
        b'],"correct":1,"total":2}'
    )


def test_the_reference_counts_the_verdicts_and_digests_the_bytes() -> None:
    """The digest is what `sha256sum` prints for the bytes of the test above."""
    assert (
        ReceiptReference(
            sha256="d79399e90834182fde442f4c0aedfae5aa35ceb3d7c932d7c63ace0ed4767a4c",
            bytes=163,
            worker_pid=7,
            total=2,
            correct=1,
            outcomes={"correct": 1, "wrong": 1},
        )
        == REFERENCE
    )


def test_outcomes_are_counted_in_the_order_of_their_names() -> None:
    """Equal verdicts must give equal ledgers, whatever came first."""
    results = [
        CaseResult(id=name, correct=False, score=0.0, outcome=name) for name in ("wrong", "empty")
    ]
    made = build_receipt(results, worker_pid=1)
    assert list(refer(made, encode_receipt(made)).outcomes) == ["empty", "wrong"]


def test_a_receipt_is_read_back_and_its_order_kept() -> None:
    receipt = read_receipt(DATA, REFERENCE, path="receipts/x.json")
    assert list(receipt.cases) == [verdict("a"), verdict("b", correct=False)]
    assert encode_receipt(receipt) == DATA


def test_an_empty_receipt_has_totals_of_nought() -> None:
    made = build_receipt([], worker_pid=1)
    assert refer(made, encode_receipt(made)).outcomes == {}
    assert (made.correct, made.total) == (0, 0)


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.booleans()), max_size=20
    )
)
def test_counting_again_from_the_bytes_gives_the_reference(cases: list[tuple[str, bool]]) -> None:
    made = build_receipt([verdict(name, correct=right) for name, right in cases], worker_pid=3)
    data = encode_receipt(made)
    assert recount(data, path="x") == refer(made, data)


def test_counting_again_believes_the_verdicts_and_not_the_totals() -> None:
    lying = DATA.replace(b'"correct":1,"total":2', b'"correct":2,"total":9')
    counted = recount(lying, path="x")
    assert (counted.correct, counted.total) == (1, 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (DATA[:-1], "162 bytes where the ledger has 163"),
        (DATA + b" ", "164 bytes where the ledger has 163"),
        (b"", "0 bytes where the ledger has 163"),
    ],
)
def test_a_receipt_of_another_size_is_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as refused:
        read_receipt(data, REFERENCE, path="receipts/x.json")
    assert str(refused.value).startswith(f"receipts/x.json: {reason}; the file was left as it is")


def test_a_receipt_of_the_same_size_and_other_bytes_is_corrupt() -> None:
    edited = DATA.replace(b"true", b"null", 1)
    with pytest.raises(Corrupt, match=r"sha256 [0-9a-f]{64} where the ledger has d79399e9"):
        check_bytes(edited, REFERENCE, path="x")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"worker_pid":1,"cases":[{"correct":1,"outcome":"x"}],"correct":0,"total":0}',
        b'{"worker_pid":1,"cases":[],"correct":0,"total":0,"more":' + b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_receipt_are_corrupt_even_when_the_ledger_counts_on_them(
    data: bytes,
) -> None:
    believed = replace(REFERENCE, bytes=len(data), sha256=sha256(data).hexdigest())
    with pytest.raises(Corrupt, match="not a receipt"):
        read_receipt(data, believed, path="x")
    with pytest.raises(Corrupt, match="not a receipt"):
        recount(data, path="x")


def test_a_receipts_file_is_named_by_shard_and_version() -> None:
    assert receipt_name("shard-7", 2) == "shard-7.v2.json"


def test_isolation_is_written_where_programs_were_run_and_counted_again() -> None:
    """Scorers of texts keep the bytes they always had; `recount` must not lose the fact."""
    around = Isolation(level="os-enforced", landlock_abi=7, seccomp=True, namespaces=False)
    made = build_receipt([verdict("a")], worker_pid=7, isolation=around)
    data = encode_receipt(made)
    assert data.endswith(
        b',"isolation":{"level":"os-enforced","landlock_abi":7,"seccomp":true,'
        b'"namespaces":false,"grading":"split","trust":[]}}'
    )
    assert recount(data, path="r") == refer(made, data)
    assert read_receipt(data, refer(made, data), path="r").isolation == around
