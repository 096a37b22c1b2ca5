"""The snapshot's wire form: what was written is read back, and nothing else is accepted."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.core.lease import LARGEST, Lease
from farm.core.ledger import Ledger, decode_ledger, encode_ledger, state_of
from farm.core.plan import first_ledger
from farm.errors import Corrupt
from tests.examples import DONE, FREE, HELD, QUARANTINED, plan_of, reference, states

LEDGER = replace(first_ledger(plan_of(2)), revision=3, previous="f" * 64)
DATA, CHECKSUM = encode_ledger(LEDGER)

_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_numbers = st.integers(0, LARGEST)
_leases = st.builds(
    Lease,
    shard=_names,
    worker=_names,
    version=_numbers,
    until=_numbers,
    attempts=_numbers,
    incarnation=_names,
    quarantined=st.booleans(),
    receipt=st.none() | st.just(reference("a", "b")),
)
ledgers = st.builds(
    Ledger,
    run_id=_names,
    revision=_numbers,
    previous=_names,
    leases=st.lists(_leases, max_size=4).map(tuple),
)


def test_the_wire_form_is_json_that_ends_in_a_checksum_of_all_before_it() -> None:
    """The digest is what `sha256sum` prints for the bytes in front of ``,"checksum"``."""
    assert encode_ledger(Ledger(run_id="r", leases=(HELD,))) == (
        b'{"schema_version":1,"run_id":"r","revision":0,"previous":"","leases":'
        b'[{"shard":"shard-0","worker":"w1","version":1,"until":100}],"checksum":'
        b'"3d83562d91dedc3301251ecdece27efafe34eb995e53bb45529bd3e8ae4c4400"}\n',
        "3d83562d91dedc3301251ecdece27efafe34eb995e53bb45529bd3e8ae4c4400",
    )


@given(ledgers)
def test_what_was_written_is_read_back_with_its_checksum(ledger: Ledger) -> None:
    data, checksum = encode_ledger(ledger)
    assert decode_ledger(data, path="ledger.json") == (ledger, checksum)


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_every_edit_of_a_single_byte_is_refused(place: int, flip: int) -> None:
    edited = bytearray(DATA)
    edited[place] ^= flip
    with pytest.raises(Corrupt, match=r"^store/ledger\.json: "):
        decode_ledger(bytes(edited), path="store/ledger.json")


def test_every_truncation_is_refused() -> None:
    """The newline at the end is a part of the file like any other byte."""
    for length in range(len(DATA)):
        with pytest.raises(Corrupt):
            decode_ledger(DATA[:length], path="ledger.json")


@given(st.binary(min_size=1, max_size=40))
def test_nothing_may_stand_before_or_behind_a_snapshot(more: bytes) -> None:
    for data in (DATA + more, more + DATA):
        with pytest.raises(Corrupt):
            decode_ledger(data, path="ledger.json")


@given(st.binary(max_size=400))
def test_foreign_bytes_are_refused_without_a_traceback(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_ledger(data, path="ledger.json")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (DATA[:-1], "truncated: the checksum at its end is missing"),
        (DATA.replace(b"shard-1", b"shard-2"), "edited or torn: its checksum does not match"),
        (
            encode_ledger(replace(LEDGER, schema_version=2))[0],
            "schema 2, this farm reads 1",
        ),
    ],
)
def test_the_message_says_in_which_way_the_file_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as refused:
        decode_ledger(data, path="ledger.json")
    assert str(refused.value) == (
        f"ledger.json: {reason}; the file was left as it is: "
        "restore it from a copy, or start a new store"
    )


def test_a_file_that_is_sealed_but_no_ledger_is_refused() -> None:
    """Whoever seals it: deep nesting and unknown fields are no ledger."""
    for body in (b'{"x":' + b"[" * 100_000, b'{"run_id":"r","leases":[],"more":1'):
        data = body + b',"checksum":"' + sha256(body).hexdigest().encode() + b'"}\n'
        with pytest.raises(Corrupt, match="not a ledger"):
            decode_ledger(data, path="ledger.json")


def test_states_are_counted_by_one_word_each() -> None:
    assert [state_of(lease) for lease in (FREE, HELD, DONE, QUARANTINED)] == [
        "open",
        "leased",
        "done",
        "quarantined",
    ]
    ledger = Ledger(run_id="r", leases=(FREE, HELD, HELD, DONE, QUARANTINED))
    assert states(ledger) == {"done": 1, "leased": 2, "open": 1, "quarantined": 1}


def test_a_ledger_is_settled_when_nothing_is_left_to_do_and_complete_when_all_is_done() -> None:
    assert Ledger(run_id="r", leases=(DONE, DONE)).complete
    partial = Ledger(run_id="r", leases=(DONE, QUARANTINED))
    assert (partial.settled, partial.complete) == (True, False)
    assert not Ledger(run_id="r", leases=(DONE, HELD)).settled


def test_a_lease_is_found_by_the_name_of_its_shard() -> None:
    assert LEDGER.lease("shard-1").shard == "shard-1"
    with pytest.raises(KeyError):
        LEDGER.lease("shard-2")
